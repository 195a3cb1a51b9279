"use strict";
// Draws the figures one after the other, so that the page answers from the start, and all of them before printing.
const drawings = JSON.parse(document.getElementById("calmon-figures").textContent);
const waiting = Object.keys(drawings);

function draw(id) {
  const place = document.getElementById(id);
  const { data, layout } = drawings[id];
  Plotly.newPlot(place, data, layout, { displayModeBar: false, responsive: true });
}

function drawNext() {
  if (waiting.length === 0) {
    document.documentElement.dataset.figures = "drawn";
    return;
  }
  draw(waiting.shift());
  setTimeout(drawNext, 0);
}

function fit(width) {
  for (const place of document.querySelectorAll(".js-plotly-plot")) {
    Plotly.relayout(place, width ? { width: width(place) } : { width: null, autosize: true });
  }
}

window.addEventListener("beforeprint", () => {
  while (waiting.length > 0) draw(waiting.shift());
  // A4 or letter less the margins, in CSS pixels, by the shares of the grid
  fit((place) => (place.closest(".trio") ? 208 : place.id.endsWith("-reliability") ? 250 : 400));
});
window.addEventListener("afterprint", () => fit(null));
drawNext();
