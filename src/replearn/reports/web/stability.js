// How likely a lab leaves the original's cells, as Python's codes/stability.py has it. For reading and
// for the check of a study, not for codes.
import { Refusal, nScores } from "./exact.js";
import { general } from "./words.js";

const LEAST_SPREAD = 1e-6;  // of the stated one: no row is needed for such a number
const MOST_CHANCE = 1 - 1e-12, MOST_UPPER = 8, MOST_ROWS = 2 ** 40;
const LEAST_CHANCE = 2 ** -50; // nobody estimates that labs never differ

/** The complementary error function: a series of positive terms, or a continued fraction. */
export function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  const density = Math.exp(-x * x) / Math.sqrt(Math.PI);
  if (x < 2.5) {
    let term = 2 * x, sum = term;
    for (let n = 1; term > 1e-17 * sum; n++) sum += term *= 2 * x * x / (2 * n + 1);
    return 1 - density * sum;
  }
  let rest = 0;
  for (let n = 60; n > 0; n--) rest = n / 2 / (x + rest);
  return density / (x + rest);
}

/** The least whole number at which something holds; it holds beyond it too. */
export function leastWhole(holds, most = 1e12) {
  let low = 0, high = 1;
  while (!holds(high)) {
    [low, high] = [high, 2 * high];
    if (low >= most) return high;
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** The same for a positive number, to one part in 2^40. */
function leastNumber(holds) {
  let low = 0, high = 1;
  while (!holds(high)) high *= 2;
  for (let i = 0; i < 60 && high - low >= high * 2 ** -40; i++) {
    const middle = (low + high) / 2;
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** P[Delta > t] for a standard normal difference. */
const tail = (t) => erfc(t / Math.SQRT2) / 2;

/** Antiderivative of the tail. */
const tailArea = (t) => t * tail(t) - Math.exp(-t * t / 2) / Math.sqrt(2 * Math.PI);

/** Probability that a second lab leaves its cell, over the coins; the width is in deviations. */
function chanceOfLeaving(width, bits) {
  if (!(width > 0)) return 1;
  const half = width / 2, reach = width / 2 ** (bits + 1);
  if (bits >= 4) {  // the difference of two areas would cancel: Simpson's rule over so little
    const ends = tail(half - reach) + tail(half + reach);
    return Math.min(1, (ends + 4 * tail(half)) / 3);
  }
  return Math.min(1, (tailArea(half + reach) - tailArea(half - reach)) / reach);
}

/** The same for an original at the centre of its cell. */
const chanceFromCentre = (width) => Math.min(1, 2 * tail(width / 2));

/** Probability that some number leaves its cell. */
const chanceOfAny = (chances) => Math.max(LEAST_CHANCE, -Math.expm1(chances.reduce((sum, chance) =>
  sum + Math.log1p(-Math.min(chance, MOST_CHANCE)), 0)));

// Sizes of new centres, in what K centres showed, and how many of 100,000 centres have each.
const SIZES = [1, 2, 4, 8, 16, 32], SHARES = [40601, 50379, 8301, 671, 45, 3];

/** How much a new centre may differ: sizes with their probabilities. */
const sizesOf = (nCentres) => nCentres < 2 ? [[1, 1]] :
  SIZES.map((size, k) => [size, SHARES[k] / SHARES.reduce((sum, share) => sum + share)]);

/** Standard deviations of rows and centres together, at a centre of some size. */
const withSampling = (sampling, between, size = 1) =>
  sampling.map((rows, i) => Math.sqrt(rows ** 2 + (size * between[i]) ** 2));

/** Probability that some number of a new centre leaves its cell, whatever the size of the centre. */
const stability = (widths, sampling, between, nCentres, chance) =>
  sizesOf(nCentres).reduce((sum, [size, probability]) => {
    const deviations = withSampling(sampling, between, size);
    return sum + probability * chanceOfAny(widths.map((width, i) => chance(width / deviations[i])));
  }, 0);

const numbers = (texts) => texts.map(Number);

/** Standard deviations of what the rows of the original and of a lab make differ. */
function samplingOf({ spreads, n_original: nOriginal }, nRows) {
  const root = Math.sqrt(1 / nOriginal + 1 / nRows);
  return numbers(spreads).map((spread) => spread * root);
}

/** Widths that rows, spreads and centres imply, without what upper bounds add. */
function impliedWidths(study) {
  const { design: { bits }, n_centres: nCentres } = study, rho = Number(study.max_disagreement);
  const between = numbers(study.between), sampling = samplingOf(study, study.n_replication);
  const each = -Math.expm1(Math.log1p(-rho) / between.length);
  const leaves = (width) => chanceOfLeaving(width, bits);
  const factor = leastNumber((width) => leaves(width) <= each);
  const widthsAt = (size) => withSampling(sampling, between, size).map((one) => factor * one);

  const suffices = (size) =>
    stability(widthsAt(size), sampling, between, nCentres, leaves) <= rho * (1 + 1e-9);
  return widthsAt(nCentres < 2 ? 1 : leastNumber(suffices));
}

/** Values of the numbers that labs agree on. */
const agreed = (design, values) => values.filter((_, i) => isAgreed(design, i));

/**
 * Estimated probability that a lab with so many rows gets a different model: a sample of the
 * original's population, or a new centre.
 */
export function disagreement(study, nRows, isNewCentre = false) {
  const { design } = study, implied = impliedWidths(study), widths = numbers(design.widths);
  const sampling = samplingOf(study, nRows).map((one, i) => one * Math.sqrt(widths[i] / implied[i]));
  const between = numbers(study.between).map((one) => isNewCentre ? one : 0);
  return stability(...[widths, sampling, between].map((values) => agreed(design, values)),
    isNewCentre ? study.n_centres : 0, (width) => chanceOfLeaving(width, design.bits));
}

/** Rows at which a lab gets the model half of the time; with the smaller of stated and own spreads. */
export function rowsToMatch({ ...study }, own = null) {
  if (own) {
    study.spreads = numbers(study.spreads).map((stated, i) =>
      Math.min(stated, Math.max(own[i], LEAST_SPREAD * stated)));
  }
  const { design } = study;
  const [widths, between] = [design.widths, study.between].map((texts) => agreed(design, numbers(texts)));
  return leastWhole((nRows) => stability(widths, agreed(design, samplingOf(study, nRows)), between,
    study.n_centres, chanceFromCentre) <= 0.5);
}

/** Refuse a study whose parts do not fit together, as Python does when it reads one. */
export function checkStudy(study) {
  const { design, between, spreads, commitment, slopes_commitment: slopes, sealed = false } = study;
  const n = design.widths.length, nCentres = study.n_centres;
  const need = (holds, rule) => {
    if (!holds) throw new Refusal(`the study: ${rule}. Get the file anew from its source.`);
  };
  const isWhole = (value, low, high) => Number.isInteger(value) && value >= low && value <= high;
  const isDecimals = (texts, least) => Array.isArray(texts) && texts.length === n &&
    texts.every((text) => typeof text === "string" && /^[+-]?[0-9.]+(e[+-]?[0-9]+)?$/.test(text) &&
      Number.isFinite(Number(text)) && Number(text) >= least);
  const isHash = (text) => text === undefined || /^[0-9a-f]{64}$/.test(text);

  need(isWhole(design.bits, 0, 8), "bits must be a whole number from 0 to 8");
  need(design.bits ? design.sketch?.length === n &&
    design.sketch.every((entry) => isWhole(entry, 0, 2 ** design.bits - 1)) :
    design.sketch === undefined, `sketch must be ${n} whole numbers below 2^bits`);
  need(design.constant === undefined || (design.constant === "local" &&
    (design.sketch ?? []).every((entry, i) => !entry || !isConstant(design, i))),
  "the sketch must be 0 for constants that each lab fits by itself");
  need(isDecimals(design.widths, 1e-300), "widths must be positive decimal texts");
  need(isDecimals(spreads, 1e-300), `spreads must be ${n} numbers`);
  need(isDecimals(between, 0), `between must be ${n} numbers`);
  need(isWhole(nCentres, 0, MOST_ROWS) && (nCentres === 0) === between.every((one) => Number(one) === 0),
    "n_centres must be 0 if and only if centres do not differ");
  need(isHash(commitment) && (commitment === undefined) === (design.bits === 0),
    "a commitment must be there if and only if there is a sketch");
  need(isHash(slopes) && (commitment === undefined) === (slopes === undefined),
    "slopes_commitment must be there if and only if commitment is");
  need(!sealed || commitment !== undefined, "sealed must be false without a commitment");
  const rho = Number(study.max_disagreement);
  need(rho > 0 && rho < 1, "max_disagreement must be in (0, 1)");
  need([study.n_original, study.n_replication].every((rows) => isWhole(rows, 1, MOST_ROWS)),
    "rows must be whole numbers of at least 1");
  const implied = impliedWidths(study), ratios = numbers(design.widths).map((w, i) => w / implied[i]);
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)];
  need(low > 0.9 && high < MOST_UPPER, "widths must be those that rows, spreads and " +
    `max_disagreement imply, got some that are ${general(low, 2)} to ${general(high, 2)} times as wide`);
}

/** Numbers that are constants of a score. */
export const isConstant = (design, i) => i % (design.widths.length / nScores(design.loss)) === 0;

/** Numbers that labs agree on: all, or all but constants that each lab fits by itself. */
export const isAgreed = (design, i) => design.constant !== "local" || !isConstant(design, i);
