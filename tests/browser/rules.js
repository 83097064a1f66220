// What a page must keep to for whoever does not see it, or has no mouse: a list of faults, empty where
// there are none. Of WCAG 2.2 what can be told without a network; contrast is that of AA.
const shown = (each) => each.checkVisibility({ visibilityProperty: true });
const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
const faults = [];
for (const each of document.getAnimations()) each.finish();

if (!document.documentElement.lang) faults.push("no language");
if (!document.title.trim()) faults.push("no title");
for (const [what, selector] of [["main", "main, [role=main]"], ["h1", "h1"]]) {
  if (all(selector).length !== 1) faults.push(`${all(selector).length} ${what}`);
}

let before = 0;
for (const each of all("h1, h2, h3, h4, h5, h6")) {
  const level = Number(each.tagName[1]);
  if (level > before + 1) faults.push(`h${level} after h${before}: ${each.textContent.trim()}`);
  before = level;
}

const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) faults.push(`twice: #${id}`);
for (const name of ["aria-describedby", "aria-labelledby", "aria-controls"]) {
  for (const each of document.querySelectorAll(`[${name}]`)) {
    for (const id of each.getAttribute(name).split(/\s+/)) {
      if (!document.getElementById(id)) faults.push(`${name} leads nowhere: #${id}`);
    }
  }
}

const named = (each) =>
  [...(each.labels || [])].some((label) => label.textContent.trim() || label.querySelector("[alt]")) ||
  each.getAttribute("aria-label") || each.getAttribute("aria-labelledby") || each.textContent.trim() || each.title || each.value;
for (const each of all("input:not([type=hidden], [type=submit]), select, textarea, button, a[href]")) {
  const field = each.matches("input, select, textarea");
  const name = field ? named({ labels: each.labels, getAttribute: (it) => each.getAttribute(it), textContent: "" }) : named(each);
  if (!name && each.getAttribute("aria-hidden") !== "true") faults.push(`no name: ${each.outerHTML.slice(0, 90)}`);
}

const parsed = (colour) => {
  const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
  return { rgb: [red, green, blue], alpha };
};
const over = (top, below) => top.rgb.map((part, place) => part * top.alpha + below[place] * (1 - top.alpha));
function ground(each) {
  const layers = [];
  for (let at = each; at; at = at.parentElement) {
    const style = getComputedStyle(at);
    if (style.backgroundImage !== "none") return null;
    layers.unshift(parsed(style.backgroundColor));
  }
  return layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
}
const light = (rgb) => {
  const [red, green, blue] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (one, other) => {
  const [more, less] = [light(one), light(other)].sort((a, b) => b - a);
  return (more + 0.05) / (less + 0.05);
};
const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const told = new Set();
while (words.nextNode()) {
  const each = words.currentNode.parentElement;
  if (!words.currentNode.data.trim() || !shown(each) || each.closest("option, script, noscript, [disabled], .fixed")) continue;
  const style = getComputedStyle(each);
  const behind = ground(each);
  if (!behind) continue;
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
  const ratio = contrast(over(parsed(style.color), behind), behind);
  const fault = `contrast ${ratio.toFixed(2)}: ${style.color} on rgb(${behind.map(Math.round)})`;
  if (ratio < (large ? 3 : 4.5) && !told.has(fault)) {
    told.add(fault);
    faults.push(`${fault}: ${words.currentNode.data.trim().slice(0, 40)}`);
  }
}

if (document.documentElement.scrollWidth > document.documentElement.clientWidth) faults.push("wider than the window");
return faults;
