// Draws the tables of charts with uPlot, again after each update of the page. Without it the tables
// are readable.
"use strict";

const colours = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
const height = 180;
const drawn = new Map();

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The numbers; the legend of a drawn chart is a table, too.
function table(figure) {
  return figure.querySelector("details table");
}

// Moments in seconds, then the values of each column; an unknown value is null.
function numbers(figure) {
  const rows = [...table(figure).querySelectorAll("tbody tr")];
  const columns = table(figure).querySelectorAll("thead th").length - 1;
  const value = (row, n) => (row.cells[n].textContent === "" ? null : Number(row.cells[n].textContent));
  const all = [rows.map((row) => Number(row.cells[0].dataset.at))];
  for (let n = 1; n <= columns; n += 1) all.push(rows.map((row) => value(row, n)));
  return all;
}

// Labels of the time axis: with seconds for a short time span.
function moments(self, splits) {
  const span = self.scales.x.max - self.scales.x.min;
  const parts = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (span < 600) parts.second = "2-digit";
  const format = new Intl.DateTimeFormat(document.documentElement.lang, parts);
  return splits.map((at) => format.format(at * 1000));
}

function draw(figure) {
  const plot = figure.querySelector(".plot");
  const names = [...table(figure).querySelectorAll("thead th")].map((cell) => cell.textContent);
  const axis = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 },
    ticks: { stroke: style("--line"), width: 1 } };
  const series = names.map((label, n) => (n === 0 ? { label, value: "{HH}:{mm}:{ss}" } : {
    label, width: 2, stroke: style(colours[(n - 1) % colours.length]), points: { show: false },
  }));
  const options = { width: plot.clientWidth, height, series, axes: [{ ...axis, values: moments, space: 80 }, { ...axis, size: 60 }],
    cursor: { drag: { x: false, y: false } }, legend: { live: false },
    scales: { y: { range: (self, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } } };
  drawn.get(figure)?.destroy();
  drawn.set(figure, new uPlot(options, numbers(figure), plot));
}

function drawAll() {
  document.querySelectorAll("figure.chart").forEach(draw);
}

drawAll();
let pause = 0;
addEventListener("resize", () => {
  clearTimeout(pause);
  pause = setTimeout(drawAll, 200);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
document.addEventListener("renewed", (event) => {
  document.querySelectorAll("figure.chart").forEach((figure) => {
    const fresh = event.detail.getElementById(figure.id);
    const [old, next] = [table(figure), fresh && table(fresh)];
    if (!next || old.textContent === next.textContent) return;
    const isSame = old.tHead.textContent === next.tHead.textContent;
    old.replaceChildren(...next.childNodes);
    if (isSame) drawn.get(figure).setData(numbers(figure)); else draw(figure);
  });
  // Charts of a job that had none when the page was loaded.
  const fresh = event.detail.querySelectorAll("#charts figure.chart");
  const missing = [...fresh].filter((figure) => !document.getElementById(figure.id));
  const box = document.getElementById("charts");
  if (!box || missing.length === 0) return;
  box.hidden = false;
  box.querySelector(".charts").append(...missing);
  missing.forEach(draw);
});
