// The fit of a study, bit for bit as Python makes it: docs/format.md is the specification.
//
// No library, no file, no clock. Only + - * / sqrt and floor of float64 reach a code: they are IEEE
// operations, the same in every engine. Sums are whole numbers below 2^53 within a block, and pairs
// of such numbers beyond.

/** What the user can mend: the rule, the value and the remedy. */
export class Refusal extends Error {}

// --- hashes and canonical JSON -------------------------------------------------------------------

const utf8 = (text) => new TextEncoder().encode(text);

const ROUND_CONSTANTS = Uint32Array.of(
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
);
const FIRST_STATE = [
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/** SHA-256 of bytes, as 32 bytes. */
export function sha256(bytes) {
  const state = Uint32Array.from(FIRST_STATE);
  const padded = new Uint8Array(((bytes.length + 8) >> 6 << 6) + 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 0x20000000));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const w = new Uint32Array(64);
  const rotated = (x, n) => (x >>> n) | (x << (32 - n));
  for (let start = 0; start < padded.length; start += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(start + 4 * i);
    for (let i = 16; i < 64; i++) {
      const a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (rotated(a, 7) ^ rotated(a, 18) ^ (a >>> 3)) +
        (rotated(b, 17) ^ rotated(b, 19) ^ (b >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const t = (h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) +
        ROUND_CONSTANTS[i] + w[i]) | 0;
      const s = ((rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) +
        ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + t) | 0; d = c; c = b; b = a; a = (t + s) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => { state[i] += value; });
  }
  const out = new Uint8Array(32);
  state.forEach((value, i) => new DataView(out.buffer).setUint32(4 * i, value));
  return out;
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Canonical JSON (RFC 8785): JavaScript's own numbers and strings, keys in the order of UTF-16. */
export function canonicalJson(value) {
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    return "[" + Array.from(value, canonicalJson).join(",") + "]";
  }
  if (value !== null && typeof value === "object") {
    const parts = Object.keys(value).filter((key) => value[key] !== undefined).sort()
      .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`);
    return `{${parts.join(",")}}`;
  }
  return JSON.stringify(value);
}

/** SHA-256 of the canonical JSON, in hex. */
export const fingerprintOf = (content) => hex(sha256(utf8(canonicalJson(content))));

/** The commitment of a sealed study. */
export const sealOf = (nonce, fingerprint) =>
  hex(sha256(utf8(`replearn/seal/1\n${nonce}\n${fingerprint}`)));

/** What a fingerprint is of; refused if the document says a different one, or is of another kind. */
export function contentOf(document, format = document.format, place = "the file") {
  const { fingerprint, provenance, ...content } = document;
  if (content.format !== format || content.version !== 1) {
    throw new Refusal(`${place} must be a file of the format ${format}, version 1. Check the path.`);
  }
  const found = fingerprintOf(content);
  if (fingerprint !== undefined && fingerprint !== found) {
    throw new Refusal(`${place}: fingerprint must be ${found}, got ${fingerprint}: it was altered. ` +
      "Get the file anew from its source.");
  }
  return content;
}

// --- coins -------------------------------------------------------------------------------------

const WORD = (1n << 64n) - 1n;
const bits = new DataView(new ArrayBuffer(8));

/** 2^k for normal numbers, from its bits: an engine's power function promises nothing. */
export function power2(k) {
  bits.setUint32(0, (k + 1023) << 20);
  bits.setUint32(4, 0);
  return bits.getFloat64(0);
}

const POWERS = Float64Array.from({ length: 2045 }, (_, i) => power2(i - 1022));

/** Raw 64-bit words of a named stream: Philox 4x64-10 with the counter (0, row, 0, 0). */
export function words(seed, stream, n, row = 0) {
  const seedBytes = utf8(String(seed));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(seedBytes.length), true);
  const digest = sha256(Uint8Array.from(
    [...utf8("replearn/streams/1\n"), ...length, ...seedBytes, ...utf8(stream)]));
  const view = new DataView(digest.buffer);
  const key = [view.getBigUint64(0, true), view.getBigUint64(8, true)];
  const out = [];
  for (let counter = 1n; out.length < n; counter++) {  // the first block has the counter 1
    let [a, b, c, d] = [counter, BigInt(row), 0n, 0n];
    let [k, l] = key;
    for (let round = 0; round < 10; round++) {
      const p = 0xd2e7470ee14c6c93n * a, q = 0xca5a826395121157n * c;
      [a, b, c, d] = [(q >> 64n) ^ b ^ k, q & WORD, (p >> 64n) ^ d ^ l, p & WORD];
      k = (k + 0x9e3779b97f4a7c15n) & WORD;
      l = (l + 0xbb67ae8584caa73bn) & WORD;
    }
    out.push(a, b, c, d);
  }
  return out.slice(0, n);
}

const UNIT53 = power2(-53);

/** Uniforms on [0, 1), multiples of 2^-53. */
export const uniforms = (seed, stream, n, row = 0) =>
  Float64Array.from(words(seed, stream, n, row), (word) => Number(word >> 11n) * UNIT53);

// --- elementary functions ------------------------------------------------------------------------

const LN2_HI = 0.693147180369123816490, LN2_LO = 1.90821492927058770002e-10;
const MAX_SCORE = 30;
const TAYLOR = [40320, 5040, 720, 120, 24, 6, 2, 1, 1].map((factorial) => 1 / factorial);
/** e^x for |x| <= 700. */
export function exp(x) {
  const k = Math.floor(x * 1.4426950408889634 + 0.5);
  const r = (x - k * LN2_HI) - k * LN2_LO;
  let total = TAYLOR[0];
  for (let i = 1; i < 9; i++) total = total * r + TAYLOR[i];
  return total * POWERS[k + 1022];
}

/** 1 / (1 + e^-score); scores are cut at +-30. */
export function sigmoid(score) {
  const e = exp(-Math.min(Math.abs(score), MAX_SCORE));
  return (score >= 0 ? 1 : e) / (1 + e);
}

/** Natural logarithm of a positive normal number. */
export function log(x) {
  bits.setFloat64(0, x);
  const high = bits.getUint32(0);
  let exponent = (high >>> 20) - 1022;
  bits.setUint32(0, (high & 0xfffff) | 0x3fe00000);
  let mantissa = bits.getFloat64(0);  // in [0.5, 1)
  if (mantissa < 0.7071067811865476) {
    mantissa *= 2;
    exponent -= 1;
  }
  const s = (mantissa - 1) / (mantissa + 1);
  const square = s * s;
  let series = 0;
  for (let i = 8; i > 0; i--) series = (series + 1 / (2 * i + 1)) * square;
  return exponent * LN2_HI + (2 * s + (2 * s * series + exponent * LN2_LO));
}

/** The nearest whole number of units of 2^-bits, halves upwards. */
export const onGrid = (value, nBits) => Math.floor(value * POWERS[nBits + 1022] + 0.5);

// --- algebra in a fixed order --------------------------------------------------------------------

const total = (values) => values.reduce((sum, value) => sum + value, 0);

/** Lower triangle L with L L' = matrix; pivots below `floor` are raised to it. */
export function cholesky(matrix, floor = 0) {
  const rest = matrix.map((row) => Float64Array.from(row));
  const n = rest.length;
  for (let j = 0; j < n; j++) {
    const pivot = Math.max(rest[j][j], floor);
    if (!(pivot > 0)) throw new Refusal("the matrix is not positive definite");
    const root = Math.sqrt(pivot);
    rest[j][j] = root;
    for (let i = j + 1; i < n; i++) rest[i][j] /= root;
    for (let i = j + 1; i < n; i++) {
      const row = rest[i], factor = row[j];
      for (let k = j + 1; k <= i; k++) row[k] -= factor * rest[k][j];
    }
  }
  rest.forEach((row, i) => row.fill(0, i + 1));
  return rest;
}

/** (L L')^-1 right for a vector. */
export function solve(lower, right) {
  const x = Float64Array.from(right), n = x.length;
  for (let j = 0; j < n; j++) {
    x[j] /= lower[j][j];
    for (let i = j + 1; i < n; i++) x[i] -= lower[i][j] * x[j];
  }
  return backward(lower, x);
}

/** (L')^-1 right for a vector. */
function backward(lower, right) {
  const x = Float64Array.from(right);
  for (let j = x.length - 1; j >= 0; j--) {
    x[j] /= lower[j][j];
    for (let i = 0; i < j; i++) x[i] -= lower[j][i] * x[j];
  }
  return x;
}

// --- losses --------------------------------------------------------------------------------------

const RESIDUAL_BITS = 22;
const clipped = (x, low, high) => Math.min(Math.max(x, low), high);

/** A hazard is a count of events, of rows at risk. */
export const familyOf = ({ kind }) => (kind === "hazard" ? "poisson" : kind);

/** Classes, or 0 where the target is a number. */
export const nClasses = (loss) =>
  ({ bernoulli: 2, multinomial: loss.n_classes }[loss.kind] ?? 0);

/** Scores of a row. */
export const nScores = (loss) => Math.max(nClasses(loss) - 1, 1);

const lossBits = (loss) => RESIDUAL_BITS -
  ({ gaussian: 6, poisson: loss.cap_bits }[familyOf(loss)] ?? 0);

/**
 * Means of rows, in place of their scores: probabilities, numbers, or rates. `scores` has an array
 * for each score; residual and curvature follow from the mean alone.
 */
export function toMeans(loss, scores, n) {
  const [first] = scores;
  if (loss.kind === "bernoulli") {
    for (let i = 0; i < n; i++) first[i] = sigmoid(first[i]);
  } else if (loss.kind === "gaussian") {
    for (let i = 0; i < n; i++) first[i] = clipped(first[i], -48, 48);
  } else if (familyOf(loss) === "poisson") {
    const cap = loss.cap_bits * LN2_HI;
    for (let i = 0; i < n; i++) first[i] = exp(clipped(first[i], -MAX_SCORE, cap));
  } else {
    for (let i = 0; i < n; i++) {
      let top = 0;
      for (const score of scores) top = Math.max(top, score[i]);
      let below = exp(Math.max(-top, -2 * MAX_SCORE));
      for (const score of scores) {
        score[i] = exp(Math.max(score[i] - top, -2 * MAX_SCORE));
        below += score[i];
      }
      for (const score of scores) score[i] /= below;
    }
  }
}

/** Derivative of the loss in score k at a mean; at most 2^(22 - bits) in size. */
export const residual = (loss, k, mean, target) =>
  mean - (loss.kind === "multinomial" ? (target === k + 1 ? 1 : 0) : target);

/** Second derivative in the scores k and l. */
export function curvature(loss, k, l, mean, other) {
  if (loss.kind === "gaussian") return 1;
  return familyOf(loss) === "poisson" ? mean : mean * ((k === l ? 1 : 0) - other);
}

/** Scores of the constant model; `shares` are those of the classes, or the mean target. */
export function startOf(loss, shares) {
  if (loss.kind === "gaussian") return [shares[0]];
  if (familyOf(loss) === "poisson") return [log(shares[0])];
  return Array.from(shares.slice(1), (share) => log(share) - log(shares[0]));
}

// --- exact sums over rows ------------------------------------------------------------------------

const ROW_BITS = 12, THETA_BITS = 26, WEIGHT_BITS = 16;
const ONE = 1 << ROW_BITS, MAX_ROW = 1 << 14;
const UNIT_WEIGHT = 1 << WEIGHT_BITS, EXACT = power2(53);
export const ALL = power2(32);
const THETA_UNIT = power2(-THETA_BITS), SCORE_UNIT = power2(-ROW_BITS - THETA_BITS);
const BLOCK = 1 << 12, COARSE_BLOCK = 1 << 11;

const HALF = 1 << 30;

/** Sums of whole numbers below 2^53, as pairs of such numbers: hi * 2^30 + lo. */
class Totals {
  constructor(n) {
    this.hi = new Float64Array(n);
    this.lo = new Float64Array(n);
  }

  add(i, value) {
    const high = Math.floor(value / HALF);
    this.hi[i] += high;
    this.lo[i] += value - high * HALF;
  }

  integers() {
    return Array.from(this.hi, (high, i) => (BigInt(high) << 30n) + BigInt(this.lo[i]));
  }

  /** In float64, each number rounded once. */
  reals() {
    return Float64Array.from(this.integers(), Number);
  }
}

/** The exact dot product of whole numbers; the order is free. */
function dot(a, b, start, n) {
  let s = 0, t = 0, u = 0, v = 0, i = 0;
  for (; i + 3 < n; i += 4) {
    s += a[start + i] * b[i];
    t += a[start + i + 1] * b[i + 1];
    u += a[start + i + 2] * b[i + 2];
    v += a[start + i + 3] * b[i + 3];
  }
  for (; i < n; i++) s += a[start + i] * b[i];
  return s + t + (u + v);
}

/** All bits depend on all others (the last steps of MurmurHash3). */
function mixed32(x) {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return x ^ (x >>> 16);
}

/** Well-mixed 32-bit numbers of the content of rows, by which rows are sampled. */
export function marks({ columns, nRows }, first = 0) {
  // two exact sums of a row's numbers times fixed random odd factors below 2^24
  const factor = (column, sum) => (mixed32(Math.imul(4 * column + sum, 0x9e3779b1)) >>> 8) | 1;
  const found = new Uint32Array(nRows);
  for (const sum of [first, first + 1]) {
    const whole = new Float64Array(nRows).fill(ONE * factor(1, sum));
    columns.forEach((column, j) => {
      const step = factor(j + 2, sum);
      for (let i = 0; i < nRows; i++) whole[i] += column[i] * step;
    });
    for (let i = 0; i < nRows; i++) {
      const high = Math.floor(whole[i] / ALL);
      found[i] = mixed32(mixed32(found[i] ^ (whole[i] - high * ALL)) ^ high);
    }
  }
  return found;
}

/**
 * Gradient and information of the loss over rows.
 *
 * @param rows {columns: Int16Array[], targets, weights?, offset?, nRows}; the constant is implied;
 *   `offsets` in place of `offset` has an array for each score
 * @param theta an array of whole numbers for each score, the constant first
 * @param share rows whose mark is below it make the information matrix; 2^32 takes all, 0 none
 * @param form of the information: see `formOf`
 */
export function sumsAt(rows, loss, theta, share, form = "pairs") {
  const { columns, targets, weights, offset, nRows } = rows;
  const rowMarks = share ? (rows.marks ??= marks(rows)) : null;
  const q = theta.length, p = columns.length + 1, grid = lossBits(loss);
  for (const row of theta) {
    if (!(row.reduce((sum, value) => sum + Math.abs(value), 0) * MAX_ROW < EXACT)) {
      throw new Refusal(
        "coefficients must keep scores below 2^15, got larger ones. Use a larger ridge.");
    }
  }
  const gradient = new Totals(q * p);
  const Summed = form === "alone" ? FirstAndDiagonal : Information;
  const information = share ? new Summed(q, p, loss, form) : null;
  const means = theta.map(() => new Float64Array(BLOCK));
  const residuals = new Float64Array(BLOCK);
  let weight = 0, sampled = 0;
  for (let start = 0; start < nRows; start += BLOCK) {
    const n = Math.min(BLOCK, nRows - start);
    theta.forEach((row, k) =>
      scoresInto(means[k], columns, row, start, n, rows.offsets ? rows.offsets[k] : offset));
    toMeans(loss, means, n);
    for (let k = 0; k < q; k++) {
      let sum = 0;
      for (let i = 0; i < n; i++) {
        let value = residual(loss, k, means[k][i], targets[start + i]);
        if (weights) value *= weights[start + i];
        sum += residuals[i] = onGrid(value, grid);
      }
      gradient.add(k * p, sum * ONE);
      columns.forEach((column, j) => gradient.add(k * p + j + 1, dot(column, residuals, start, n)));
    }
    weight += weightOf(weights, start, n);
    if (share) {
      for (let i = 0; i < n; i++) {
        if (rowMarks[start + i] < share) {
          sampled += weights ? weights[start + i] * UNIT_WEIGHT : UNIT_WEIGHT;
          information.add(columns, start + i, means, i, weights ? weights[start + i] : 1);
        }
      }
    }
  }
  return { weight, sampled, gradient, information: information && information.finished() };
}

function weightOf(weights, start, n) {
  if (!weights) return n * UNIT_WEIGHT;
  let sum = 0;
  for (let i = start; i < start + n; i++) sum += weights[i] * UNIT_WEIGHT;
  return sum;
}

export function scoresInto(out, columns, theta, start, n, offset) {
  out.fill(theta[0] * ONE, 0, n);
  columns.forEach((column, j) => {
    const factor = theta[j + 1];
    if (factor !== 0) for (let i = 0; i < n; i++) out[i] += column[start + i] * factor;
  });
  for (let i = 0; i < n; i++) {
    out[i] *= SCORE_UNIT;
    if (offset) out[i] += offset[start + i];
  }
}

/**
 * How many coefficients are steered: "pairs", by matrices of all pairs of scores; "classes", by one
 * of each class; "alone", by a first row and a diagonal of each class.
 */
export function formOf(q, p) {
  if (q * p <= MOST_STEERED && (q - 2) * p <= MOST_PAIRED) return "pairs";
  return p <= MOST_STEERED ? "classes" : "alone";
}

/** Second derivatives of a row for each pair of scores, or for each class with the first one. */
function curvaturesOf(loss, means, place, form) {
  const q = means.length, found = [];
  if (form === "pairs") {
    for (let k = 0; k < q; k++) {
      for (let l = k; l < q; l++) found.push(curvature(loss, k, l, means[k][place], means[l][place]));
    }
    return found;
  }
  if (q > 1) {
    let first = 1;
    for (const mean of means) first -= mean[place];
    first = Math.max(first, 0);
    found.push(first * (1 - first));
  }
  means.forEach((mean, k) => found.push(curvature(loss, k, k, mean[place], mean[place])));
  return found;
}

const nParts = (q, form) => form === "pairs" ? q * (q + 1) / 2 : q > 1 ? q + 1 : 1;

/** X' diag(curvature) X for each pair of scores or each class, from rows in units of 2^-8. */
class Information {
  constructor(q, p, loss, form) {
    Object.assign(this, { p, loss, form, n: 0 });
    this.rows = Array.from({ length: p }, () => new Float64Array(COARSE_BLOCK));
    this.rows[0].fill(ONE / 16);
    this.curvatures =
      Array.from({ length: nParts(q, form) }, () => new Float64Array(COARSE_BLOCK));
    this.totals = new Totals(this.curvatures.length * p * p);
    this.scaled = new Float64Array(COARSE_BLOCK);
  }

  add(columns, row, means, place, weight) {
    const { n, rows, loss } = this;
    for (let j = 0; j < columns.length; j++) {
      rows[j + 1][n] = Math.floor(columns[j][row] * (1 / 16) + 0.5);
    }
    curvaturesOf(loss, means, place, this.form).forEach((value, pair) => {
      this.curvatures[pair][n] = onGrid(value * weight, lossBits(loss));
    });
    if (++this.n === COARSE_BLOCK) this.flush();
  }

  flush() {
    const { p, n, rows, scaled } = this;
    this.curvatures.forEach((values, pair) => {
      for (let i = 0; i < p; i++) {
        for (let row = 0; row < n; row++) scaled[row] = rows[i][row] * values[row];
        for (let j = 0; j <= i; j++) {
          this.totals.add((pair * p + i) * p + j, dot(rows[j], scaled, 0, n));
        }
      }
    });
    this.n = 0;
  }

  /** The lower triangles, as whole numbers. */
  finished() {
    this.flush();
    return this.totals;
  }
}

/** First row and diagonal of the information of each class, from rows in units of 2^-8. */
class FirstAndDiagonal {
  constructor(q, p, loss, form) {
    Object.assign(this, { p, loss, form });
    this.totals = new Totals(2 * nParts(q, form) * p);
  }

  add(columns, row, means, place, weight) {
    const { p, loss, totals } = this, one = ONE / 16;
    curvaturesOf(loss, means, place, this.form).forEach((curved, k) => {
      const at = 2 * k * p, value = onGrid(curved * weight, lossBits(loss));
      totals.add(at, one * one * value);
      totals.add(at + p, one * one * value);
      for (let j = 0; j < columns.length; j++) {
        const cell = Math.floor(columns[j][row] * (1 / 16) + 0.5);
        if (cell === 0) continue;
        totals.add(at + j + 1, one * cell * value);
        totals.add(at + p + j + 1, cell * cell * value);
      }
    });
  }

  finished() {
    return this.totals;
  }
}

/** The weight of all rows, and that of each class (or the weighted targets), in units of 2^-16. */
export function totalsOf({ targets, weights, nRows }, loss) {
  const classes = nClasses(loss);
  const totals = new Float64Array(Math.max(classes, 1));
  let weight = 0;
  for (let i = 0; i < nRows; i++) {
    const mass = weights ? onGrid(weights[i], WEIGHT_BITS) : UNIT_WEIGHT;
    weight += mass;
    if (classes) totals[targets[i]] += mass;
    else totals[0] += Math.floor(targets[i] * mass + 0.5);
  }
  return { weight, totals };
}

/** Rows, weight, and shares of the classes by weight (or the mean target). */
export function summaryOf(rows, loss) {
  const classes = nClasses(loss), { weight, totals } = totalsOf(rows, loss);
  if (!weight) throw new Refusal("rows must have some weight, got none. Pass more rows.");
  const shares = totals.map((value) => value / weight);
  if (classes && !shares.every((share) => share > 0)) {
    throw new Refusal(
      "rows must have all classes, but some class has no row. Get rows of each class.");
  }
  if (familyOf(loss) === "poisson" && !(shares[0] > 0)) {
    throw new Refusal(loss.kind === "hazard" ? "some event must have been seen. Get rows with events." :
      "counts must not all be zero. Get rows with some events.");
  }
  return { nRows: rows.nRows, weight, shares };
}

// --- Newton's method -----------------------------------------------------------------------------

export const MAX_THETA = 16;
const NEAR = 1 << 20, NEAR_ENOUGH = 1 << 16, ROWS_PER_COEFFICIENT = 128;
const LARGE_STEP = 1 / 8, MOST_STEPS = 5000, LEAST_LENGTH = 1 / (1 << 20);
export const MOST_STEERED = 500;
const MOST_PAIRED = 64;  // columns for each score after the second one
const MEMORY = 10, LEAST_PIVOT = 2 ** -24;
/** By class, the information is made again after larger steps, and after so many. */
const LARGE_BY_CLASS = 1, MOST_BY_CLASS = 10;

/**
 * Coefficients at which the mean loss with its ridge is smallest: for each score whole numbers of
 * units of 2^-26, the constant first. `onPass` is told of every pass over the
 * rows: its number, the size of the last step, where it is, and the share.
 */
export function fit(rows, loss, ridge, onPass = () => {}) {
  const { shares } = summaryOf(rows, loss);
  const q = nScores(loss), p = rows.columns.length + 1, form = formOf(q, p);
  let passes = 0, size = Infinity;
  const passed = (there, some) => {
    onPass(passes++, size, there, some);
    return sumsAt(rows, loss, there, some, form);
  };
  let theta = startOf(loss, shares).map((score) => {
    const row = new Float64Array(p);
    row[0] = onGrid(score, THETA_BITS);
    return row;
  });
  let share = form === "alone" ? ALL : shareOf(rows.nRows, q * p);
  let sums = passed(theta, share);
  if (share < ALL && Math.abs(sums.sampled / sums.weight - share / ALL) > share / ALL / 8) {
    share = ALL; // few different rows: no share stands for all
    sums = passed(theta, share);
  }
  const near = Math.min(NEAR_ENOUGH, Math.max(1, Math.floor(NEAR / Math.sqrt(rows.nRows))));
  const points = [];  // since the information was made
  let inverse = null, last = Infinity, before = 0;
  for (let step = 0; step < MOST_STEPS; step++) {
    const gradient = meanGradient(sums, loss, ridge, theta);
    const flat = POWERS[WEIGHT_BITS + 1023 - lossBits(loss)] * rows.nRows / sums.weight;
    if (gradient.every((value) => Math.abs(value) <= flat)) return theta;
    if (sums.information) {
      points.length = 0;
      inverse = preconditionerOf(sums, loss, ridge, q, p, form);
    }
    points.push({ theta: theta.flatMap((row) => Array.from(row)), gradient });
    if (points.length > MEMORY + 1) points.shift();
    const move = remembered(points, inverse).map((value) => -value);
    size = move.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const units = move.map((value) => onGrid(value, THETA_BITS));
    const largest = units.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    // steps after this one that shrink as the last two did add up to so much
    if (8 * largest <= near || largest * largest <= near * (before - largest)) {
      return moved(theta, units);
    }
    const steersBadly = size > last / 4 && share < ALL;
    if (steersBadly) share = Math.min(4 * share, ALL);
    last = size;
    const slope = total(gradient.map((value, i) => value * move[i]));
    for (let length = 1; ;) {
      const there = moved(theta, move.map((value) => onGrid(length * value, THETA_BITS)));
      if (!there.every((row) => row.every((v) => Math.abs(v) < MAX_THETA / THETA_UNIT))) {
        if (length < LEAST_LENGTH) {
          throw new Refusal(`coefficients of standardised columns must stay below ${MAX_THETA}, but ` +
            "these rows drive them further: some column nearly separates the classes. Use a larger " +
            "ridge.");
        }
        length /= 2;
        continue;
      }
      const reach = length * size;
      const again = form === "pairs" ? reach > LARGE_STEP :
        form === "classes" && (reach > LARGE_BY_CLASS || points.length === MOST_BY_CLASS);
      sums = passed(there, steersBadly || again ? share : 0);
      const ahead = meanGradient(sums, loss, ridge, there);
      if (total(ahead.map((value, i) => value * move[i])) <= -slope / 4) {
        before = theta.reduce((most, row, k) =>
          row.reduce((more, value, j) => Math.max(more, Math.abs(there[k][j] - value)), most), 0);
        theta = there;
        break;
      }
      length /= 2;
      if (length < LEAST_LENGTH) {
        throw new Refusal(
          "the fit must converge, but its steps do not shrink. Use a larger ridge.");
      }
    }
  }
  throw new Refusal(
    `the fit must converge, but ${MOST_STEPS} steps were not enough. Use a larger ridge.`);
}

/** Inverse information times the last gradient, by the last steps (L-BFGS in two loops). */
function remembered(points, inverse) {
  const dot = (a, b) => total(a.map((value, i) => value * b[i]));
  const steps = [];
  for (let i = 1; i < points.length; i++) {
    const [a, b] = [points[i - 1], points[i]];
    const step = b.theta.map((value, j) => (value - a.theta[j]) * THETA_UNIT);
    const change = b.gradient.map((value, j) => value - a.gradient[j]);
    const product = dot(step, change);
    if (product > 0) steps.push({ step, change, product });
  }
  let right = points[points.length - 1].gradient;
  for (const one of steps.slice().reverse()) {
    one.weight = dot(one.step, right) / one.product;
    right = right.map((value, j) => value - one.weight * one.change[j]);
  }
  let found = inverse(right);
  for (const { step, change, product, weight } of steps) {
    const factor = weight - dot(change, found) / product;
    found = found.map((value, j) => value + factor * step[j]);
  }
  return found;
}

/** Inverse information, or nearly: see docs/format.md, section 10. */
function preconditionerOf(sums, loss, ridge, q, p, form) {
  if (form === "pairs") {
    const lower = cholesky(meanInformation(sums, loss, ridge, q, p), LEAST_PIVOT);
    return (right) => solve(lower, right);
  }
  const unit = POWERS[-lossBits(loss) + 1022], sampled = Math.max(sums.sampled, 1);
  const parts = sums.information.reals().map((value) => value * unit / sampled);
  const solvers = Array.from({ length: nParts(q, form) }, (_, k) => {
    if (form === "alone") {
      const own = parts.slice(2 * k * p, 2 * k * p + 2 * p);
      return (right) => solvedAlone(own, right, ridge, p);
    }
    const lower = cholesky(classMatrix(parts, k * p * p, ridge, p), LEAST_PIVOT);
    return (right) => solve(lower, right);
  });
  return (right) => byClass(solvers, right, p);
}

/** The information of one class with the ridge, from its lower triangle. */
function classMatrix(parts, at, ridge, p) {
  const matrix = Array.from({ length: p }, () => new Float64Array(p));
  for (let i = 0; i < p; i++) {
    for (let j = 0; j <= i; j++) matrix[i][j] = matrix[j][i] = parts[at + i * p + j];
    if (i > 0) matrix[i][i] += ridge;
  }
  return matrix;
}

/** Each class is solved alone; scores are differences to the first class. */
function byClass(solvers, right, p) {
  if (solvers.length === 1) return Float64Array.from(solvers[0](right));
  const first = new Float64Array(p), out = new Float64Array(right.length);
  for (let at = 0; at < right.length; at++) first[at % p] -= right[at];
  const base = solvers[0](first);
  for (let k = 1; k < solvers.length; k++) {
    const own = solvers[k](right.slice((k - 1) * p, k * p));
    for (let j = 0; j < p; j++) out[(k - 1) * p + j] = own[j] - base[j];
  }
  return out;
}

/** Inverse information of columns that are alone beside the constant, times a vector. */
function solvedAlone(parts, right, ridge, p) {
  const found = new Float64Array(p), head = Math.max(parts[0], LEAST_PIVOT);
  let sum = 0;
  for (let j = 1; j < p; j++) {
    const slope = parts[j] / head, own = parts[p + j] + ridge;
    const alone = Math.max(own - parts[j] * slope, own / 64, LEAST_PIVOT);
    found[j] = (right[j] - slope * right[0]) / alone;
    sum += slope * found[j];
  }
  found[0] = right[0] / head - sum;
  return found;
}

const moved = (theta, units) =>
  theta.map((row, k) => row.map((value, j) => value + units[k * row.length + j]));

/** The share of rows, in units of 2^-32, that makes the information matrix. */
function shareOf(nRows, nCoefficients) {
  const wanted = Math.max(ROWS_PER_COEFFICIENT * nCoefficients, 1 << 13);
  return 2 * wanted > nRows ? ALL : Number((BigInt(wanted) << 32n) / BigInt(nRows));
}

/** Gradient of the mean loss with its ridge, which is symmetric in all classes. */
function meanGradient(sums, loss, ridge, theta) {
  const q = theta.length, p = theta[0].length;
  const unit = POWERS[WEIGHT_BITS - ROW_BITS - lossBits(loss) + 1022];
  const out = sums.gradient.reals().map((value) => value * unit / sums.weight);
  for (let j = 1; j < p; j++) {
    let centre = 0;
    for (const row of theta) centre += row[j] * THETA_UNIT;
    centre /= q + 1;
    for (let k = 0; k < q; k++) {
      const value = theta[k][j] * THETA_UNIT;
      out[k * p + j] += (q > 1 ? value - centre : value) * ridge;
    }
  }
  return out;
}

/** The information matrix of a row with the ridge, over all scores and columns. */
export function meanInformation(sums, loss, ridge, q, p) {
  const unit = POWERS[-lossBits(loss) + 1022], sampled = Math.max(sums.sampled, 1);
  const parts = sums.information.reals();
  const whole = Array.from({ length: q * p }, () => new Float64Array(q * p));
  let pair = 0;
  for (let k = 0; k < q; k++) {
    for (let l = k; l < q; l++, pair++) {
      const onScores = q > 1 ? (k === l ? 1 : 0) - 1 / (q + 1) : 1;
      for (let i = 0; i < p; i++) {
        for (let j = 0; j <= i; j++) {
          let value = parts[(pair * p + i) * p + j] * unit / sampled;
          if (i === j && i > 0) value += onScores * ridge;
          whole[l * p + i][k * p + j] = whole[l * p + j][k * p + i] = value;
        }
      }
    }
  }
  return whole;  // the lower triangle of blocks, which is all that cholesky reads
}

// --- coordinates, cells, codes -------------------------------------------------------------------

const TRIANGLE_BITS = 14;

/** Coordinates C' theta L of coefficients: exact, then rounded once; a row for each score. */
export function coordinatesOf({ scores, columns, scales }, theta) {
  const whole = theta.map((row) => Array.from(row, BigInt));
  const p = whole[0].length;
  const half = whole.map((row) => {
    if (scales) return row.map((value, j) => value * BigInt(scales[j]));
    const out = new Array(p).fill(0n);
    columns.forEach((triangle, i) => triangle.forEach((entry, j) => {
      out[j] += row[i] * BigInt(entry);
    }));
    return out;
  });
  const z = [];
  for (let l = 0; l < scores.length; l++) {
    for (let j = 0; j < p; j++) {
      let sum = 0n;
      for (let k = l; k < scores.length; k++) sum += BigInt(scores[k][l]) * half[k][j];
      z.push(Number(sum) * power2(-2 * TRIANGLE_BITS - THETA_BITS));
    }
  }
  return Float64Array.from(z);
}

/** Coefficients, a row for each score, the constant first. */
export function thetaOf({ scores, columns, scales }, z) {
  const unit = power2(-TRIANGLE_BITS);
  const real = (triangle) => triangle.map((row) => Float64Array.from(row, (entry) => entry * unit));
  const q = scores.length, p = z.length / q, byScores = real(scores);
  const half = Array.from({ length: q }, () => new Float64Array(p));
  for (let j = 0; j < p; j++) {
    const column = half.map((_, k) => z[k * p + j]);
    backward(byScores, column).forEach((value, k) => { half[k][j] = value; });
  }
  if (scales) return half.map((row) => row.map((value, j) => value / (scales[j] * unit)));
  const byColumns = real(columns);
  return half.map((row) => backward(byColumns, row));
}

/** Where numbers lie on the line, in cells: a code is the nearest whole number. */
export function offsetsOf(design, z) {
  const shifts = uniforms(design.seed, "cells", z.length);
  return z.map((value, i) => (value / Number(design.widths[i]) + shifts[i]) -
    (design.sketch ? design.sketch[i] : 0) / (1 << design.bits));
}

/** Codes of a lab's offsets. */
export const codesOf = (offsets) => Array.from(offsets, (offset) => Math.floor(offset + 0.5) + 0);

/** The numbers that codes stand for. */
export function decoded(design, codes) {
  const shifts = uniforms(design.seed, "cells", codes.length), parts = 1 << design.bits;
  return Float64Array.from(codes, (code, i) =>
    ((code * parts + (design.sketch ? design.sketch[i] : 0)) / parts - shifts[i]) *
    Number(design.widths[i]));
}
