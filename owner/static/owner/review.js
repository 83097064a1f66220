// Keeps the counts and the summary up to date while the owner types, and selects a view's fields in
// place. Without this script the button "Update summary" does the same; the server rejects an approval
// of an outdated summary. Expiry and limits apply as typed, so they never delay an approval.
"use strict";
const form = document.getElementById("grant-form");
const unseen = document.getElementById("unseen");
const AS_TYPED = /^(limits|terms)-|^(client|new_client|purpose|tokens)$/;
let latestRequest = 0;
let timer;
let changes = 0;
let summarized = 0;
const isOutdated = () => summarized !== changes;

async function updateSummary(pick) {
  clearTimeout(timer);
  const thisRequest = ++latestRequest;
  const sent = changes;  // what changes from now on is not in the answer
  const data = new FormData(form);
  data.set("decision", "review");
  if (pick) data.set("pick", pick);
  document.body.classList.add("counting");
  try {
    const response = await fetch(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(data), redirect: "manual" });
    if (thisRequest !== latestRequest || !(response.status === 200 || response.status === 422)) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (thisRequest !== latestRequest) return;
    if (pick) {
      const stream = document.getElementById(pick.split(":")[0]);
      for (const box of stream.querySelectorAll("input[type=checkbox][id]")) {
        const updated = page.getElementById(box.id);
        if (updated) box.checked = updated.checked;
      }
    }
    for (const section of document.querySelectorAll("[data-live]")) {
      const updated = page.getElementById(section.id);
      if (updated) section.replaceChildren(...updated.childNodes);
    }
    summarized = sent;
  } finally {
    if (thisRequest === latestRequest) document.body.classList.remove("counting");
  }
}

form.addEventListener("input", (event) => {
  if (!AS_TYPED.test(event.target.name)) changes++;
  clearTimeout(timer);
  timer = setTimeout(updateSummary, 250);
});
form.addEventListener("click", (event) => {
  const button = event.target.closest("button[name=pick]");
  if (!button) return;
  event.preventDefault();
  changes++;
  updateSummary(button.value);
});
form.addEventListener("submit", async (event) => {
  const decision = event.submitter ? event.submitter.value : "review";
  if (decision === "review") {  // the Enter key in a field
    event.preventDefault();
    await updateSummary();
  } else if (decision === "allow" && isOutdated()) {
    event.preventDefault();
    await updateSummary();
    unseen.hidden = false;
  }
});
document.body.classList.add("live");
