// What a match proves, computed from the study's own numbers by whoever prints it. For reading, not
// for codes.
import { decoded, nScores, uniforms } from "./exact.js";

const FREE_BITS = 40, MOST_ROWS = 1e12;

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

const between = (low, high) => (erfc(low / Math.SQRT2) - erfc(high / Math.SQRT2)) / 2;

const tailArea = (t) =>
  t * erfc(t / Math.SQRT2) / 2 - Math.exp(-t * t / 2) / Math.sqrt(2 * Math.PI);

/** Probability that two labs differ in one number; the width is in standard deviations. */
function missRate(width, bits) {
  const reach = width / (1 << (bits + 1));
  const found = (tailArea(width / 2 + reach) - tailArea(width / 2 - reach)) / reach;
  return Math.min(1, Math.max(0, found));
}

/** Widths of cells in standard deviations between the original and a lab with so many rows. */
function ratios(study, nRows) {
  const root = Math.sqrt(1 / study.n_original + 1 / nRows);
  return study.design.widths.map((width, i) => Number(width) / (Number(study.spreads[i]) * root));
}

/** Width of cells, in standard deviations, at which all numbers agree as promised. */
function widthFactor({ design, max_disagreement }) {
  const failures = (width) => design.widths.length * missRate(width, design.bits);
  let low = 1e-3, high = 1;
  while (failures(high) > Number(max_disagreement)) high *= 2;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (failures(middle) > Number(max_disagreement)) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * Estimated probability that a lab with so many rows gets a different model. Standard deviations are
 * geometric means of those that the original saw and those that its cells were planned with.
 */
export function disagreement(study, nRows) {
  const factor = widthFactor(study), planned = ratios(study, study.n_replication);
  return -Math.expm1(ratios(study, nRows).reduce((sum, ratio, i) => {
    const miss = missRate(ratio * Math.sqrt(factor / planned[i]), study.design.bits);
    return sum + Math.log1p(-Math.min(miss, 1 - 1e-12));
  }, 0));
}

/** Bits of a normal number that is rounded to cells of this many standard deviations. */
function entropy(ratio) {
  if (ratio < 0.5) return 0.5 * Math.log2(2 * Math.PI * Math.E) - Math.log2(ratio);
  let total = 0;
  for (let k = 0; ; k++) {
    const p = between((k - 0.5) * ratio, (k + 0.5) * ratio);
    if (p < 1e-12) return total;
    total -= (k === 0 ? 1 : 2) * p * Math.log2(p);
  }
}

/** The least number of rows at which something holds that holds beyond it too. */
function first(holds) {
  let low = 0, high = 1;
  while (!holds(high)) {
    [low, high] = [high, high * 2];
    if (high > MOST_ROWS) return MOST_ROWS;
  }
  while (high - low > Math.max(1, Math.floor(low / 100))) {
    const middle = Math.floor((low + high) / 2);
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Minus log2 of the best guess of somebody who has the study file and no rows. */
function bitsOf({ design }, codes) {
  const p = codes.length / nScores(design.loss), parts = 1 << design.bits;
  const shifts = uniforms(design.seed, "cells", codes.length);
  const z = decoded(design, codes);
  const hidden = codes.map((_, i) => i).filter((i) => i % p > 0);  // the base rate gives constants away
  const scale = Math.sqrt(hidden.reduce((sum, i) => sum + z[i] * z[i], 0) / hidden.length);
  if (!(scale > 0)) return 0;
  return hidden.reduce((sum, i) => {
    const shift = shifts[i] - (design.sketch ? design.sketch[i] : 0) / parts;
    const within = shift - Math.floor(shift);
    const off = Math.min(within, 1 - within), width = Number(design.widths[i]) / scale;
    return sum - Math.log2(Math.max(between((off - 0.5) * width, (off + 0.5) * width), 1e-300));
  }, 0);
}

/** Rows that a lab needs to get the model half of the time, and bits; for one that searches too. */
export function evidence(study, codes) {
  const matches = (nRows) =>
    ratios(study, nRows).reduce((product, ratio) => product * (1 - erfc(ratio / 2 / Math.SQRT2)), 1);
  const rows = first((nRows) => matches(nRows) >= 0.5), bits = bitsOf(study, codes);
  if (study.sealed || !study.commitment) return { rows, bits };
  const found = first((nRows) =>
    ratios(study, nRows).reduce((sum, ratio) => sum + entropy(ratio), 0) <= FREE_BITS);
  return { rows, bits, rowsSearch: bits > FREE_BITS ? Math.min(rows, found) : 0,
    bitsSearch: Math.max(0, bits - FREE_BITS) };
}
