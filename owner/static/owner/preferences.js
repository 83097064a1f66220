// Proposes the time zone of the browser: fills in the field while it is UTC, and else offers a button.
"use strict";
const row = document.querySelector("[data-time-zone]");
const field = row && row.querySelector("input");
const found = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (field && found && field.value !== found) {
  if (row.dataset.timeZone === "fill") {
    field.value = found;
  } else {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Use ${found}`;
    button.addEventListener("click", () => {
      field.value = found;
      button.remove();
    });
    field.after(" ", button);
  }
}
