// Keeps the parts of a page that have [data-follow] up to date while work goes on: a server that is done
// leaves the attribute out. Without this script the page says how to load it again.
"use strict";
const parts = () => [...document.querySelectorAll("[data-follow]")];

async function update() {
  if (!document.hidden) {
    try {
      const response = await fetch(parts()[0].dataset.follow || location.href, { redirect: "error" });
      const page = new DOMParser().parseFromString(response.ok ? await response.text() : "", "text/html");
      for (const part of parts()) {
        const now = page.getElementById(part.id);
        if (now && now.outerHTML !== part.outerHTML) part.replaceWith(now);
      }
    } catch {
      // The server is restarting, or the owner signed out: try again later.
    }
  }
  if (parts().length) setTimeout(update, 2000);
}
if (parts().length) setTimeout(update, 2000);
