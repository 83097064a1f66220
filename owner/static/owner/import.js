// Sends a large file in slices, and follows an import. Without it a smaller file is sent whole, and
// the page of an import loads itself again.
"use strict";
const SLICE = 8 * 1024 * 1024;

async function send(form, file) {
  const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
  const row = document.getElementById("sending");
  row.hidden = false;
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
    row.querySelector("span").textContent = `${percent} % sent`;
  }
  location.assign(next);
}

const form = document.getElementById("send");
if (form) {
  form.addEventListener("submit", (event) => {
    const file = form.querySelector("[type=file]").files[0];
    if (!file) return;
    event.preventDefault();
    send(form, file).catch((error) => {
      document.querySelector("#sending span").textContent = `Not sent: ${error.message}`;
    });
  });
}

const followed = document.getElementById("progress");
if (followed && followed.dataset.progress) {
  const timer = setInterval(async () => {
    const told = await (await fetch(followed.dataset.progress)).json();
    const rows = followed.querySelectorAll(".run");
    if (!told.is_going_on || told.runs.length !== rows.length) {
      clearInterval(timer);
      location.reload();
      return;
    }
    told.runs.forEach((run, number) => {
      rows[number].querySelector("progress").value = run.percent;
      rows[number].querySelector("span").textContent = run.text;
    });
  }, 1000);
}
