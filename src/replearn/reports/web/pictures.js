// Pictures of a replication, to the letter as Python draws them, but for their style.
import { fixed, general, ratioInWords } from "./words.js";

const MARK = "#0072b2", MOST_DRAWN = 40, WIDTH = 600;
const TICK = 34;  // how far apart the middles of two ticks are at least
const RATIO_TICKS = [0.001, 0.01, 0.03, 0.1, 0.25, 0.5, 1, 2, 4, 10, 30, 100, 1000];

const svg = (width, height, parts, label) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" ` +
  `role="img" aria-label="${label}" ` +
  'font-family="system-ui,sans-serif" font-size="14" fill="currentColor">' +
  `${parts.join("")}</svg>`;

const dot = (x, y, radius = 4) =>
  `<circle cx="${fixed(x, 1)}" cy="${fixed(y, 1)}" r="${radius}" fill="${MARK}"/>`;

const nameAt = (x, y, name) =>
  `<text x="${x}" y="${y}" text-anchor="end">${short(name, 29)}</text>`;

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
  .replaceAll('"', "&quot;").replaceAll("'", "&#x27;");
const short = (name, most) =>
  escaped([...name].length <= most ? name : `${[...name].slice(0, most - 1).join("")}…`);

/** Estimates and rounding cells of one lab. */
export function picture({ names, positions, reach }) {
  const far = positions.map(Math.abs), row = 24, left = 236, width = WIDTH;
  const shown = names.map((_, i) => i).sort((a, b) => far[b] - far[a]).slice(0, 30)
    .sort((a, b) => a - b);
  const ends = shown.map((i) => far[i] + reach[i]);  // with intervals
  const span = Math.min(1.5, Math.max(0.75, ...ends) + 0.05);  // cells to each side that are shown
  const height = row * shown.length + 74, middle = left + (width - left) / 2;
  const cell = (width - left - 20) / (2 * span);  // at each edge half a mark, so that none is cut
  const parts = shown.map((i, line) => {
    const y = 26 + line * row, at = positions[i], level = fixed(y, 1);
    const [low, x, high] = [at - reach[i], at, at + reach[i]].map((one) =>
      middle + cell * Math.max(-span, Math.min(span, one)));
    const side = at > 0 ? 10 : -10, anchor = at < 0 ? "start" : "end";
    const beyond = Math.abs(at) <= span ? "" :
      `<text x="${fixed(x - side, 1)}" y="${fixed(y + 4, 1)}" text-anchor="${anchor}">` +
      `${at < 0 ? "-" : "+"}${fixed(Math.abs(at), 1)} cells</text>`;
    return nameAt(left - 12, y + 4, names[i]) +
      `<rect x="${fixed(middle - cell / 2, 1)}" y="${fixed(y + 2 - row / 2, 1)}" ` +
      `width="${fixed(cell, 1)}" height="${row - 4}" rx="2" fill="currentColor" ` +
      'fill-opacity="0.08" stroke="currentColor" stroke-opacity="0.35"/>' +
      `<line x1="${fixed(low, 1)}" x2="${fixed(high, 1)}" y1="${level}" y2="${level}" ` +
      `stroke="${MARK}" stroke-opacity="0.55"/>${dot(x, y)}${beyond}`;
  });
  parts.push(`<text x="${fixed(middle, 1)}" y="${26 + row * shown.length}" text-anchor="middle">` +
    'distance from the cell\'s centre; a box is one cell</text>');
  parts.push(`${dot(12, height - 20)}<text x="21" y="${height - 16}">this lab</text>`);
  const outside = far.filter((place) => place > 0.5).length;
  const what = outside ? `${outside} ${outside === 1 ? "has" : "have"} a mark outside` :
    "all marks are inside";
  return svg(width, height, parts,
    `Estimates in rounding cells: ${names.length} numbers, ${what}.`);
}

/**
 * A forest plot: of each column the model's effect, and the interval of one step towards the rows of this lab.
 * Ratios stand on a logarithmic scale. Null without columns.
 */
export function forest({ columns, scale }) {
  if (!columns.length) return null;
  const isRatio = scale.endsWith("ratio");
  const placed = (value) => isRatio ? Math.min(Math.max(Math.log(value), -12), 12) : value;
  const marks = columns.map(({ name, model, low, high }) =>
    ({ name, text: isRatio ? ratioInWords(model, 3) : signed(model), at: placed(model),
      low: placed(low), high: placed(high) }));
  const shown = marks.map((_, i) => i)
    .sort((a, b) => Math.abs(marks[b].at) - Math.abs(marks[a].at) || a - b).slice(0, MOST_DRAWN)
    .sort((a, b) => a - b).map((i) => marks[i]);
  const [first, last] = spanOf(shown), left = 236, right = 490, row = 22;
  const ticks = isRatio ? RATIO_TICKS.map((tick) => [Math.log(tick), `${tick}`]) :
    roundNumbers(first, last).map((tick) => [tick, general(tick, 6)]);
  const height = row * shown.length + 50, foot = row * shown.length + 10;
  const across = (value) => left + 8 +
    (right - left - 16) * (Math.min(Math.max(value, first), last) - first) / (last - first || 1);
  const arrow = (x, y, length) =>
    `<path d="M${fixed(x + length, 1)} ${y}l${-length} -4v8z" fill="${MARK}" fill-opacity="0.55"/>`;

  const words = isRatio ? scale : "no effect", line = fixed(across(0), 1);
  const parts = [`<line x1="${line}" x2="${line}" y1="4" y2="${foot}" ` +
    'stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="4 3"/>' +
    `<text x="${line}" y="${height - 6}" text-anchor="middle">${words}</text>`];
  const shownTicks = ticks.filter(([value]) => first <= value && value <= last)
    .map(([value, text]) => [across(value), text]);
  for (const [x, text] of apart(shownTicks, across(0))) {
    parts.push(`<text x="${fixed(x, 1)}" y="${foot + 14}" text-anchor="middle" ` +
      `fill-opacity="0.8">${text}</text>`);
  }
  shown.forEach(({ name, text, at, low, high }, number) => {
    const y = 16 + number * row;
    parts.push(nameAt(left - 14, y + 4, name));
    parts.push(`<line x1="${fixed(across(low), 1)}" x2="${fixed(across(high), 1)}" y1="${y}" ` +
      `y2="${y}" stroke="${MARK}" stroke-width="2" stroke-opacity="0.55"/>`);
    if (low < first) parts.push(arrow(across(first), y, -5));
    if (high > last) parts.push(arrow(across(last), y, 5));
    parts.push(`${dot(across(at), y, 5)}<text x="${right + 16}" y="${y + 4}">${text}</text>`);
  });
  const said = shown.map(({ name, text }) => `${name} ${text}`).join("; ");
  return svg(WIDTH, height, parts, escaped(`${said}; line: ${words}.`));
}

/** Three to six round numbers between two ends. */
function roundNumbers(low, high) {
  if (!(low < high)) return [];
  const power = 10 ** Math.floor(Math.log10(high - low));
  const step = power * [0.2, 0.5, 1, 2].find((one) => (high - low) / (one * power) <= 5.01);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toFixed(9)));
}

/** Ticks that do not overlap, those next to the line first. */
function apart(ticks, line) {
  const kept = [];
  for (const tick of [...ticks].sort(([a], [b]) => Math.abs(a - line) - Math.abs(b - line))) {
    if (kept.every(([x]) => Math.abs(tick[0] - x) >= TICK)) kept.push(tick);
  }
  return kept.sort(([a], [b]) => a - b);
}

const signed = (value) => (value < 0 ? "" : "+") + general(value, 3);

/**
 * All effects, and what most intervals take: one may be three times as long as the fourth longest of five.
 * Fewer are drawn in full.
 */
function spanOf(marks) {
  const lengths = marks.map(({ low, high }) => high - low).sort((a, b) => a - b);
  const most = lengths.length < 5 ? Infinity : 1.5 * lengths[Math.floor(4 * (lengths.length - 1) / 5)];
  return [Math.min(0, ...marks.map(({ at, low }) => Math.min(at, Math.max(low, at - most)))),
    Math.max(0, ...marks.map(({ at, high }) => Math.max(at, Math.min(high, at + most))))];
}
