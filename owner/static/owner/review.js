// Counts again whenever a choice changes: the page is asked for anew and its counts are put in
// place. Without this the button "Count again" does the same, and nothing is allowed unseen.
"use strict";
const form = document.getElementById("choice");
let latest = 0;
let waiting;

async function recount() {
  const mine = ++latest;
  const answers = new FormData(form);
  answers.set("decision", "review");
  document.body.classList.add("counting");
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(answers), redirect: "manual" });
    if (mine !== latest || !(answer.status === 200 || answer.status === 422)) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== latest) return;
    for (const place of document.querySelectorAll("[data-live]")) {
      const now = page.getElementById(place.id);
      if (now) place.replaceChildren(...now.childNodes);
    }
  } finally {
    if (mine === latest) document.body.classList.remove("counting");
  }
}

form.addEventListener("change", () => {
  clearTimeout(waiting);
  waiting = setTimeout(recount, 250);
});
document.body.classList.add("live");
