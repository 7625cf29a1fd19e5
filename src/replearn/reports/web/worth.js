// What the model is worth on the lab's own rows, and how much its numbers vary there. For reading,
// not for codes: sums are made in plain float64.
import {
  ALL, cholesky, curvature, decoded, meanInformation, nScores, onGrid, residual, scoresInto, solve,
  startOf, sumsAt, thetaOf, toMeans, totalsOf,
} from "./exact.js";

const NORMAL_95 = 1.959963984540054, LEAST_PIVOT = 2 ** -24;
const MOST_LOOKED_AT = 1 << 15, MOST_WORK = 2 ** 31;  // rows, and products of them

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

/** A weighted mean over rows, with the ends of its 95 % confidence interval. */
function mean(values, masses) {
  const total = sumOf(masses), value = sumOf(values.map((v, i) => v * masses[i])) / total;
  const spread = Math.sqrt(sumOf(values.map((v, i) => ((v - value) * masses[i]) ** 2)));
  return { value, reach: NORMAL_95 * spread / total };
}

function scoresOf({ columns, offset, nRows }, theta) {
  return theta.map((row) => {
    const out = new Float64Array(nRows);
    scoresInto(out, columns, row, 0, nRows, offset);
    return out;
  });
}

/** The loss of a row; `scores` are its own. */
function lossOf({ kind, cap_bits: cap }, scores, target) {
  const [score] = scores;
  if (kind === "gaussian") return 0.5 * (score - target) ** 2;
  if (kind === "poisson") return Math.exp(Math.min(score, cap * Math.LN2)) - target * score;
  const top = Math.max(0, ...scores);
  const sum = scores.reduce((total, s) => total + Math.exp(s - top), Math.exp(-top));
  return top + Math.log(sum) - (target ? scores[target - 1] : 0);
}

/** The chance that a row of the second class has the larger score; its reach is DeLong's. */
function areaUnderCurve(scores, targets, masses) {
  const order = Uint32Array.from(scores, (_, i) => i).sort((a, b) => scores[a] - scores[b]);
  const below = [0, 0], ranks = [[], []], own = [[], []], totals = [0, 0];
  targets.forEach((target, i) => { totals[target] += masses[i]; });
  for (let start = 0, end; start < order.length; start = end) {
    const tied = [0, 0];
    for (end = start; end < order.length && scores[order[end]] === scores[order[start]]; end++) {
      tied[targets[order[end]]] += masses[order[end]];
    }
    for (let i = start; i < end; i++) {
      const label = targets[order[i]], other = 1 - label;
      ranks[label].push((below[other] + tied[other] / 2) / totals[other]);
      own[label].push(masses[order[i]]);
    }
    below[0] += tied[0];
    below[1] += tied[1];
  }
  const up = mean(ranks[1], own[1]), down = mean(ranks[0], own[0]);
  return { value: up.value, reach: Math.hypot(up.reach, down.reach) };
}

function balancedAccuracy(scores, targets, masses) {
  const chosen = Array.from(targets, (_, i) => {
    const values = [0, ...scores.map((score) => score[i])];
    return values.indexOf(Math.max(...values));
  });
  const parts = [...new Set(targets)].map((label) => {
    const here = chosen.map((_, i) => i).filter((i) => targets[i] === label);
    return mean(here.map((i) => chosen[i] === label ? 1 : 0), here.map((i) => masses[i]));
  });
  return { value: sumOf(parts.map(({ value }) => value)) / parts.length,
    reach: Math.hypot(...parts.map(({ reach }) => reach)) / parts.length };
}

/** Loss, base and ranking of the model that codes stand for: [name, value, low, high, base?]. */
export function worthOf({ design }, codes, rows) {
  const { loss } = design, { targets, nRows } = rows;
  const masses = rows.weights ?? new Float64Array(nRows).fill(1);
  const theta = thetaOf(design.coordinates, decoded(design, codes))
    .map((row) => row.map((value) => onGrid(value, 26)));
  const scores = scoresOf(rows, theta);
  const { weight, totals } = totalsOf(rows, loss);
  const constant = startOf(loss, totals.map((value) => value / weight));
  const values = targets.map((target, i) => lossOf(loss, scores.map((score) => score[i]), target));
  const base = mean(targets.map((target) => lossOf(loss, constant, target)), masses).value;
  const { value, reach } = mean(values, masses);
  const name = { gaussian: "half the squared error", poisson: "half the deviance" }[loss.kind];
  const found = [{ name: name ?? "log-loss", value, low: value - reach, high: value + reach, base }];
  if (loss.kind === "bernoulli" || loss.kind === "multinomial") {
    const isTwo = loss.kind === "bernoulli";
    const rank = isTwo ? areaUnderCurve(scores[0], targets, masses) :
      balancedAccuracy(scores, targets, masses);
    found.push({ name: isTwo ? "AUC" : "balanced accuracy", value: rank.value,
      low: Math.max(0, rank.value - rank.reach), high: Math.min(1, rank.value + rank.reach) });
  }
  return found;
}

/**
 * Standard deviation of one row's influence on each number: what is seen, with leverages taken out,
 * or what the model lets expect, whichever is larger.
 */
export function spreadsOf({ design }, theta, all) {
  const { loss, coordinates } = design, q = nScores(loss), p = all.columns.length + 1, size = q * p;
  const step = Math.ceil(all.nRows * Math.max(size * size / MOST_WORK, 1 / MOST_LOOKED_AT));
  const some = (array) => array && array.filter((_, i) => i % step === 0);
  const rows = { columns: all.columns.map(some), targets: some(all.targets),
    weights: some(all.weights), offset: some(all.offset), nRows: Math.ceil(all.nRows / step) };
  const { columns, targets, weights, nRows } = rows;
  const sums = sumsAt(rows, loss, theta, ALL);
  const information = meanInformation(sums, loss, Number(design.ridge), q, p);
  const lower = cholesky(information, LEAST_PIVOT);
  const turn = Array.from({ length: size }, (_, place) =>
    solve(lower, triangles(coordinates, place, p)));
  const metrics = theta.map((_, k) => cholesky(
    information.slice(k * p, k * p + p).map((row) => row.slice(k * p, k * p + p)), LEAST_PIVOT));
  const means = scoresOf(rows, theta);
  toMeans(loss, means, nRows);
  const total = totalsOf(all, loss).weight / 65536, x = new Float64Array(p).fill(1);
  const seen = new Float64Array(size), likely = new Float64Array(size);
  const misfit = theta.map(() => [0, 0]);
  let noise = 0, mass = 0;
  for (let i = 0; i < nRows; i++) {
    const weight = weights ? weights[i] : 1;
    for (let j = 1; j < p; j++) x[j] = columns[j - 1][i] / 4096;
    mass += weight;
    const here = theta.map((_, k) => means[k][i]);
    const left = here.map((share, k) => residual(loss, k, share, targets[i]));
    const pulls = here.map((share, k) => {
      const bend = curvature(loss, k, k, share, share);
      const square = (left[k] * weight) ** 2;
      misfit[k][0] += square;
      misfit[k][1] += square * square;
      noise += bend * weight * weight;
      const leverage = squaredLength(metrics[k], x) * bend * weight / total;
      return weight / (1 - Math.min(leverage, 0.9));
    });
    for (let c = 0; c < size; c++) {
      const row = turn[c];
      let sum = 0, expected = 0, square = 0;
      for (let k = 0; k < q; k++) {
        let pull = 0;
        for (let j = 0; j < p; j++) pull += row[k * p + j] * x[j];
        pull *= pulls[k];
        sum += pull * left[k];
        expected += here[k] * pull;
        square += (loss.kind === "gaussian" ? 1 : here[k]) * pull * pull;
      }
      seen[c] += sum * sum;
      const isClasses = loss.kind === "bernoulli" || loss.kind === "multinomial";
      likely[c] += isClasses ? square - expected * expected : square;
    }
  }
  const effective = Math.min(...misfit.map(([second, fourth]) =>
    Math.max(second * second / Math.max(fourth, 1e-300), 0.1)));
  const above = 1 + 3 * Math.sqrt(2 / effective) + 10 / effective;
  const ratio = sumOf(misfit.map(([second]) => second)) / Math.max(noise, 1e-300);
  const dispersion = ratio * above < 1 ? ratio * above : Math.max(1, ratio);
  const scale = nRows / (mass * mass);
  return seen.map((square, c) => Math.sqrt(Math.max(square * scale, likely[c] * dispersion * scale, 1e-30)));
}

/** A column of the triangles' Kronecker product. */
function triangles({ scores, columns, scales }, place, p) {
  const k = Math.floor(place / p), j = place % p, unit = 2 ** -28;
  return Float64Array.from({ length: scores.length * p }, (_, at) => {
    const i = at % p;
    const entry = scales ? (i === j ? scales[j] : 0) : columns[i][j] ?? 0;
    return (scores[Math.floor(at / p)][k] ?? 0) * entry * unit;
  });
}

function squaredLength(lower, x) {
  const y = [];
  let sum = 0;
  for (let i = 0; i < x.length; i++) {
    let value = x[i];
    for (let j = 0; j < i; j++) value -= lower[i][j] * y[j];
    y[i] = value / lower[i][i];
    sum += y[i] * y[i];
  }
  return sum;
}
