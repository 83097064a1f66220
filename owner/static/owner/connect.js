// Buttons that copy, and a look every three seconds at what has come of it. Without this the lines can
// be selected by hand, and a link looks again.
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
      button.textContent = "Select it by hand";
    }
  });
  line.append(button);
}

const place = document.getElementById("progress");
const stage = () => place.querySelector("[data-stage]").dataset.stage;

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch(place.dataset.status, { redirect: "error" });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const now = page.querySelector("[data-stage]");
        if (now && now.outerHTML !== place.firstElementChild.outerHTML) place.replaceChildren(now);
      }
    } catch {
      // The server is away for a moment, or the owner signed out: look again later.
    }
  }
  if (stage() !== "called") setTimeout(look, 3000);
}
if (stage() !== "called") setTimeout(look, 3000);
