// What looks different at this lab: units, codings, levels, labels. The same questions as Python asks.
import { Refusal } from "./exact.js";
import { INTERVAL, signsMeant } from "./table.js";
import { counted, fixed, general, quoted } from "./words.js";

const LEAST_ROWS = 50, MOST_UNKNOWN = 0.05, MOST_MISSING = 0.2, FEWEST_ROWS = 20;
// standard deviations that are no chance; rows of the smallest lab that differ in a column; gaps told
const MOST_ROUNDED = 25;  // rows by which a published share of a class may be off
const CHANCE = 4.5, LEAST_APART = 20, MOST_GAPS = 0.05, LEAST_COUNT = 10, SAMPLE_ROWS = 16384;
const MANY_GAPS = 0.5;  // are never silent
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

/** Whether missing cells of a column have a coefficient of their own. */
const hasTerm = (column) =>
  column.kind === "number" ? column.indicator === true : column.levels.includes(MISSING);

/** Unknown cells that a column without folded levels may have: of many levels a lab has others. */
const mostUnknown = ({ levels = [] }) =>
  levels.filter((level) => !level.startsWith("(")).length < 3 ? MOST_UNKNOWN : 1 / 3;

/** Stop at a table that is coded differently from the study. */
export function refuseUnknown(table, nRows = table.nRows) {
  if (nRows < FEWEST_ROWS) return;
  const troubles = [];
  for (const { column, missing, odd, oddTexts } of table.terms) {
    const known = nRows - missing, usual = Number(column.folded ?? 0);
    const most = usual ? usual + (1 - usual) / 2 : mostUnknown(column);
    if (odd <= most * known + 3 * Math.sqrt(usual * (1 - usual) * known)) {
      if (!hasTerm(column) && missing > MOST_MISSING * nRows) {
        troubles.push(`in ${quoted(column.name)} ${counted(missing)} of ${counted(nRows)} cells ` +
          `(${percent(missing / nRows, 1)}) are missing, where the study has no coefficient for ` +
          "gaps");
      }
      continue;
    }
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
      `${troubles.slice(0, 5).join("; ")}${more}. Recode them as the study has ` +
      "them, fill gaps in, or ask for a study without these columns.");
  }
}

/** How many rows there are here, at the original, and at the smallest planned lab. */
class Rows {
  /** @param persons independent rows for each row, here and at the original: 1 unless rows are at risk */
  constructor(here, original, planned, persons = [1, 1]) {
    Object.assign(this, { here, original, planned, persons });
  }

  /** How far two samples of one population have a share apart, but for 7 in a million. */
  chance(share, other = 0) {
    const variance = Math.max(share * (1 - share), other * (1 - other)), [here, there] = this.persons;
    const part = 1 / Math.max(1, here * this.here) + 1 / (there * this.original);
    return CHANCE * Math.sqrt(variance * part);
  }

  /** Whether it is no chance that all rows have what this share of the original has. */
  isOddConstant(share) {
    const most = Math.min(share, 1 - LEAST_APART / Math.max(2 * LEAST_APART, this.planned));
    return this.persons[0] * this.here * Math.log(Math.max(most, 1e-300)) < Math.log(1e-4);
  }
}

/**
 * Independent rows for each row at risk. Whoever is at risk in an interval was so in all before it; of clusters
 * of m rows sum m / sum m^2 count.
 */
function independent(atRisk) {
  const squares = atRisk.reduce((sum, size, k) => sum + (2 * k + 1) * size, 0);
  return squares ? atRisk.reduce((sum, size) => sum + size, 0) / squares : 1;
}

/** Persons of a survival study here: each has one row in the first interval. */
export function personsHere({ design }, { terms }) {
  const place = design.encoding.columns.findIndex(({ name }) => name === INTERVAL);
  return terms[place].counts.get(design.encoding.columns[place].reference) ?? 0;
}

/** About how many persons have so many rows at risk, in two digits; null where the profile has no shares. */
export function personsOf(study, nRows) {
  const theirs = study.profile.columns.find(({ name }) => name === INTERVAL);
  if (!theirs?.shares?.length) return null;
  const about = nRows * Number(theirs.shares[0]);
  const unit = 10 ** Math.max(0, String(Math.floor(about)).length - 2);
  return Math.floor(about / unit + 0.5) * unit;
}

/** The same here and at the original: 1 unless rows are at risk. */
function independentOf({ design, profile }, { terms }) {
  const { columns } = design.encoding, place = columns.findIndex(({ name }) => name === INTERVAL);
  if (place < 0) return [1, 1];
  const { reference, levels } = columns[place], { counts } = terms[place];
  const here = [reference, ...levels].map((name) => counts.get(name) ?? 0);
  return [independent(here), independent(profile.columns[place].shares.map(Number))];
}

/** Share of missing cells at the original; those of levels are at most one of the shares. */
const usualGaps = ({ missing, shares }) =>
  shares ? Math.max(0, ...shares.map(Number)) : Number(missing);

/**
 * Questions to ask before a fit: [column, sentence, first], "" for the target. `first`: the column must be looked
 * at before a verdict is believed, because agreement says nothing about it.
 */
export function findings(study, table, labelCounts) {
  const { profile } = study, found = [];
  const persons = independentOf(study, table);
  const rows = new Rows(table.nRows, study.n_original, study.n_replication, persons);
  table.terms.forEach((terms, place) => {
    const theirs = profile.columns[place], { column, missing } = terms;
    const known = table.nRows - missing - (column.kind === "number" ? terms.odd : 0);
    let odd = ["has no value in any row here", rows.isOddConstant(usualGaps(theirs))];
    if (known > 0) odd = (column.kind === "number" ? onNumbers : onLevels)(terms, theirs, rows);
    if (odd[0]) found.push([column.name, ...odd]);
  });
  const sentence = labelCounts ? onLabels(profile.target.map(Number), labelCounts, rows) : "";
  if (sentence) found.push(["", sentence, false]);
  return found;
}

const SAME = ["is the same in all rows here, so nothing can be replicated about it", true];
const FINE = ["", false];

/** Quantiles at 5, 25, 50, 75 and 95 %; the outer ones move inwards until 50 rows are beyond. */
function quantilesOf(sorted) {
  if (sorted.length < LEAST_ROWS) return [];
  const tail = Math.min(Math.max(0.05, LEAST_ROWS / sorted.length), 0.25);
  return [tail, 0.25, 0.5, 0.75, 1 - tail].map(
    (share) => sorted[Math.floor(share * (sorted.length - 1) + 0.5)]);
}

function onNumbers({ column, kept, missing }, theirs, rows) {
  const sorted = Float64Array.from(kept).sort(), study = theirs.quantiles.map(Number);
  if (sorted.length && sorted[0] === sorted[sorted.length - 1]) {
    const share = study.every((value) => value === sorted[0]) ? 1 : 0.95;
    return rows.isOddConstant(share) ? SAME : FINE;
  }
  const ours = quantilesOf(sorted), spread = Number(column.spread);
  if (ours.length && study.length && isMoved(sorted, ours, study, spread, rows)) {
    const moved = otherUnit(ours, study, spread);
    if (moved) return [moved, true];
  }
  const words = missingCode(sorted);
  if (words) return [words, false];
  const countsAs = hasTerm(column) ? "" : `${column.centre}, the study's median`;
  return [onMissing(missing, Number(theirs.missing), countsAs, rows), false];
}

//: Values that people write where they know none.
const CODES = new Set([-1, -7, -8, -9, -88, -99, -999, -9999, 77, 88, 99, 777, 888, 999, 7777,
  8888, 9999, 99999, 999999]);

/** What to ask about sorted numbers one of which may stand for a missing value. */
function missingCode(sorted) {
  const size = sorted.length;
  if (size < FEWEST_ROWS) return "";
  for (const end of [sorted[0], sorted[size - 1]]) {
    const others = sorted.filter((value) => value !== end), share = (size - others.length) / size;
    if (others.length < FEWEST_ROWS || share < 0.003) continue;
    const step = 1 + Math.floor(others.length / 1000);
    const distinct = new Set(others.filter((_, i) => i % step === 0)).size;
    if (distinct <= 3) continue;
    const at = (part) => others[Math.floor(part * (others.length - 1) + 0.5)];
    const width = at(0.95) - at(0.05), isLow = end === sorted[0];
    const gap = isLow ? others[0] - end : end - others[others.length - 1];
    let isCode = CODES.has(end) && (gap > 0.5 * width || (end < 0 && others[0] >= 0));
    if (end === 0 && isLow && distinct > 10) isCode = share < 0.5 && at(0.01) > 0.6 * width;
    if (isCode) {
      return `holds ${end} in ${percent(share, 1)} of the rows, far from all other values: is it ` +
        "a code for missing values? Then leave such cells empty";
    }
  }
  return "";
}

/** Whether a quartile is more than a spread away, and no chance explains that. */
function isMoved(sorted, ours, study, spread, rows) {
  const original = Math.min(rows.original, SAMPLE_ROWS);
  const sampled = new Rows(sorted.length, original, rows.planned, rows.persons);
  return [[1, 0.25], [2, 0.5], [3, 0.75]].some(([place, share]) => {
    if (Math.abs(ours[place] - study[place]) <= spread) return false;
    const low = study[place] - spread / 100, high = study[place] + spread / 100;
    let below = 0, upTo = 0;
    for (const value of sorted) {
      below += value < low;
      upTo += value <= high;
    }
    const chance = sampled.chance(share);
    return below / sorted.length > share + chance || upTo / sorted.length < share - chance;
  });
}

/**
 * Gaps that the study has no coefficient for are told early, others if they are far more. Of levels without a
 * coefficient for gaps no share is stated (null): they were too few for one.
 */
function onMissing(missing, usual, countsAs, rows) {
  const share = missing / rows.here, isStated = usual !== null;
  const most = isStated ? Math.max(usual, LEAST_COUNT / rows.original) :
    Math.min(0.5, LEAST_APART / rows.planned);
  const many = Math.max(countsAs ? MOST_GAPS : 0.2, most - (usual ?? 0) + rows.chance(most, share));
  if (share - (usual ?? 0) < many && share < MANY_GAPS) return "";
  const inStudy = isStated ? percent(usual) :
    `fewer than ${LEAST_APART} of ${counted(rows.planned)}`;
  const words = `is missing in ${percent(share)} of the rows here, in the study in ${inStudy}`;
  return countsAs ? `${words}: such cells count as ${countsAs}` : words;
}

const distance = (ours, study, spread) =>
  Math.max(...[1, 2, 3].map((i) => Math.abs(ours[i] - study[i]))) / spread;

/**
 * The change of unit or code that brings the lab's quantiles to the study's; "" of other patients, whose
 * quartiles are among the values that 90% of the original's have.
 */
function otherUnit(ours, study, spread) {
  const shift = ours[2] - study[2];
  const gap = (i) => Math.abs(ours[i] - study[i]);
  const place = shift !== 0 ? 2 : gap(1) >= gap(3) ? 1 : 3;  // the median, unless both are the same, such as 0
  const above = { 1: "three quarters", 2: "half", 3: "a quarter" }[place];
  const middle = `${above} of the rows are above ${ours[place]} here, in the study above ${study[place]}`;
  if (ours.every((value, i) => value - study[i] === shift) && Number.isInteger(shift)) {
    return `is ${Math.abs(shift)} ${shift > 0 ? "larger" : "smaller"} throughout than in the ` +
      "study, as if it were coded differently, such as 1 and 2 for 0 and 1";
  }
  const ways = [[1.8, 32, "in degrees Fahrenheit"], [1 / 1.8, -32 / 1.8, "in degrees Celsius"]];
  for (const [factor, unit] of UNITS) {
    ways.push([factor, 0, `${factor} times as large (${unit}?)`]);
    ways.push([1 / factor, 0, `${factor} times smaller (${unit}?)`]);
  }
  const away = ways.map(([factor, moved]) =>
    distance(ours.map((value) => (value - moved) / factor), study, spread));
  const best = away.indexOf(Math.min(...away));
  const [factor, moved] = ways[best];
  const isNear = Math.abs((ours[2] - moved) / factor - study[2]) <= 0.15 * Math.abs(study[2]);
  if (away[best] < 0.5 && isNear && (moved || study[2])) {  // a 0 fits any factor
    return `seems to have a different unit: it is ${ways[best][2]}; ${middle}`;
  }
  const isBeyond = ours.slice(1, 4).some((value) => value < study[0] || value > study[4]);
  return isBeyond ? `has very different values: ${middle}` : "";
}

/** Whether shares of two levels are the other way round, while all others are as they were. */
function isExchanged(first, second, { names, ours, study, rows }) {
  const gap = study(first) - study(second), turned = ours(second) - ours(first);
  const chance = (name) => rows.chance(study(name), ours(name));
  if (gap <= 0.2 || gap + turned <= chance(first) + chance(second)) return false;
  const back = (name) => ours(name === first ? second : name === second ? first : name);
  return names.every((name) => Math.abs(back(name) - study(name)) <= gap / 4 + chance(name));
}

function onLevels({ column, counts, missing, odd }, theirs, rows) {
  const all = [column.reference, ...column.levels];
  if (column.name === INTERVAL) return onTimes(all.map((name) => counts.get(name) ?? 0), theirs, rows);
  const study = (name) => Number(theirs.shares[all.indexOf(name)]);
  if (counts.size === 1 && !missing) {
    const [only] = counts.keys();
    const share = all.includes(only) ? study(only) : all.includes(OTHER) ? study(OTHER) : 0;
    return rows.isOddConstant(share) ? SAME : FINE;
  }
  const names = all.filter((name) => name !== OTHER && name !== MISSING);
  const ours = (name) => (counts.get(name) ?? 0) / Math.max(1, rows.here);
  for (const first of names) {
    for (const second of names) {
      if (!isExchanged(first, second, { names, ours, study, rows })) continue;
      return [`may have its levels ${quoted(first)} and ${quoted(second)} exchanged: here ` +
        `${percent(ours(first))} and ${percent(ours(second))} of the rows, in the study ` +
        `${percent(study(first))} and ${percent(study(second))}`, true];
    }
  }
  const others = quoted(all.includes(OTHER) ? OTHER : column.reference);
  const unknown = odd / Math.max(1, rows.here - missing), folded = Number(column.folded ?? 0);
  if (unknown > folded + Math.max(MOST_UNKNOWN, rows.chance(folded, unknown))) {
    return [`has levels here that the study does not have, in ${percent(unknown)} of the rows: ` +
      `they count as ${others}`, false];
  }
  const usual = all.includes(MISSING) ? study(MISSING) : null;
  return [onMissing(missing, usual, hasTerm(column) ? "" : others, rows), false];
}

/** Times in years where the study has days leave nobody at risk after its first interval; or the reverse. */
function onTimes(atRisk, theirs, rows) {
  const shares = theirs.shares.map(Number), last = atRisk.length - 1;
  const isShort = atRisk[0] === rows.here && rows.isOddConstant(shares[0]);
  const isLong = atRisk[last] > Math.max(LEAST_APART, 0.95 * atRisk[0]) && shares[last] < shares[0] / 2;
  return isShort || isLong ? SAME_TIMES : FINE;
}

const SAME_TIMES = ["is the same for everybody here: do the times have the study's unit (days and years)? " +
  "If not, convert them", true];

function onLabels(study, counts, rows) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const shares = counts.map((count) => count / Math.max(1, total));
  if (shares.length !== study.length) return "";
  const away = shares.map((share, i) => Math.abs(share - study[i]));
  const isOdd = away.map((value, i) => value > rows.chance(study[i], shares[i]) + MOST_ROUNDED / rows.original);
  if (study.length === 2 && Math.abs(study[1] - 0.5) > 0.1 && isOdd[1] &&
      Math.abs(shares[1] - study[0]) < away[1] / 3) {
    return `the labels may be exchanged: the second class has ${percent(shares[1])} of the rows ` +
      `here, in the study ${percent(study[1])}`;
  }
  const ratios = shares.map((share, i) => Math.max(share, 1e-9) / Math.max(study[i], 1e-9));
  const far = away.map((value, i) => isOdd[i] ?
    Math.max(value / 0.25, Math.abs(Math.log(ratios[i])) / Math.log(4)) : 0);
  const worst = far.indexOf(Math.max(...far));
  return far[worst] > 1 ?
    `class ${worst} has ${percent(shares[worst], 1)} of the rows here, in the study ` +
    percent(study[worst], 1) : "";
}
