// What looks different at this lab: units, codings, levels, labels. The same questions as Python asks.
import { Refusal } from "./exact.js";
import { signsMeant } from "./table.js";
import { counted, fixed, general, quoted } from "./words.js";

const LEAST_ROWS = 50, MOST_UNKNOWN = 0.05, FEWEST_ROWS = 20;
const OTHER = "(other)", MISSING = "(missing)";

//: Factors between units that people use for one thing.
export const UNITS = [
  [1000, "thousands, or grams and kilograms"],
  [100, "percent, or metres and centimetres"],
  [10, "tenths"],
  [2.54, "inches and centimetres"],
  [39.37, "inches and metres"],
  [3.281, "feet and metres"],
  [2.205, "pounds and kilograms"],
  [1.609, "miles and kilometres"],
  [12, "years and months"],
  [365.25, "years and days"],
  [7, "weeks and days"],
  [24, "days and hours"],
  [60, "hours and minutes"],
  [18.02, "mg/dl and mmol/l of glucose"],
  [38.67, "mg/dl and mmol/l of cholesterol"],
  [88.42, "mg/dl and umol/l of creatinine"],
  [7.501, "mmHg and kPa"],
];

const percent = (share, digits = 0) => `${fixed(100 * share, digits)}%`;

/** Stop at a table that is coded differently from the study. */
export function refuseUnknown(table, nRows = table.nRows) {
  if (nRows < FEWEST_ROWS) return;
  const troubles = [];
  for (const { column, missing, odd, oddTexts } of table.terms) {
    const known = nRows - missing, usual = Number(column.folded ?? 0);
    if (odd <= (usual + MOST_UNKNOWN) * known + 3 * Math.sqrt(usual * (1 - usual) * known)) continue;
    const share = `${counted(odd)} of ${counted(known)} cells (${percent(odd / known, 1)})`;
    let what = `${share} have levels that the study does not know`;
    if (column.kind === "number") {
      const signs = signsMeant([...oddTexts]);
      what = `${share} are no numbers` +
        (signs ? `; they look like numbers with other signs: give ${signs}` : "");
    }
    troubles.push(`in ${quoted(column.name)} ${what}`);
  }
  if (troubles.length) {
    const more = troubles.length > 5 ? `; and ${troubles.length - 5} more columns` : "";
    throw new Refusal("the table is coded differently from the study: " +
      `${troubles.slice(0, 5).join("; ")}${more}. Recode these columns as the study has them.`);
  }
}

/** Questions to ask before a fit: [column, sentence], "" for the target. */
export function findings(profile, table, labelCounts) {
  const found = [];
  table.terms.forEach((terms, place) => {
    const theirs = profile.columns[place], { column, missing } = terms;
    const known = table.nRows - missing - (column.kind === "number" ? terms.odd : 0);
    let sentence = "has no value in any row here";
    if (known > 0) {
      const look = column.kind === "number" ? onNumbers : onLevels;
      sentence = look(terms, theirs, table.nRows);
    }
    if (sentence) found.push([column.name, sentence]);
  });
  const sentence = labelCounts ? onLabels(profile.target.map(Number), labelCounts) : "";
  if (sentence) found.push(["", sentence]);
  return found;
}

const SAME = "is the same in all rows here, so nothing can be replicated about it";

/** Quantiles at 5, 25, 50, 75 and 95 %; the outer ones move inwards until 50 rows are beyond. */
function quantilesOf(sorted) {
  if (sorted.length < LEAST_ROWS) return [];
  const tail = Math.min(Math.max(0.05, LEAST_ROWS / sorted.length), 0.25);
  return [tail, 0.25, 0.5, 0.75, 1 - tail].map(
    (share) => sorted[Math.floor(share * (sorted.length - 1) + 0.5)]);
}

function onNumbers({ column, kept, missing }, theirs, nRows) {
  const sorted = Float64Array.from(kept).sort();
  if (sorted.length && sorted[0] === sorted[sorted.length - 1] && nRows >= LEAST_ROWS) return SAME;
  const ours = quantilesOf(sorted), study = theirs.quantiles.map(Number);
  if (!ours.length || !study.length) return "";
  const spread = Number(column.spread);
  if (distance(ours, study, spread) > 1) return otherUnit(ours, study, spread);
  const share = missing / nRows;
  return share > Number(theirs.missing) + 0.2 ?
    `is missing in ${percent(share)} of the rows here, in the study in ${theirs.missing}` : "";
}

const distance = (ours, study, spread) =>
  Math.max(...[1, 2, 3].map((i) => Math.abs(ours[i] - study[i]))) / spread;

/** The change of unit or code that brings the lab's quantiles to the study's. */
function otherUnit(ours, study, spread) {
  const middle = `half of the rows are above ${ours[2]} here, in the study above ${study[2]}`;
  const shift = ours[2] - study[2];
  if (ours.every((value, i) => value - study[i] === shift) && Number.isInteger(shift)) {
    return `is ${Math.abs(shift)} ${shift > 0 ? "larger" : "smaller"} throughout than in the ` +
      "study: is it coded differently, such as 1 and 2 for 0 and 1?";
  }
  const ways = [[1.8, 32, "in degrees Fahrenheit"], [1 / 1.8, -32 / 1.8, "in degrees Celsius"]];
  for (const [factor, unit] of UNITS) {
    ways.push([factor, 0, `${factor} times as large (${unit}?)`]);
    ways.push([1 / factor, 0, `${factor} times smaller (${unit}?)`]);
  }
  const away = ways.map(([factor, moved]) =>
    distance(ours.map((value) => (value - moved) / factor), study, spread));
  const best = away.indexOf(Math.min(...away));
  return away[best] < 0.5 ?
    `seems to have a different unit: it is ${ways[best][2]}; ${middle}` :
    `has very different values: ${middle}`;
}

function onLevels({ column, counts, missing }, theirs, nRows) {
  if (counts.size === 1 && nRows >= LEAST_ROWS && !missing) return SAME;
  const all = [column.reference, ...column.levels];
  const names = all.filter((name) => name !== OTHER && name !== MISSING);
  const study = (name) => Number(theirs.shares[all.indexOf(name)]);
  const ours = (name) => (counts.get(name) ?? 0) / Math.max(1, nRows);
  for (const first of names) {
    for (const second of names) {
      const gap = study(first) - study(second);
      if (gap > 0.2 && ours(second) - ours(first) > gap / 2) {
        return `may have its levels ${quoted(first)} and ${quoted(second)} exchanged: here ` +
          `${percent(ours(first))} and ${percent(ours(second))} of the rows, in the study ` +
          `${percent(study(first))} and ${percent(study(second))}`;
      }
    }
  }
  return "";
}

function onLabels(study, counts) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const shares = counts.map((count) => count / Math.max(1, total));
  if (shares.length !== study.length || total < LEAST_ROWS) return "";
  const away = shares.map((share, i) => Math.abs(share - study[i]));
  if (study.length === 2 && Math.abs(study[1] - 0.5) > 0.1 &&
      Math.abs(shares[1] - study[0]) < away[1] / 3) {
    return `the labels may be exchanged: the second class has ${percent(shares[1])} of the rows ` +
      `here, in the study ${percent(study[1])}`;
  }
  const ratios = shares.map((share, i) => Math.max(share, 1e-9) / Math.max(study[i], 1e-9));
  const odd = away.map((value, i) =>
    Math.max(value / 0.25, Math.abs(Math.log(ratios[i])) / Math.log(4)));
  const worst = odd.indexOf(Math.max(...odd));
  return away[worst] > 0.25 || !(ratios[worst] > 0.25 && ratios[worst] < 4) ?
    `class ${worst} has ${percent(shares[worst], 1)} of the rows here, in the study ` +
    percent(study[worst], 1) : "";
}
