#!/usr/bin/env node
// A second reader of model files, written from docs/model-file.md, docs/shared-randomness.md and
// docs/sigmoid.md; it shares no line with replearn.
//
//   node verify.js MODEL.json              the fingerprint, computed and as written
//   node verify.js MODEL.json ROWS.json    and labels of rows: arrays of numbers, or objects by column
//   node verify.js MODEL.json ROWS.json MODEL.json ROWS.json ...    a line for each
//
// Exit code 0 if every fingerprint is right, 1 if not. It checks none of the limits of a hostile file.
"use strict";
const { createHash } = require("node:crypto");
const { readFileSync } = require("node:fs");

const sha256 = (bytes) => createHash("sha256").update(bytes).digest();

// --- canonical JSON (RFC 8785) of strings, integers, booleans, lists and objects
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

// --- shared randomness: key, words, draws
const MASK = (1n << 64n) - 1n;

function streamKey(seed, stream) {
  const text = Buffer.from(seed, "utf8");
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  const hash = sha256(Buffer.concat([Buffer.from("replearn/streams/1\n"), size, text, Buffer.from(stream, "utf8")]));
  return [hash.readBigUInt64LE(0), hash.readBigUInt64LE(8)];
}

function philoxBlock(counter, key) {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const p0 = 0xd2e7470ee14c6c93n * c0, p1 = 0xca5a826395121157n * c2;
    [c0, c1, c2, c3] = [(p1 >> 64n) ^ c1 ^ k0, p1 & MASK, (p0 >> 64n) ^ c3 ^ k1, p0 & MASK];
    k0 = (k0 + 0x9e3779b97f4a7c15n) & MASK;
    k1 = (k1 + 0xbb67ae8584caa73bn) & MASK;
  }
  return [c0, c1, c2, c3];
}

function words(seed, stream, n, row = 0n) {
  const key = streamKey(seed, stream), found = [];
  for (let block = 1n; found.length < n; block++) found.push(...philoxBlock([block, BigInt(row), 0n, 0n], key));
  return found.slice(0, n);
}

const uniforms = (seed, stream, n, row) => words(seed, stream, n, row).map((word) => Number(word >> 11n) * 2 ** -53);
const normals = (seed, stream, n, row) => words(seed, stream, n, row).map((word) => quantile(Number(2n * (word >> 12n) + 1n) * 2 ** -53));

function signs(seed, stream, n, row) {
  const found = words(seed, stream, Math.ceil(n / 64), row);
  return Array.from({ length: n }, (_, j) => ((found[j >> 6] >> BigInt(j & 63)) & 1n ? 1 : -1));
}

function sample(seed, stream, n, m) {
  const items = Array.from({ length: n }, (_, i) => i);
  words(seed, stream, m).forEach((word, i) => {
    const j = i + Number((word * BigInt(n - i)) >> 64n);
    [items[i], items[j]] = [items[j], items[i]];
  });
  return items.slice(0, m);
}

const H = 6.93147180369123816490e-01, L = 1.90821492927058770002e-10;

function logarithm(x) {
  let e = 0;
  while (x < 0.7071067811865476) (x *= 2), e--;
  while (x >= 1.4142135623730951) (x /= 2), e++;
  const s = (x - 1) / (x + 1), t = s * s;
  let sum = 0;
  for (let i = 11; i > 0; i--) sum = (sum + 1 / (2 * i + 1)) * t;
  return e * H + (2 * s + (2 * s * sum + e * L));
}

// AS 241, PPND16 (Wichura, 1988): coefficients of the highest power first
const CENTRE = [[2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457, 13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608],
  [5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867, 5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1]];
const NEAR = [[7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734],
  [1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1]];
const FAR = [[2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772],
  [2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1]];
const horner = (coefficients, r) => coefficients.reduce((sum, c) => sum * r + c);

function quantile(p) {
  const q = p - 0.5;
  if (Math.abs(q) <= 0.425) {
    const r = 0.180625 - q * q;
    return (q * horner(CENTRE[0], r)) / horner(CENTRE[1], r);
  }
  const r = Math.sqrt(-logarithm(Math.min(p, 1 - p)));
  const [num, den] = r <= 5 ? NEAR : FAR, s = r <= 5 ? r - 1.6 : r - 5;
  const tail = horner(num, s) / horner(den, s);
  return q < 0 ? -tail : tail;
}

// --- vectors, in the order of "Scores"
function dot(x, y) {
  const lanes = new Array(16).fill(0);
  x.forEach((value, j) => (lanes[j % 16] += value * y[j]));
  for (let half = 8; half >= 1; half /= 2) for (let l = 0; l < half; l++) lanes[l] += lanes[l + half];
  return lanes[0];
}

function unit(v) {
  const length = Math.sqrt(dot(v, v));
  return length > 0 ? v.map((value) => value / length) : v;
}

const sumOfRows = (b, d, rowOf) => b.reduce((sum, b_i, i) => rowOf(i).map((entry, j) => sum[j] + b_i * entry), new Array(d).fill(0));

// --- from codes to a point
const LATTICES = { // block, u, m
  a2: [2, [0.537284965911771, 0.9306048591020996], [2]], d3s: [3, [0.6299605249474366], [2]], d4: [4, [0.8408964152537145], [2]],
  d5s: [5, [0.5743491774985175], [2]], e6s: [6, [0.4473881527219965, 0.7748990112188823], [6, 2]], e7s: [7, [0.7429971445684742], [2]],
  d10p: [10, [0.5], [4]], k12: [12, [0.37991784282579627, 0.6580370064762462], [4]],
};
const BLOCKS = { centre: 1, ak: 1, e8: 8, leech: 24 };
const blockOf = (name) => BLOCKS[name] ?? LATTICES[name][0];

function cellPoint(name, code, o, j) { // in units of the width; j: place in the block
  if (name === "centre") return code + (o + 0.5);
  if (name === "ak") return code + o;
  if (name === "e8") return code * 0.5 + o * 2;
  if (name === "leech") return code * 0.3535533905932738 + o * 2.8284271247461903;
  const [, u, m] = LATTICES[name];
  return (code + o * m[j % m.length]) * u[j % u.length];
}

const GENERATORS = [1, 1, 3, 3, 3, 11, 11, 47, 75];

function partsOf(rounding, k) { // for each code: the name of its rounding, and its place in the block
  const parts = rounding.split("+"), names = [];
  parts.forEach((name, place) => { // each part takes whole blocks of what is left, the last one the rest
    const block = blockOf(name), left = k - names.length;
    const size = place < parts.length - 1 ? left - (left % block) : Math.ceil(Math.max(left, 0) / block) * block;
    for (let j = 0; j < size; j++) names.push([name, j % block]);
  });
  return names;
}

function pointOfCodes(model, rounding, width, k, bits = 0, hint = 0, row = 0, codes = model.codes) {
  const o = uniforms(model.seed, "rounding/offset", codes.length, row);
  let power = 1;
  return partsOf(rounding, k).map(([name, place], j) => {
    const m = ((hint * power) % 2 ** bits) / 2 ** bits, moved = o[j] >= 1 - m ? o[j] - (1 - m) : o[j] + m;
    power = (power * GENERATORS[bits]) % 2 ** bits;
    return cellPoint(name, codes[j], moved, place) * width;
  }).slice(0, k);
}

// --- from a point to a normal: A^T b
function transform(y, from, size) {
  for (let stride = 1; stride < size; stride *= 2)
    for (let start = from; start < from + size; start += 2 * stride)
      for (let j = start; j < start + stride; j++) [y[j], y[j + stride]] = [y[j] + y[j + stride], y[j] - y[j + stride]];
  for (let j = from; j < from + size; j++) y[j] *= 1 / Math.sqrt(size);
}

function lift(model, b, d) {
  const { projection, basis } = model.space, seed = model.seed, k = b.length;
  if (projection === "none") return b;
  if (projection === "published")
    return sumOfRows(b.map((b_i, i) => b_i * Number(basis.widths[i])), d, (i) => basis.rows[i].map((entry) => entry * 2 ** -14));
  if (projection === "gaussian") return sumOfRows(b, d, (i) => normals(seed, "projection/gaussian", d, i)).map((v) => v / Math.sqrt(k));
  if (projection === "signs") return sumOfRows(b, d, (i) => signs(seed, "projection/signs", d, i)).map((v) => v / Math.sqrt(k));
  const y = projection === "rotation" ? [...b] : new Array(d).fill(0);
  if (projection === "rotation") {
    for (let i = d - 1; i >= 0; i--) {
      const v = normals(seed, "projection/rotation", d - i, i), l = Math.sqrt(dot(v, v)), s = v[0] >= 0 ? 1 : -1;
      v[0] += s * l;
      y[i] *= -s;
      if (i === d - 1) continue;
      const f = dot(v, y.slice(i)) / (l * Math.abs(v[0]));
      v.forEach((entry, j) => (y[i + j] -= f * entry));
    }
    return y;
  }
  const size = 2 ** Math.floor(Math.log2(d));
  sample(seed, "projection/hadamard/rows", d, k).forEach((place, i) => (y[place] = b[i] * Math.sqrt(d / k)));
  transform(y, d - size, size);
  const turned = signs(seed, "projection/hadamard/signs", d, 1).map((s, j) => y[j] * s);
  transform(turned, 0, size);
  return signs(seed, "projection/hadamard/signs", d, 0).map((s, j) => turned[j] * s);
}

// --- the other kinds of models
function votes(model, d) { // boosting: the unit vector of each round
  const { boosting, grid_width, n_rounds } = model.space, per = model.codes.length / n_rounds;
  return Array.from({ length: n_rounds }, (_, t) => {
    const codes = model.codes.slice(t * per, (t + 1) * per);
    const u = boosting === "box" ? uniforms(model.seed, `boost/${t}/offset`, d) : uniforms(model.seed, `boost/${t}/foam`, d + 1, codes.shift()).slice(1);
    return unit(codes.map((c, j) => (c + (u[j] + 0.5)) * Number(grid_width)));
  });
}

function latticeVector(k, radius, index) { // the index-th integer vector in a ball, but for 0
  const [whole, digits = ""] = radius.split("."), unitOf = 10n ** BigInt(digits.length), r = BigInt(whole + digits);
  let left = Number((BigInt(k) * (unitOf + r) ** 2n) / (4n * r * r));
  const memo = new Map();
  const inside = (m, s) => { // vectors of m entries and squared length at most s
    if (s < 0) return 0;
    if (m === 0) return 1;
    const name = `${m},${s}`;
    if (!memo.has(name)) {
      let n = inside(m - 1, s);
      for (let e = 1; e * e <= s; e++) n += 2 * inside(m - 1, s - e * e);
      memo.set(name, n);
    }
    return memo.get(name);
  };
  let rank = index >= (inside(k, left) - 1) / 2 ? index + 1 : index; // 0 stands in the middle
  return Array.from({ length: k }, (_, c) => {
    let entry = -Math.floor(Math.sqrt(left));
    for (let n; rank >= (n = inside(k - c - 1, left - entry * entry)); entry++) rank -= n;
    left -= entry * entry;
    return entry;
  });
}

function exponential(x) {
  x = Math.min(Math.max(x, -700), 700);
  const W = 6755399441055744, n = x * 1.4426950408889634 - 0.5 + W - W, r = Math.max(x - n * H - n * L, 0);
  let factorial = 355687428096000; // 17!
  let sum = 1 / factorial;
  for (let k = 17; k > 0; k--) (factorial /= k), (sum = sum * r + 1 / factorial);
  return Math.min(sum, 2) * 2 ** n;
}

const BALLS = { 1: 0.5, 2: 0.5642, 3: 0.6204, 4: 0.6709, 5: 0.7174, 6: 0.7605, 7: 0.8011, 8: 0.8394, 10: 0.9106, 12: 0.9762, 24: 1.2975 };

function logistic(model) { // weights and intercept of each class but the first
  const space = model.space, start = space.start.map(Number), q = start.length, parts = partsOf(space.rounding, q);
  const c = pointOfCodes(model, space.rounding, 1, q, space.hint_bits, space.hint);
  const p = c.map((c_j, j) => (1 - Number(space.shrink[j])) * c_j);
  for (let first = 0; first < q; first += blockOf(parts[first][0])) {
    const last = Math.min(first + blockOf(parts[first][0]), q), radius = BALLS[blockOf(parts[first][0])];
    const length = Math.sqrt(p.slice(first, last).reduce((sum, x) => sum + x * x, 0));
    for (let j = first; j < last; j++) if (length > radius) p[j] *= radius / length;
  }
  const y = c.map((c_j, j) => c_j - p[j]);
  const theta = start.map((s, i) => s + space.lift[i].reduce((sum, entry, j) => sum + Number(entry) * y[j], 0));
  const size = space.directions.length + 1;
  return Array.from({ length: q / size }, (_, c) => {
    const own = theta.slice(c * size, (c + 1) * size);
    return [sumOfRows(own.slice(1), model.n_features, (i) => space.directions[i].map((entry) => entry * 2 ** -14)), own[0]];
  });
}

function softmax(scores) { // the first one is 0
  const top = Math.max(...scores), terms = scores.map((s) => exponential(s - top));
  const total = terms.reduce((sum, term) => sum + term);
  return terms.map((term) => term / total);
}

function scorer(model) { // a function from features to the score (of more than two classes: to a list), and the threshold of log-odds
  const d = model.n_features + (model.fit_intercept ? 1 : 0), space = model.space;
  const along = (normal, x) => dot(x, normal) + (model.fit_intercept ? normal[d - 1] : 0);
  if (model.recipe === "logistic") {
    const classes = logistic(model), cap = Number(space.cap), threshold = Number(space.threshold);
    const factor = (size) => (size > cap * cap ? cap / Math.sqrt(size) : 1);
    if (classes.length > 1)
      return [(x) => [0, ...classes.map(([weights, intercept]) => dot(x, weights) * factor(dot(x, x)) + intercept)], threshold];
    const [[weights, intercept]] = classes;
    return [(x) => dot(x, weights) * factor(dot(x, x)) + (intercept - threshold), threshold];
  }
  if (model.recipe === "boost") {
    const voters = votes(model, d);
    if (space.output === "majority") return [(x) => voters.reduce((sum, v) => sum + (along(v, x) > 0 ? 1 : -1), 0) / voters.length];
    const normal = unit(sumOfRows(new Array(voters.length).fill(1), d, (i) => voters[i]));
    return [(x) => along(normal, x)];
  }
  if (space.n_outputs) { // a halfspace for each class, with codes and a grid of its own
    const size = model.codes.length / space.n_outputs, hint = space.hint ?? 0;
    const halfspaces = Array.from({ length: space.n_outputs }, (_, c) => {
      const codes = model.codes.slice(c * size, (c + 1) * size);
      return unit(lift(model, pointOfCodes(model, space.rounding, Number(space.grid_width), space.n_components, 0, 0, 256 * c + hint, codes), d));
    });
    return [(x) => halfspaces.map((normal) => along(normal, x))];
  }
  let b;
  if (space.net === "lattice") b = latticeVector(space.n_components, space.radius, model.codes[0]);
  else if (space.net === "random") b = normals(model.seed, "net/candidates", space.n_components, model.codes[0]).map(Math.fround);
  else b = pointOfCodes(model, space.rounding, Number(space.grid_width), space.n_components, 0, 0, space.hint ?? 0);
  const normal = unit(lift(model, b, d));
  return [(x) => along(normal, x)];
}

// --- rows of a table
const plain = (number) => (Object.is(number, -0) ? "0" : Math.abs(number) < 1e21 && Math.abs(number) >= 1e-6 ? String(number) : Number(number).toFixed(20).replace(/\.?0+$/, ""));

function textOf(cell) {
  if (typeof cell === "number") return plain(cell);
  const text = String(cell);
  if (/^-?(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(text)) return text.includes(".") ? plain(Number(text)) : text.replace("-0", "0");
  return /^(true|false)$/i.test(text) ? text[0].toUpperCase() + text.slice(1).toLowerCase() : text;
}

function encode(columns, row) {
  return columns.flatMap((column) => {
    const cell = row[column.name] ?? null;
    if (column.kind === "number") return cell === null ? 0 : (Number(cell) - Number(column.centre)) / Number(column.scale);
    const n = column.values.length, out = new Array(n + ("other" in column ? 1 : 0)).fill(0);
    const found = cell === null ? -1 : column.values.findIndex((value) => textOf(value) === textOf(cell)), place = found < 0 ? n : found;
    if (cell !== null && place < out.length) out[place] = column.scales ? 1 / Number(column.scales[place]) : 1;
    return out;
  });
}

function predictions(model, rows, names) {
  const [score, threshold] = scorer(model);
  return rows.map((row) => {
    const named = Array.isArray(row) && model.encoding ? Object.fromEntries(model.encoding.map(({ name }, j) => [name, row[j]])) : row;
    const x = model.encoding ? encode(model.encoding, named) : Array.isArray(row) ? row : names.map((name) => row[name]);
    const s = score(x), found = { label: model.classes[Array.isArray(s) ? s.indexOf(Math.max(...s)) : s > 0 ? 1 : 0], score: s };
    if (Array.isArray(s)) return threshold === undefined ? found : { ...found, probability: softmax(s) };
    return threshold === undefined ? found : { ...found, probability: 1 / (1 + exponential(-(s + threshold))) };
  });
}

function verify(modelPath, rowsPath) {
  const file = JSON.parse(readFileSync(modelPath, "utf8"));
  const computed = sha256(Buffer.from(canonical(file.model), "utf8")).toString("hex");
  const result = { fingerprint: computed, written: file.fingerprint, same: computed === file.fingerprint };
  if (rowsPath) result.predictions = predictions(file.model, JSON.parse(readFileSync(rowsPath, "utf8")), file.feature_names);
  console.log(JSON.stringify(result));
  return result.same;
}

const paths = process.argv.slice(2), right = [];
for (let i = 0; i < paths.length; i += 2) right.push(verify(paths[i], paths[i + 1]));
process.exitCode = right.length && right.every(Boolean) ? 0 : 1;
