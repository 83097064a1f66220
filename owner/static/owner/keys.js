// Keys: "/" goes to the search, "j" and "k" through the links of lists, "?" lists these keys. No page needs
// them; they can be turned off, as speech input may type them.
"use strict";
const KEYS = [["/", "Search"], ["j", "Next in the list"], ["k", "Previous in the list"], ["Enter", "Open"], ["?", "These keys"]];
const areOff = () => localStorage.getItem("keys") === "off";

function move(step) {
  const places = [...document.querySelectorAll("main :is(li, article, tbody tr)")].map((each) => each.querySelector("a[href]"));
  const links = [...new Set(places)].filter((each) => each && each.checkVisibility());
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step];
  if (next) next.focus();
}

function show() {
  const dialog = document.createElement("dialog");
  const title = document.createElement("h2");
  title.textContent = "Keys";
  const list = document.createElement("dl");
  for (const [key, words] of KEYS) {
    for (const [tag, text] of [["dt", key], ["dd", words]]) {
      const part = document.createElement(tag);
      part.textContent = text;
      list.append(part);
    }
  }
  const close = document.createElement("form");
  Object.assign(close, { method: "dialog", className: "row" });
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: !areOff() });
  box.addEventListener("change", () => localStorage.setItem("keys", box.checked ? "on" : "off"));
  label.className = "box";
  label.append(box, " Use these keys");
  const button = document.createElement("button");
  button.textContent = "Close";
  close.append(label, button);
  dialog.append(title, list, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const shown = document.getElementById("show-keys");
if (shown) {
  shown.hidden = false;
  shown.addEventListener("click", show);
}
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input:not([type=checkbox], [type=radio]), select, textarea, dialog");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || areOff()) return;
  const search = document.getElementById("find");
  const action = { "/": search && (() => search.focus()), j: () => move(1), k: () => move(-1), "?": show }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
