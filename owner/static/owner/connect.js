// Adds copy buttons, and updates the connection progress every three seconds. Without this script the
// commands can be selected by hand, and a link updates the progress.
"use strict";
for (const line of document.querySelectorAll("pre.copy")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copies";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(line.firstChild.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy by hand";
    }
  });
  line.append(button);
}

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
