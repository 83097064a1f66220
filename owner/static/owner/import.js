// Sends files in slices, also those dropped on the page. Without it a smaller file is sent whole.
"use strict";
const SLICE = 8 * 1024 * 1024;

async function send(form, file, row) {
  const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
  let upload = "", offset = 0, next = "";
  while (offset < file.size || !next) {
    const said = new URLSearchParams({ name: file.name, size: file.size, offset, upload });
    const answer = await fetch(`${form.dataset.slices}?${said}`, {
      method: "POST",
      headers: { "X-CSRFToken": token, "Content-Type": "application/octet-stream" },
      body: file.slice(offset, offset + SLICE),
    });
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error);
    ({ upload, received: offset, next } = told);
    const percent = file.size ? Math.floor((offset * 100) / file.size) : 100;
    row.querySelector("progress").value = percent;
    row.querySelector("span").textContent = `${file.name}: ${percent} % sent`;
  }
  return next;
}

// One file leads to its own page; several are listed on this one.
async function sendAll(form, files) {
  const row = document.getElementById("sending");
  row.hidden = false;
  try {
    let next = "";
    for (const file of files) next = await send(form, file, row);
    location.assign(files.length === 1 ? next : location.pathname);
  } catch (error) {
    row.querySelector("span").textContent = `Not sent: ${error.message}`;
  }
}

const form = document.getElementById("send");
if (form) {
  form.addEventListener("submit", (event) => {
    const files = [...form.querySelector("[type=file]").files];
    if (!files.length) return;
    event.preventDefault();
    sendAll(form, files);
  });
  const carriesFiles = (event) => event.dataTransfer && event.dataTransfer.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    form.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("dropping");
  });
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    form.classList.remove("dropping");
    sendAll(form, [...event.dataTransfer.files]);
  });
}
