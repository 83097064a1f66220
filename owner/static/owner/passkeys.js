// Passkeys: fetches options, asks the browser, and puts its answer into the form. Without this script the
// owner enters a code.
"use strict";
for (const place of document.querySelectorAll("[data-passkey]")) {
  const form = place.closest("form");
  const status = form.querySelector("[data-passkey-status]");
  const adds = "adds" in place.dataset;
  const say = (text) => { status.textContent = text; };
  const isSupported = window.PublicKeyCredential && PublicKeyCredential.parseRequestOptionsFromJSON;
  if (!place.dataset.origin) {
    say("Passkeys need a server with a host name and TLS.");
    continue;
  }
  if (location.origin !== place.dataset.origin) {
    say(`To use passkeys, open this server at ${place.dataset.origin}.`);
    continue;
  }
  if (!isSupported) {
    say("This browser cannot use passkeys here.");
    continue;
  }
  place.hidden = false;
  say("");
  place.querySelector("button").addEventListener("click", async () => {
    try {
      const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
      const response = await fetch(place.dataset.passkey, { method: "POST", headers: { "X-CSRFToken": token }, redirect: "error" });
      const options = await response.json();
      if (options.confirm) return location.assign(options.confirm);
      if (!response.ok) return say(options.error);
      const credential = adds
        ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
        : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
      form.querySelector("[name=passkey]").value = JSON.stringify(credential);
    } catch {
      return say("The passkey was not used. Try again.");
    }
    if ("submits" in place.dataset) form.submit();
    else say("The passkey was accepted by this browser. Now choose what to do.");
  });
}
