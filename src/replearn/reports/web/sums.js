// A lab's part of a joint fit: whole numbers. The bytes that `replearn sums` writes.
import {
  MOST_STEERED, Refusal, canonicalJson, contentOf, fingerprintOf, nScores, power2, sumsAt, totalsOf,
} from "./exact.js";
import { refuseUnknown } from "./check.js";
import { refuseFewRows, refuseHeavyRows, withoutFew } from "./disclosure.js";
import { rowsOf, scaleOf } from "./replicate.js";
import { counted, quoted } from "./words.js";

const LEAST_ROWS = 100, EXPONENTS = 1100;

/** e with 2^(e-1) <= x < 2^e. */
function exponentOf(x) {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, x);
  const exponent = (bits.getUint32(0) >>> 20) - 1022;
  return exponent > -1022 ? exponent : exponentOf(x * power2(100)) - 100;  // x is subnormal
}

/** What the first round asks for. */
function firstState({ design }, study) {
  const state = { format: "replearn/state", version: 1, study, members: [] };
  if (design.weights) return state;
  const largest = Math.max(...(design.class_weight ?? [0.5]).map(Number));
  return { ...state, scale: exponentOf(largest) };
}

function checkedState(given, { design }, study, nColumns) {
  const state = contentOf(given, "replearn/state", "the state");
  if (state.study !== study) {
    throw new Refusal(`the state must be one of this study, ${study.slice(0, 16)}, got one of ` +
      `${String(state.study).slice(0, 16)}. Use the files of one study.`);
  }
  const isWhole = (value, low, high) => Number.isInteger(value) && value >= low && value <= high;
  const { newton, scale, then } = state;
  if (state.members.length === 2) {
    throw new Refusal("totals must be of three labs or more, got 2: totals less one's own sums are " +
      "those of the other lab. Take one round from the opened model, or ask a third lab.");
  }
  if (then) throw new Refusal("the round of an original's spread needs Python: replearn sums.");
  if (!(scale === undefined ? design.weights && !newton : isWhole(scale, -EXPONENTS, EXPONENTS)) ||
      (newton && !(isWhole(newton.sample_threshold, 0, 2 ** 32) && newton.theta.length === nScores(design.loss) &&
        newton.theta.every((row) => row.length === nColumns &&
          row.every((value) => isWhole(value, -(2 ** 31), 2 ** 31)))))) {
    throw new Refusal("the state must have numbers for each column of the study. Get it anew.");
  }
  return state;
}

/** Refuse rows that have changed since the lab counted them: what was added would be seen. */
function refuseChanged({ members }, { lab, rows, weight, totals }) {
  const counts = members.find((member) => member.lab === lab)?.counts;
  if (!counts || (counts.rows === rows && String(counts.weight) === weight &&
      counts.totals.map(String).join() === totals.join())) return;
  throw new Refusal(`all rounds must be over the same rows, but ${quoted(lab)} had ` +
    `${counted(counts.rows)} in the first and has ${counted(rows)} now, or other targets: the ` +
    "difference would show single rows. Use the table of the first round.");
}

/**
 * @param study the content of a study file
 * @param read what `readTable` gives
 * @param given the state of this round; null in the first
 * @param lab the name of the lab
 * @returns the sums file, and what it holds in words
 */
export function labSums(study, read, given, lab) {
  const { design } = study, { table, masses, columns } = read;
  const print = fingerprintOf(contentOf(study));
  if (design.constant === "local") {
    throw new Refusal("sums of several labs give one constant, but this study leaves the constant " +
      "to each lab. Replicate it at each lab: replearn replicate STUDY TABLE.");
  }
  if (design.widths.length > MOST_STEERED) {
    throw new Refusal(`labs must pool at most ${MOST_STEERED} coefficients, got ` +
      `${counted(design.widths.length)}: the fit of more takes too many rounds. Use fewer columns, ` +
      "or an engine.");
  }
  const state = given ? checkedState(given, study, print, columns.length + 1) :
    firstState(study, print);
  const content = { format: "replearn/sums", version: 1, study: print, lab,
    state: fingerprintOf(state) };
  if (state.scale === undefined) {
    content.rows = table.nRows;
    content.exponents = new Array(2 * EXPONENTS + 1).fill(0);
    const some = masses.filter((mass) => mass > 0);  // the largest sets the scale: others stay here
    const largest = some.reduce((most, mass) => Math.max(most, mass), 0);
    if (largest > 0) content.exponents[exponentOf(largest) + EXPONENTS] = some.length;
  } else {
    const rows = rowsOf(design, read, power2(state.scale)), asksCells = !state.counts;
    const { weight, totals } = totalsOf(rows, design.loss);
    if (asksCells) refuseUnknown(table, rows.nRows);
    const isNumber = ({ column }) => column.kind === "number";
    const cells = [(terms) => terms.missing, (terms) => isNumber(terms) ? 0 : terms.odd,
      (terms) => isNumber(terms) ? terms.odd : 0, (terms) => terms.clipped]
      .map((count) => table.terms.map((terms) => asksCells ? withoutFew(count(terms)) : 0));
    Object.assign(content, { rows: rows.nRows, weight: String(weight), cells,
      totals: Array.from(totals, String) });
    refuseChanged(state, content);
    if (state.newton) Object.assign(content, stepOf(rows, design.loss, state.newton));
  }
  if (content.rows < LEAST_ROWS) {
    throw new Refusal(`sums must be of at least ${LEAST_ROWS} rows, got ${content.rows}: those of ` +
      "few rows may tell what stands in single ones. Pool them with those of a different lab.");
  }
  const share = state.newton?.sample_threshold ?? 0, nSampled = Math.floor(content.sampled / 65536);
  if (share > 0 && share < 2 ** 32 && nSampled < LEAST_ROWS) {
    throw new Refusal(`the round asks for a matrix of about ${nSampled} of these rows, and sums must ` +
      `be of at least ${LEAST_ROWS}. Ask whoever combines to begin from the opened model: then all ` +
      "rows count.");
  }
  const plain = design.directions ? { ...read, columns: table.encoded() } : read;
  const raw = rowsOf(design, plain, scaleOf(read));
  const fitted = rowsOf(design, read, scaleOf(read));
  const nShown = refuseFewRows(design, raw.columns, fitted, share);
  if (state.newton) refuseHeavyRows(design, fitted, state.newton);
  const numbers = Object.values(content).filter((value) => Array.isArray(value)).flat(2).length +
    ["rows", "weight", "sampled"].filter((name) => name in content).length;
  return {
    file: canonicalJson({ ...content, fingerprint: fingerprintOf(content) }) + "\n",
    words: `Sums over ${counted(content.rows)} rows of ${quoted(lab)}: ${counted(numbers)} ` +
      (nShown ? `integers, but some show single rows. ${counted(nShown)} rows share two terms with ` +
        "few others, and can be worked out from the file: secret shares, which Python makes, hide " +
        "them in totals." : "integers, no individual data."),
  };
}

/** Gradient and information of a pass, as texts of whole numbers. */
function stepOf(rows, loss, { theta, sample_threshold: share }) {
  const q = theta.length, p = theta[0].length;
  const found = sumsAt(rows, loss, theta, share), gradient = found.gradient.integers().map(String);
  const information = [];
  if (found.information) {
    const whole = found.information.integers();
    for (let pair = 0; pair < q * (q + 1) / 2; pair++) {
      information.push([]);
      for (let i = 0; i < p; i++) {
        for (let j = 0; j <= i; j++) information[pair].push(String(whole[(pair * p + i) * p + j]));
      }
    }
  }
  return { gradient: theta.map((_, k) => gradient.slice(k * p, k * p + p)), information,
    sampled: String(found.sampled) };
}
