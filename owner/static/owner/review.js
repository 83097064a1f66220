// Requests the page again whenever the form changes, and replaces its counts. Without this script the
// button "Update summary" does the same; the server rejects an approval of an outdated summary.
"use strict";
const form = document.getElementById("grant-form");
let latestRequest = 0;
let timer;

async function updateSummary() {
  const thisRequest = ++latestRequest;
  const data = new FormData(form);
  data.set("decision", "review");
  document.body.classList.add("counting");
  try {
    const response = await fetch(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(data), redirect: "manual" });
    if (thisRequest !== latestRequest || !(response.status === 200 || response.status === 422)) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (thisRequest !== latestRequest) return;
    for (const section of document.querySelectorAll("[data-live]")) {
      const updated = page.getElementById(section.id);
      if (updated) section.replaceChildren(...updated.childNodes);
    }
  } finally {
    if (thisRequest === latestRequest) document.body.classList.remove("counting");
  }
}

form.addEventListener("change", () => {
  clearTimeout(timer);
  timer = setTimeout(updateSummary, 250);
});
document.body.classList.add("live");
