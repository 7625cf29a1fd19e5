// A match that labels have no part in: the fit again, with permuted labels, as Python's
// study/placebo.py has it.
import {
  ALL, Refusal, codesOf, coordinatesOf, fit, marks, offsetsOf,
} from "./exact.js";
import { isConstant } from "./stability.js";

const WORD = (1n << 64n) - 1n, ODD = 0x9e3779b97f4a7c15n;
const MOST_ROWS = 1 << 14;  // they are enough: cells that any labels hit are wide

/** All bits depend on all others (splitmix64). */
function mixed64(x) {
  x = (x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n & WORD;
  x = (x ^ (x >> 27n)) * 0x94d049bb133111ebn & WORD;
  return x ^ (x >> 31n);
}

/** A hash of all that a row holds; of equal rows each has its own. */
function rowHashes(rows) {
  const upper = marks(rows), lower = marks(rows, 2);
  let found = Array.from(upper, (high, i) => (BigInt(high) << 32n) + BigInt(lower[i]));
  for (const values of [rows.targets, rows.weights, rows.offset]) {
    if (!values) continue;
    const bits = new BigUint64Array(Float64Array.from(values, (value) => value + 0).buffer);
    found = found.map((hash, i) => mixed64(hash * ODD + bits[i] & WORD));
  }
  const seen = new Map();
  return found.map((hash) => {
    const number = seen.get(hash) ?? 0;
    seen.set(hash, number + 1);
    return hash + BigInt(number) * ODD & WORD;
  });
}

/** Well-mixed numbers below 2^32 for each row: others for each salt. */
export function rowMarks(rows, salt) {
  const mixed = mixed64(BigInt(salt + 1));
  return rowHashes(rows).map((hash) => Number(mixed64(hash ^ mixed) >> 32n));
}

/** Some of the rows. */
function rowsAt({ columns, targets, weights, offset }, places) {
  const part = (values) => values && values.constructor.from(places, (i) => values[i]);
  return { columns: columns.map(part), targets: part(targets), weights: part(weights),
    offset: part(offset), nRows: places.length };
}

/** Whether permuted labels give these codes, too, as far as slopes go. */
export function placeboMatches({ design }, codes, rows) {
  let some = rowsAt(rows, Array.from(rows.targets.keys()));
  if (rows.nRows > MOST_ROWS) {
    const share = Math.floor(MOST_ROWS * ALL / rows.nRows), own = rowMarks(rows, 20);
    some = rowsAt(rows, own.flatMap((mark, i) => (mark < share ? [i] : [])));
  }
  // the permutation follows the content of rows, so that their order does not matter
  const [giver, taker] = [21, 22].map((salt) => {
    const own = rowMarks(some, salt);
    return own.map((_, i) => i).sort((a, b) => own[a] - own[b] || a - b);
  });
  const targets = some.targets.slice();
  taker.forEach((place, i) => { some.targets[place] = targets[giver[i]]; });

  try {
    const theta = fit(some, design.loss, Number(design.ridge));
    const placebo = codesOf(offsetsOf(design, coordinatesOf(design.coordinates, theta)));
    return codes.every((code, i) => isConstant(design, i) || code === placebo[i]);
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    return false;  // labels that no model fits do not match
  }
}
