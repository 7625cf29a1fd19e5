// The planner: formulas of replearn.plans.cell_prices with the tables of tables.js, and a page.
"use strict";

// ---------------------------------------------------------------- formulas

const AFFORDABLE = 0.1; // of what a good model gains
const MOST_CODES = TABLES.codes[TABLES.codes.length - 1];
const SMALLEST_RHO = TABLES.disagreements[0];
const LARGEST_RHO = TABLES.disagreements[TABLES.disagreements.length - 1];

function interpolate(x, xs, ys) {
  // as numpy.interp: linear, and constant beyond the ends
  if (x <= xs[0]) return ys[0];
  const last = xs.length - 1;
  if (x >= xs[last]) return ys[last];
  let i = 0;
  while (x >= xs[i + 1]) i += 1;
  return ((ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i])) * (x - xs[i]) + ys[i];
}

// tables as logarithms: for each number of bits, a list of columns
const logColumns = (tables) => tables.map((table) =>
  TABLES.disagreements.map((_, j) => table.map((row) => Math.log(row[j]))));
const LOG_CODES = TABLES.codes.map(Math.log);
const LOG_RHOS = TABLES.disagreements.map(Math.log);
const LOG_RATIOS = logColumns(TABLES.ratios);
const LOG_VARIANCES = logColumns(TABLES.variances);

function fromTable(columns, codes, rho) {
  const atCodes = columns.map((column) => interpolate(Math.log(codes), LOG_CODES, column));
  const wanted = Math.log(rho);
  if (wanted < LOG_RHOS[0]) {  // the last slope is continued
    const slope = (atCodes[1] - atCodes[0]) / (LOG_RHOS[1] - LOG_RHOS[0]);
    return Math.exp(atCodes[0] + slope * (wanted - LOG_RHOS[0]));
  }
  return Math.exp(interpolate(wanted, LOG_RHOS, atCodes));
}

function widthRatio({ codes, bits, rho, sites }) {
  if (bits > 0) return fromTable(LOG_RATIOS[bits - 1], codes, rho / (sites - 1));
  return meanGap(sites) / -Math.expm1(Math.log1p(-rho) / codes);
}

function meanGap(sites) {
  return Math.sqrt(2 / Math.PI) * TABLES.ranges[sites];
}

function positionVariance({ codes, bits, rho, sites }) {
  return bits > 0 ? fromTable(LOG_VARIANCES[bits - 1], codes, rho / (sites - 1)) : 1 / 12;
}

// nats times rows of a site
function price(plan) {
  return plan.codes * positionVariance(plan) * widthRatio(plan) ** 2;
}

// all of `sites` sites agree, in cells that were planned for others
function agreement(plan, sites) {
  if (plan.bits > 0) return Math.max(0, 1 - ((sites - 1) * plan.rho) / (plan.sites - 1));
  return Math.max(0, 1 - meanGap(sites) / widthRatio(plan)) ** plan.codes;
}

function entropy(base) {
  return -(base * Math.log(base) + (1 - base) * Math.log1p(-base));
}

function gain({ base, signal }) {
  return signal * entropy(base);
}

function allPrices(plan) {
  return Array.from({ length: MOST_CODES }, (_, i) => price({ ...plan, codes: i + 1 }));
}

function affordable(plan, rows, prices = allPrices(plan)) {
  const limit = AFFORDABLE * gain(plan) * rows;
  let most = 0;
  prices.forEach((cost, i) => { if (cost <= limit) most = i + 1; });
  return most;
}

// ---------------------------------------------------------------- words

function shown(x) {
  const rounded = Number(x.toPrecision(3));
  if (rounded >= 1000) return rounded.toLocaleString("en-US");
  return rounded === 0 || rounded >= 1e-6 ? x.toPrecision(3) : x.toExponential(2);
}

function percent(x) {
  return `${shown(100 * x)} %`;
}

function counted(codes) {
  return codes === MOST_CODES ? `${codes} or more` : String(codes);
}

function verdict(plan, share, most) {
  const thing = `${plan.codes} coded number${plan.codes === 1 ? "" : "s"}`;
  if (share <= AFFORDABLE) return `Affordable: with ${thing}, agreement costs ${percent(share)} of the gain.`;
  if (share >= 1) {
    return `Out of reach: with ${thing}, rounding costs more than a good model gains.${remedy(plan, most)}`;
  }
  return `Expensive: with ${thing}, agreement costs ${percent(share)} of the gain.${remedy(plan, most)}`;
}

function remedy(plan, most) {
  const ways = [];
  if (most > 0) ways.push(`${most} coded number${most === 1 ? "" : "s"}`);
  for (let bits = plan.bits + 1; bits <= TABLES.maxBits; bits += 1) {
    if (price({ ...plan, bits }) <= AFFORDABLE * gain(plan) * plan.rows) {
      ways.push(`${bits} hint bit${bits === 1 ? "" : "s"}`);
      break;
    }
  }
  const needed = price(plan) / gain(plan) / AFFORDABLE;
  ways.push(`${shown(needed)} rows per site`);
  return ` What would do: ${ways.join(", or ")}.`;
}

function notes(plan) {
  const found = [];
  const pair = plan.rho / (plan.sites - 1);
  if (plan.bits > 0 && (pair < SMALLEST_RHO || pair > LARGEST_RHO)) {
    found.push(`The table of hints goes from ${SMALLEST_RHO} to ${LARGEST_RHO} for each pair of sites, and this is ${shown(pair)}: `
      + (pair < SMALLEST_RHO ? "its last slope is continued." : "the end of the table is taken, and the price is too high."));
  }
  const rarer = plan.rows * Math.min(plan.base, 1 - plan.base);
  if (rarer < 20 * plan.codes) {
    found.push(`Only about ${shown(rarer)} rows of the rarer class per site, for ${plan.codes} numbers. `
      + "With fewer than 20 for each, expect more disagreement than planned (a rule of thumb).");
  }
  return found;
}

// ---------------------------------------------------------------- state

const INPUTS = {
  rows: { start: 20000, low: 100, high: 1e7, whole: true },
  sites: { start: 2, low: 2, high: 64, whole: true },
  disagreement: { start: 0.1, low: 0.005, high: 0.3 },
  numbers: { start: 5, low: 1, high: 128, whole: true },
  bits: { start: 4, low: 0, high: 8, whole: true },
  base: { start: 0.2, low: 0.001, high: 0.999 },
  signal: { start: 0.1, low: 0.001, high: 1 },
};
const at = (id) => document.getElementById(id);
const state = {};

function accepted(name, text) {
  const { low, high, whole } = INPUTS[name];
  const value = Number(text);
  if (String(text).trim() === "" || !Number.isFinite(value)) return null;
  const kept = Math.min(high, Math.max(low, value));
  return whole ? Math.round(kept) : kept;
}

const toSlider = (name, value) => (name === "rows" ? 100 * Math.log10(value / 100) : value);
function fromSlider(name, place) {
  if (name !== "rows") return Number(place);
  return Number((100 * 10 ** (place / 100)).toPrecision(2));
}

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const [name, { start }] of Object.entries(INPUTS)) {
    state[name] = accepted(name, given.get(name) ?? "") ?? start;
  }
}

function hash() {
  return `#${new URLSearchParams(Object.entries(state)).toString()}`;
}

// browsers allow few changes of the address in a second: write it when a slider rests
let resting = 0;
function keepHash() {
  at("link").href = hash();
  clearTimeout(resting);
  resting = setTimeout(() => {
    try {
      history.replaceState(null, "", hash());
    } catch { /* some forbid it for files; the link has it all the same */ }
  }, 300);
}

function plan() {
  return {
    rows: state.rows, sites: state.sites, rho: state.disagreement, codes: state.numbers,
    bits: state.bits, base: state.base, signal: state.signal,
  };
}

function showInputs(except) {
  for (const name of Object.keys(INPUTS)) {
    if (name !== except) at(name).value = state[name]; // never change what is being typed
    const slider = at(`${name}-slider`);
    slider.value = toSlider(name, state[name]);
    slider.setAttribute("aria-valuetext", state[name].toLocaleString("en-US"));
  }
}

// ---------------------------------------------------------------- answer

function showAnswer() {
  const asked = plan();
  const cost = price(asked) / asked.rows;
  const share = cost / gain(asked);
  const most = affordable(asked, asked.rows);
  const loss = entropy(asked.base);
  const texts = {
    verdict: verdict(asked, share, most),
    price: shown(cost),
    share: percent(share),
    needed: shown((cost * asked.rows) / gain(asked) / AFFORDABLE),
    affordable: counted(most),
    entropy: shown(loss),
    good: shown(loss - gain(asked)),
    rounded: shown(loss - gain(asked) + cost),
    agreement: shown(agreement(asked, asked.sites)),
    pair: shown(agreement(asked, 2)),
    width: shown(widthRatio(asked) * Math.SQRT2),
  };
  for (const [id, text] of Object.entries(texts)) at(id).textContent = text;
  at("notes").replaceChildren(...notes(asked).map((text) => element("li", {}, text)));
}

// ---------------------------------------------------------------- charts

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, text = "") {
  const made = /^(svg|path|line|circle|text|g)$/.test(tag)
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

// an empty chart with its grid; x and y map numbers to pixels
function frame(id, { left = 52, right = 14, x, y, xTicks, yTicks }) {
  const svg = at(id);
  const width = Math.max(250, svg.getBoundingClientRect().width);
  const [height, top, bottom] = [260, 10, 24];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  const toX = (value) => left + x(value) * (width - left - right);
  const toY = (value) => height - bottom - y(value) * (height - top - bottom);
  for (const [value, text] of yTicks) {
    svg.append(element("line", { class: "grid", x1: left, x2: width - right, y1: toY(value), y2: toY(value) }));
    svg.append(element("text", { x: left - 6, y: toY(value) + 4, "text-anchor": "end" }, text));
  }
  for (const [value, text] of xTicks) {
    svg.append(element("text", { x: toX(value), y: height - 6, "text-anchor": "middle" }, text));
  }
  return { svg, toX, toY, height, top, bottom };
}

const logScale = (low, high) => (value) =>
  (Math.log10(Math.min(high, Math.max(low, value))) - Math.log10(low)) / Math.log10(high / low);
const evenScale = (low, high) => (value) => (value - low) / (high - low);

const ROW_TICKS = [[100, "100"], [1e3, "1,000"], [1e4, "10k"], [1e5, "100k"], [1e6, "1M"], [1e7, "10M"]];
const ROW_GRID = Array.from({ length: 101 }, (_, i) => 10 ** (2 + i / 20));

function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

// no bits and most bits beside the chosen ones
function variants(asked) {
  const all = [
    { bits: asked.bits, style: "chosen", text: `${asked.bits} hint bits (yours)` },
    { bits: 0, style: "none", text: "0 bits" },
    { bits: TABLES.maxBits, style: "most", text: `${TABLES.maxBits} bits` },
  ];
  return all.filter(({ bits }, i) => i === 0 || bits !== asked.bits);
}

function legend(id, asked) {
  at(id).replaceChildren(...variants(asked).map(({ style, text }) => {
    const entry = element("span");
    const sample = element("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" });
    sample.append(element("line", { class: `curve ${style}`, x1: 0, x2: 34, y1: 5, y2: 5 }));
    entry.append(sample, text);
    return entry;
  }));
}

function drawPrice(asked) {
  const [low, high] = [1e-4, 10];
  const { svg, toX, toY } = frame("price-chart", {
    x: logScale(100, 1e7), y: logScale(low, high), xTicks: ROW_TICKS,
    yTicks: [[1e-4, "0.01 %"], [1e-3, "0.1 %"], [1e-2, "1 %"], [0.1, "10 %"], [1, "100 %"], [10, "1000 %"]],
  });
  const total = gain(asked);
  svg.append(element("line", { class: "limit", x1: toX(100), x2: toX(1e7), y1: toY(AFFORDABLE), y2: toY(AFFORDABLE) }));
  for (const { bits, style } of variants(asked).reverse()) {
    const cost = price({ ...asked, bits }) / total;
    // the line within the box: it falls by one decade for each decade of rows
    const [first, last] = [Math.max(100, cost / high), Math.min(1e7, cost / low)];
    if (first >= last) continue;
    const ends = [first, last].map((rows) => [toX(rows), toY(cost / rows)]);
    svg.append(element("path", { class: `curve ${style}`, d: path(ends) }));
  }
  const share = price(asked) / total / asked.rows;
  svg.append(element("circle", { class: "here", r: 6, cx: toX(asked.rows), cy: toY(share) }));
  legend("price-legend", asked);
  at("price-text").textContent = `At ${asked.rows.toLocaleString("en-US")} rows per site (the dot), rounding costs ${percent(share)} of the gain. `
    + "Ten times the rows cost a tenth. The level line is what this page calls affordable.";
}

function drawAfford(asked) {
  const { svg, toX, toY, height, top, bottom } = frame("afford-chart", {
    x: logScale(100, 1e7), y: evenScale(0, MOST_CODES + 1), xTicks: ROW_TICKS,
    yTicks: [0, 10, 20, 30, 40].map((value) => [value, String(value)]), left: 34,
  });
  svg.append(element("line", { class: "now", x1: toX(asked.rows), x2: toX(asked.rows), y1: top, y2: height - bottom }));
  for (const { bits, style } of variants(asked).reverse()) {
    const prices = allPrices({ ...asked, bits });
    const steps = ROW_GRID.map((rows) => [toX(rows), toY(affordable(asked, rows, prices))]);
    svg.append(element("path", { class: `curve ${style}`, d: path(steps) }));
  }
  const most = affordable(asked, asked.rows);
  svg.append(element("circle", { class: "here", r: 6, cx: toX(asked.rows), cy: toY(most) }));
  legend("afford-legend", asked);
  const others = variants(asked).slice(1).map(({ bits, text }) =>
    `with ${text} ${counted(affordable({ ...asked, bits }, asked.rows))}`);
  at("afford-text").textContent = `With your rows and bits (the dot): ${counted(most)}; ${others.join(", ")}. The table ends at ${MOST_CODES}.`;
}

function drawSites(asked) {
  const most = Math.max(8, Math.min(64, 2 * asked.sites));
  const ticks = [2, ...[4, 8, 16, 32, 64].filter((n) => n <= most)];
  const { svg, toX, toY } = frame("sites-chart", {
    x: evenScale(2, most), y: evenScale(0, 1), xTicks: ticks.filter((n) => n === 2 || n >= most / 8).map((n) => [n, String(n)]),
    yTicks: [0, 0.25, 0.5, 0.75, 1].map((value) => [value, String(value)]), left: 38,
  });
  const points = Array.from({ length: most - 1 }, (_, i) => [toX(i + 2), toY(agreement(asked, i + 2))]);
  svg.append(element("path", { class: "curve chosen", d: path(points) }));
  svg.append(element("circle", { class: "here", r: 6, cx: toX(asked.sites), cy: toY(agreement(asked, asked.sites)) }));
  const bound = asked.bits > 0 ? "at least " : "";
  at("sites-text").textContent = `Cells planned for ${asked.sites} sites (the dot): ${bound}${shown(agreement(asked, asked.sites))}. `
    + `The same cells with ${most} sites: ${bound}${shown(agreement(asked, most))}.`;
}

function showTables(asked) {
  const row = (cells) => {
    const made = element("tr");
    made.append(...cells.map((text) => element("td", {}, text)));
    return made;
  };
  const prices = allPrices(asked);
  at("by-rows").replaceChildren(...[1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6].map((rows) => {
    const cost = price(asked) / rows;
    return row([rows.toLocaleString("en-US"), shown(cost), percent(cost / gain(asked)), counted(affordable(asked, rows, prices))]);
  }));
  at("by-sites").replaceChildren(...[2, 3, 4, 8, 16, 32].map((sites) => {
    const cost = price({ ...asked, sites }) / asked.rows;
    return row([String(sites), shown(agreement(asked, sites)), percent(cost / gain(asked))]);
  }));
}

function draw() {
  const asked = plan();
  drawPrice(asked);
  drawAfford(asked);
  drawSites(asked);
  showTables(asked);
}

function update(except) {
  showInputs(except);
  showAnswer();
  draw();
  keepHash();
}

// ---------------------------------------------------------------- events

for (const name of Object.keys(INPUTS)) {
  at(name).addEventListener("input", (event) => {
    const value = accepted(name, event.target.value);
    if (value === null) return; // an empty field, while something is typed
    state[name] = value;
    update(name);
  });
  at(name).addEventListener("change", () => update()); // show what was taken, if it was out of range
  at(`${name}-slider`).addEventListener("input", (event) => {
    state[name] = accepted(name, fromSlider(name, event.target.value));
    update();
  });
}
at("inputs").addEventListener("submit", (event) => event.preventDefault());
at("inputs").addEventListener("reset", (event) => {
  event.preventDefault();
  for (const [name, { start }] of Object.entries(INPUTS)) state[name] = start;
  update();
});
addEventListener("hashchange", () => { readHash(); update(); });
addEventListener("resize", draw);
readHash();
update();
