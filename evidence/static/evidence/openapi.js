"use strict";
SwaggerUIBundle({
  url: document.getElementById("document").dataset.url,
  domNode: document.getElementById("document"),
  deepLinking: true,
  validatorUrl: null,
});
