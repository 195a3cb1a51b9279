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

  // What is under the pointer in a row of cells: data-cells is a letter a cell, data-names on the table gives their names.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const words = JSON.parse(document.querySelector("[data-words]")?.dataset.words ?? "{}");
  for (const svg of document.querySelectorAll("svg[data-cells]")) {
    const names = svg.closest("[data-names]").dataset.names.split(" ");
    const cells = svg.dataset.cells;
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.min(cells.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * cells.length)));
    };
    svg.addEventListener("pointermove", (event) => {
      const place = at(event);
      tip.textContent = `${names[place]}: ${words[cells[place]] ?? cells[place]}`;
      tip.hidden = false;
      const left = Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8);
      tip.style.setProperty("left", `${left}px`);
      tip.style.setProperty("top", `${event.clientY + 14}px`);
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    svg.addEventListener("click", (event) => {
      const link = svg.closest("tr")?.querySelector("th a")?.getAttribute("href");
      if (link) window.location.assign(`${link}${link.includes("?") ? "&" : "?"}week=${names[at(event)]}`);
    });
  }
})();
