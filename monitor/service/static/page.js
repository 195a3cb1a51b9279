"use strict";
// Adds comfort only: every page says the same without it.
(() => {
  // A form of filters is sent when one of its lists changes.
  for (const form of document.querySelectorAll("form[data-auto]")) {
    for (const list of form.querySelectorAll("select")) list.addEventListener("change", () => form.requestSubmit());
    // Only what says something gets into the address.
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
    });
  }
})();
