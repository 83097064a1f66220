// Updates the connection progress every three seconds. Without this script a link does.
"use strict";
const progress = document.getElementById("progress");
const stage = () => progress.querySelector("[data-stage]").dataset.stage;

async function update() {
  if (!document.hidden) {
    try {
      const response = await fetch(progress.dataset.status, { redirect: "error" });
      if (response.ok) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const stages = page.querySelector("[data-stage]");
        if (stages && stages.outerHTML !== progress.firstElementChild.outerHTML) progress.replaceChildren(stages);
      }
    } catch {
      // The server is restarting, or the owner signed out: try again later.
    }
  }
  if (stage() !== "called") setTimeout(update, 3000);
}
if (stage() !== "called") setTimeout(update, 3000);
