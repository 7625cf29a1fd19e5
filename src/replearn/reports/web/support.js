// Do a lab's rows support a model? The score test of Python's glm/support.py. For reading, not for
// codes: sums are made in plain float64.
import { MAX_THETA, curvature, familyOf, residual, scoresInto, toMeans } from "./exact.js";
import { tailOf } from "./tails.js";

const MOST_TESTED = 600, UNIT = 2 ** -26;
// coefficients for each row of the original: at most, and beyond which constants are not tested
const MOST_LEVERAGE = 0.9, CONSTANTS_TOLD = 0.1;
// a change of scores that changes their curvature by a tenth at most; such changes that are followed
const NEARBY = 0.1, FAR = 1, MOST_MOVES = 12;
// standard error of a coefficient, in encoded units, up to which its column counts by itself
const KNOWN = 0.25;
// weight of the test of all coefficients beside single directions; what is added to harmonic means
const OF_ALL = 3, EXCESS = 1.1, TINY = 1e-300;
const ROUNDED = 0.125;  // of published mean squares, relative to these
const ABSENT = 1e-9;  // information and variance of a column that a lab does not have

export function scoresOf({ columns, offset, nRows }, theta) {
  return theta.map((row) => {
    const out = new Float64Array(nRows);
    scoresInto(out, columns, row, 0, nRows, offset);
    return out;
  });
}

// --- small matrices, as arrays of rows -----------------------------------------------------------

export const zeros = (n, m = n) => Array.from({ length: n }, () => new Float64Array(m));
export const times = (a, b) => a.map((row) => {
  const out = new Float64Array(b[0].length);
  row.forEach((value, k) => { if (value) for (let j = 0; j < out.length; j++) out[j] += value * b[k][j]; });
  return out;
});
export const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const applied = (a, x) => Float64Array.from(a, (row) => dot(row, x));
export const transposed = (a) => Array.from(a[0], (_, j) => Float64Array.from(a, (row) => row[j]));
const traceOf = (a) => a.reduce((sum, row, i) => sum + row[i], 0);

/** The solution of a linear system, by elimination; columns without a pivot get 0. */
export function solved(matrix, right) {
  const a = matrix.map((row) => Float64Array.from(row)), b = right.map((row) => Float64Array.from(row));
  const n = a.length, scale = Math.max(...a.map((row, i) => Math.abs(row[i])), 1e-300);
  for (let j = 0; j < n; j++) {
    let best = j;
    for (let i = j + 1; i < n; i++) if (Math.abs(a[i][j]) > Math.abs(a[best][j])) best = i;
    [a[j], a[best]] = [a[best], a[j]];
    [b[j], b[best]] = [b[best], b[j]];
    if (Math.abs(a[j][j]) < 1e-300 * scale) continue;
    for (let i = 0; i < n; i++) {
      const factor = i === j ? 0 : a[i][j] / a[j][j];
      if (!factor) continue;
      for (let k = j; k < n; k++) a[i][k] -= factor * a[j][k];
      for (let k = 0; k < b[i].length; k++) b[i][k] -= factor * b[j][k];
    }
  }
  return b.map((row, j) => row.map((value) => a[j][j] ? value / a[j][j] : 0));
}

export const inverted = (matrix) =>
  solved(matrix, matrix.map((_, i) => matrix.map((__, j) => (i === j ? 1 : 0))));

/** Kronecker product. */
export const kron = (a, b) => a.flatMap((first) => b.map((second) =>
  Float64Array.from(Array.from(first).flatMap((x) => Array.from(second, (y) => x * y)))));

/** Both triangles of the coordinates, in float64. */
export function factorsOf({ scores, columns, scales }) {
  const unit = 2 ** -14;
  const whole = (rows) => rows.map((row) =>
    Float64Array.from({ length: rows.length }, (_, j) => (row[j] ?? 0) * unit));
  return [whole(scores), scales ? scales.map((scale, i) =>
    Float64Array.from(scales, (_, j) => (i === j ? scale * unit : 0))) : whole(columns)];
}

// --- sums over rows ------------------------------------------------------------------------------

/** Means of rows at a model, and for each row the columns that the parameters of a score multiply. */
export function atModel(rows, loss, theta, isWide) {
  const means = scoresOf(rows, theta), p = rows.columns.length + 1;
  toMeans(loss, means, rows.nRows);
  const slopes = isWide && scoresOf({ ...rows, offset: null },
    theta.map((row) => row.map((value, j) => (j ? value : 0))));
  const x = theta.map(() => new Float64Array(isWide ? 2 : p).fill(1));
  const columnsAt = (i) => {
    if (isWide) x.forEach((own, k) => { own[1] = slopes[k][i]; });
    else {
      for (let j = 1; j < p; j++) x[0][j] = rows.columns[j - 1][i] / 4096;
      x.fill(x[0]);
    }
    return x;
  };
  return { means, columnsAt, width: isWide ? 2 : p };
}

/** Gradient, information and noise of rows at a model. */
export function momentsOf(rows, loss, q, { means, columnsAt, width }) {
  const size = q * width, information = zeros(size), noise = zeros(size);
  const gradient = new Float64Array(size), second = new Float64Array(width);
  let weight = 0, squares = 0, predicted = 0;
  for (let i = 0; i < rows.nRows; i++) {
    const x = columnsAt(i), mass = rows.weights ? rows.weights[i] : 1;
    weight += mass;
    for (let a = 0; a < width; a++) second[a] += mass * x[0][a] * x[0][a];
    for (let k = 0; k < q; k++) {
      const pull = residual(loss, k, means[k][i], rows.targets[i]) * mass;
      squares += pull * pull;
      for (let a = 0; a < width; a++) gradient[k * width + a] += pull * x[k][a];
      for (let l = 0; l <= k; l++) {
        const bend = curvature(loss, k, l, means[k][i], means[l][i]) * mass;
        if (k === l) predicted += bend * mass;
        for (let a = 0; a < width; a++) {
          const part = bend * x[k][a], row = information[k * width + a], noisy = noise[k * width + a];
          if (!part) continue;
          const end = k === l ? a + 1 : width;
          for (let b = 0; b < end; b++) {
            row[l * width + b] += part * x[l][b];
            noisy[l * width + b] += part * mass * x[l][b];
          }
        }
      }
    }
  }
  for (const matrix of [information, noise]) {
    matrix.forEach((row, a) => { for (let b = 0; b < a; b++) matrix[b][a] = row[b]; });
  }
  const isClass = loss.kind === "bernoulli" || loss.kind === "multinomial";
  const dispersion = isClass || predicted <= 0 ? 1 : Math.max(squares / predicted, 1e-12);
  return { gradient, information, noise, second, weight, dispersion, isClass, squares, predicted };
}

/** Slopes of each score that rows of the original moved, at most: `tr H (H + ridge)^-1` of the diagonals. */
function effectiveSlopes(rows, loss, { means }, weight, { design, n_original: nOriginal }) {
  const pull = weight * Number(design.ridge);
  return means.map((mean, k) => {
    const bends = mean.map((value, i) =>
      curvature(loss, k, k, value, value) * (rows.weights ? rows.weights[i] : 1));
    const moved = rows.columns.map((column) => {
      let own = 0;
      for (let i = 0; i < rows.nRows; i++) own += bends[i] * (column[i] / 4096) ** 2;
      return own / Math.max(own + pull, 1e-300);
    });
    return Math.min(moved.reduce((sum, one) => sum + one, 0), nOriginal);
  });
}

/** What slopes that were fitted to noise do to the gradient elsewhere: a quadratic form in the errors. */
function overfittingOf(rows, loss, at, moments, study) {
  const n = 2 * at.means.length, mean = new Float64Array(n), variance = new Float64Array(n);
  let most = 0;
  effectiveSlopes(rows, loss, at, moments.weight, study).forEach((nEffective, k) => {
    const leverage = Math.min(nEffective / study.n_original, MOST_LEVERAGE);
    const inflation = 1 / (1 - leverage);
    const surprise = Math.min(Math.max(moments.squares / Math.max(moments.predicted, 1e-12), 1), inflation);
    const dispersion = moments.isClass ? surprise : moments.dispersion;
    const shift = rows.nRows / study.n_original * dispersion * nEffective * inflation;
    mean[2 * k + 1] = shift;
    variance[2 * k + 1] = 2 * shift * shift / Math.max(nEffective, 1);
    most = Math.max(most, leverage);
  });
  return { mean, variance, leverage: most };
}

/**
 * Mean squares of the columns here, beside those of the original: published are these, rounded, with
 * the ridge relative to the mean information of a score.
 */
function presenceOf({ second, weight }, { coordinates, ridge }) {
  const [byScores, byColumns] = factorsOf(coordinates);
  const mean = byScores.reduce((sum, row) => sum + dot(row, row), 0) / byScores.length;
  return second.map((square, j) => {
    const stated = dot(byColumns[j], byColumns[j]), rounding = stated * ROUNDED;
    const there = stated - Number(ridge) / mean, here = square / Math.max(weight, 1e-12);
    const likely = Math.min(Math.max(here, there - rounding, 0), there + rounding);
    return here / Math.max(likely, ABSENT);
  });
}

/** Fourth cumulant of a row's residual, as the model predicts it. */
function cumulants(rows, loss, means) {
  if (loss.kind === "bernoulli") return (i) => {
    const variance = means[0][i] * (1 - means[0][i]);
    return variance * (1 - 6 * variance);
  };
  if (familyOf(loss) === "poisson") return (i) => means[0][i];
  let second = 0, fourth = 0;
  for (let i = 0; i < rows.nRows; i++) {
    const square = residual(loss, 0, means[0][i], rows.targets[i]) ** 2 / rows.nRows;
    second += square;
    fourth += square * square * rows.nRows;
  }
  return () => fourth - 3 * second * second;
}

/** What fourth cumulants of the rows add to the variance of the quadratic form. */
function fourthOf(rows, loss, q, { means, columnsAt, width }, inverse) {
  const cumulant = q === 1 ? cumulants(rows, loss, means) : null;
  const inner = zeros(q), here = new Float64Array(q);
  let total = 0;
  for (let i = 0; i < rows.nRows; i++) {
    const x = columnsAt(i), mass = rows.weights ? rows.weights[i] : 1;
    for (let k = 0; k < q; k++) {
      here[k] = means[k][i];
      for (let l = 0; l <= k; l++) {
        let sum = 0;
        for (let a = 0; a < width; a++) {
          const row = inverse[k * width + a], factor = x[k][a];
          if (!factor) continue;
          let part = 0;
          for (let b = 0; b < width; b++) part += row[l * width + b] * x[l][b];
          sum += factor * part;
        }
        inner[k][l] = inner[l][k] = sum * mass * mass;
      }
    }
    total += q === 1 ? inner[0][0] ** 2 * cumulant(i) : classCumulant(inner, here);
  }
  return total;
}

/** E (r' B r)^2 - (tr B W)^2 - 2 tr B W B W of a row, r the residual of a random class. */
function classCumulant(inner, means) {
  const q = means.length, rest = Math.max(1 - means.reduce((sum, mean) => sum + mean, 0), 0);
  let fourth = 0;
  for (let label = 0; label <= q; label++) {
    const left = means.map((mean, k) => mean - (label === k + 1 ? 1 : 0));
    const length = dot(left, applied(inner, left));
    fourth += (label ? means[label - 1] : rest) * length * length;
  }
  const spread = Array.from(means, (a, k) => means.map((b, l) => (k === l ? a : 0) - a * b));
  const product = times(inner, spread);
  return fourth - traceOf(product) ** 2 - 2 * traceOf(times(product, product));
}

// --- the test ------------------------------------------------------------------------------------

/** Covariance between centres, the ridge of each parameter, and what is tested. */
function priorOf(study, theta, isWide) {
  const { design } = study, q = theta.length, p = theta[0].length, ridge = Number(design.ridge);
  const [byScores, byColumns] = factorsOf(design.coordinates);
  const variances = study.between.map((one) => Number(one) ** 2);
  const ofSlopes = variances.filter((_, i) => i % p > 0);
  const slopes = ofSlopes.length ? ofSlopes.reduce((a, b) => a + b, 0) / ofSlopes.length : 0;
  const real = theta.map((row) => row.map((value) => value * UNIT));
  if (isWide) {  // two parameters a score: the constant, and the size of its slopes
    const prior = zeros(2 * q), ridges = new Float64Array(2 * q);
    real.forEach((row, k) => {
      const length = byScores.reduce((sum, one) => sum + one[k] ** 2, 0);
      const turned = times([row.slice(1)], byColumns.slice(1).map((one) => one.slice(1)))[0];
      prior[2 * k][2 * k] = variances[k * p] / length;
      prior[2 * k + 1][2 * k + 1] = slopes / Math.max(dot(turned, turned) * length, 1e-12);
      ridges[2 * k + 1] = ridge * dot(row.slice(1), row.slice(1));
    });
    return { prior, ridges, parameters: Float64Array.from(real.flatMap((row) => [row[0], 1])) };
  }
  const ofConstants = variances.filter((_, i) => i % p === 0);
  const constants = ofConstants.reduce((a, b) => a + b, 0) / q;
  const back = kron(...[byScores, byColumns].map((part) => transposed(inverted(part))));
  const scaled = back.map((row) => row.map((value, i) => value * (i % p ? slopes : constants)));
  return { prior: times(scaled, transposed(back)),
    ridges: Float64Array.from({ length: q * p }, (_, i) => (i % p ? ridge : 0)),
    parameters: Float64Array.from(real.flatMap((row) => Array.from(row))) };
}

/** The quadratic form that remains when departures in some directions are allowed. */
function leftOf(gradient, inverse, free) {
  const pulled = applied(inverse, gradient), square = dot(gradient, pulled);
  if (!free.length) return square;
  const right = free.map((one) => [dot(one, pulled)]);
  const matrix = free.map((one) => Float64Array.from(free, (other) => dot(one, applied(inverse, other))));
  const fitted = solved(matrix, right);
  return square - right.reduce((sum, [value], i) => sum + value * fitted[i][0], 0);
}

/** Its p-value, by the chi-square that has the mean and variance of the quadratic form. */
function pOfSquare(square, nFree, mean, variance, below) {
  const left = mean - nFree;
  if (left < 0.5) return 1;  // nothing is left to test
  const freedom = 2 * left * mean / variance;
  return tailOf(square * freedom / left, freedom, below);
}

/** The inverse of an information; columns that a lab does not have are left alone. */
const breadOf = (information) => inverted(information.map((row, i) =>
  row.map((value, j) => (i === j ? value + 1e-9 * value + ABSENT : value))));

/** Rows at coefficients `away` from the model's, and their gradient continued from there to these. */
function placeAt(study, theta, rows, isWide, { prior, ridges, parameters }, away) {
  const { design } = study, { loss } = design, q = theta.length, p = theta[0].length;
  const moved = isWide ? theta : theta.map((row, k) => row.map((value, j) =>
    Math.floor(value + away[k * p + j] / UNIT + 0.5)));
  const at = atModel(rows, loss, moved, isWide), moments = momentsOf(rows, loss, q, at);
  // the ridge's pull was fitted to columns as often as the original had them
  const presence = isWide ? null : presenceOf(moments, design);
  const pulls = ridges.map((ridge, i) =>
    moments.weight * ridge * (presence ? presence[i % at.width] : 1));
  const information = moments.information.map((row, i) => {
    row[i] += pulls[i];
    return row;
  });
  const back = applied(information, away);
  const gradient = moments.gradient.map((value, i) =>
    value + pulls[i] * (parameters[i] + away[i]) - back[i]);
  const sampling = moments.noise.map((row) => row.map((value) => value * moments.dispersion));
  return { at, moments, information, sampling, gradient, prior, parameters };
}

/** Covariance of the gradient, with the curvature of where the truth of this centre most likely lies. */
function compared(study, theta, rows, isWide) {
  const known = priorOf(study, theta, isWide), { prior, parameters } = known, q = theta.length;
  const ratio = rows.nRows / study.n_original, { loss } = study.design;
  let away = new Float64Array(parameters.length), found;
  for (let move = 0; move < MOST_MOVES; move++) {
    const place = placeAt(study, theta, rows, isWide, known, away);
    const { information, sampling, at } = place;
    const centres = times(times(information, prior), information);
    const exact = sampling.map((row, i) => row.map((value, j) => (1 + ratio) * value + centres[i][j]));
    const overfitting = isWide ? overfittingOf(rows, loss, at, place.moments, study) : null;
    if (isWide) overfitting.variance.forEach((value, i) => { exact[i][i] += value; });
    const total = exact.map((row, i) => row.map((value, j) =>
      i === j ? value + 1e-9 * value + ABSENT : value));
    const inverse = inverted(total);
    found = { place, overfitting, centres, exact, total, inverse };
    if (isWide) break;

    // the best linear prediction of what the model differs by from the truth here
    const pulled = applied(inverse, place.gradient);
    const byCentres = applied(prior, applied(information, pulled));
    const byOriginal = applied(breadOf(information), applied(sampling, pulled));
    const next = parameters.map((value, i) => Math.min(Math.max(
      value - byCentres[i] - ratio * byOriginal[i], -MAX_THETA), MAX_THETA) - value);
    const step = next.map((value, i) => value - away[i]);
    const constants = theta.reduce((sum, _, k) => sum + information[k * at.width][k * at.width], 0);
    const change = Math.sqrt(
      Math.max(dot(step, applied(information, step)), 0) / Math.max(constants, ABSENT));
    if (change < NEARBY) break;
    // not further at once: steps at rare events lead too far
    away = away.map((value, i) => value + step[i] * Math.min(1, FAR / change));
  }
  return found;
}

/**
 * p-value of the size of all slopes, whatever the constants. Slopes are too large where they were
 * fitted to noise: with e the original's error, the gradient along them has the form `e' H e`, of a
 * known mean.
 */
function pOfSize({ place, inverse }, constants, along, ratio, below) {
  const pulled = constants.map((one) => applied(inverse, one));  // what constants explain goes
  const fitted = solved(constants.map((one) => Float64Array.from(pulled, (other) => dot(one, other))), pulled);
  const explained = times(transposed(pulled), fitted);
  const inner = inverse.map((row, i) => row.map((value, j) => value - explained[i][j]));
  const noise = times(inner, place.sampling).map((row) => row.map((value) => value * ratio));
  let excess = dot(applied(inner, along), place.gradient);
  excess -= Math.min(Math.max(excess, 0), traceOf(noise));
  const variance = dot(along, applied(inner, along)) + 2 * traceOf(times(noise, noise));
  return tailOf(excess ** 2 / Math.max(variance, TINY), 1, below);
}

/**
 * Test a model with all rows of a lab: p-values of all coefficients, of the constants, of the slopes, of
 * their size, of the slopes up to a factor, of each column; the lab's own estimates, one step away, and
 * its spreads.
 */
export function scoreTest(study, theta, rows) {
  const { design } = study, { loss } = design, q = theta.length, n = rows.nRows;
  const isWide = q * theta[0].length > MOST_TESTED;
  const { place, overfitting, centres, exact, total, inverse } = compared(study, theta, rows, isWide);
  const { at, information, sampling, parameters } = place, { width } = at;

  // 1 mean and variance of the quadratic form
  const gradient = place.gradient.map((pull, i) =>
    isWide ? pull - Math.min(Math.max(pull, 0), overfitting.mean[i]) : pull);
  const inside = times(inverse, exact);  // a level without a row here has no variance, counts nothing
  const mean = Math.max(traceOf(inside), 1e-9);
  const spread = 2 * inside.reduce((sum, row, i) =>
    sum + row.reduce((part, value, j) => part + value * inside[j][i], 0), 0);
  // the original's rows have fourth cumulants, too: those of as many rows, times the ratio^4
  const ratio = n / study.n_original, fourth = (1 + ratio ** 3) * fourthOf(rows, loss, q, at, inverse);
  const variance = Math.max(spread + fourth, 0.5 * mean);
  const share = inverse.reduce((sum, row, i) =>
    sum + row.reduce((part, value, j) => part + value * centres[j][i], 0), 0) / mean;
  const below = study.n_centres < 2 || share < 1e-6 ? Infinity :
    (4 + study.n_centres - 1) / share ** 2;

  // 2 the rungs: all, whatever the constants, whatever the constants and one factor
  const constants = theta.map((_, k) => information.map((row) => row[k * width]));
  const slopes = parameters.map((value, i) => (i % width ? value : 0));
  const hasSlopes = slopes.some((value) => value), along = applied(information, slopes);
  const rungs = [[], constants, hasSlopes ? [...constants, along] : constants];
  const squares = rungs.map((free) => leftOf(gradient, inverse, free));
  const [pAll, pSlopes, pFactor] = rungs.map((free, i) =>
    pOfSquare(squares[i], free.length, mean, variance, below));
  const isTold = !(overfitting?.leverage > CONSTANTS_TOLD), pValue = isTold ? pAll : pSlopes;
  const pConstants = isTold ? tailOf(squares[0] - squares[1], q, below) : 1;
  const pSize = isWide || !hasSlopes ? 1 :
    pOfSize({ place, inverse }, constants, along, ratio, below);

  // 3 the lab's own estimates, one step away
  const curved = information.map((row, i) => row[i]);
  const nEffective = Math.min(...curved.filter((_, i) => i % width === 0));
  const bread = breadOf(information), step = applied(bread, gradient).map((value) => -value);
  const own = times(times(bread, sampling), bread), covariance = times(times(bread, total), bread);
  let spreads = null;
  if (!isWide) {
    const turn = kron(...factorsOf(design.coordinates).map(transposed));
    spreads = turn.map((row) => Math.sqrt(Math.max(dot(row, applied(own, row)), 0) * n));
  }
  const pOf = (column) => {
    const places = theta.map((_, k) => k * width + column), steps = places.map((i) => step[i]);
    const fitted = solved(places.map((i) => places.map((j) => covariance[i][j])),
      steps.map((value) => [value]));
    return tailOf(dot(steps, fitted.map(([value]) => value)), q, below);
  };
  return { pValue, pConstants, pSlopes, pSize, pFactor, nEffective, step, width, spreads, pOf, isWide,
    ownCovariance: own,
    errors: own.map((row, i) => curved[i] > ABSENT ? Math.sqrt(Math.max(row[i], 0)) : Infinity) };
}

const hasLegs = ({ isWide, nEffective }) => !isWide && nEffective >= KNOWN ** -2;

/** p-value of the constants, if there are events enough. */
export const ofConstants = (test) => (hasLegs(test) ? [test.pConstants] : []);

/** p-values of the size of all slopes, and of the column that differs most (Bonferroni). */
export function ofDirections(test) {
  const { errors, width, pSize, pOf } = test;
  if (!hasLegs(test)) return [];
  const columns = Array.from({ length: width - 1 }, (_, j) => j + 1);
  const known = columns.filter((j) => errors.every((error, i) => i % width !== j || error <= KNOWN));
  if (!known.length) return [pSize];
  return [pSize, Math.min(1, known.length * Math.min(...known.map(pOf)))];
}

/** Harmonic mean of p-values, of which that of all coefficients counts three times. */
export function combined(pAll, ...directions) {
  if (!directions.length) return pAll;
  const inverses = directions.reduce((sum, p) => sum + 1 / Math.max(p, TINY), OF_ALL / Math.max(pAll, TINY));
  return Math.min(1, EXCESS * (OF_ALL + directions.length) / inverses);
}

/** What must be added to scores so that they predict the mean outcome: one for each score. */
export function shiftOf(loss, scores, targets, masses) {
  const q = scores.length, shift = new Float64Array(q);
  for (let step = 0; step < 50; step++) {
    const moved = scores.map((row, k) => row.map((value) => value + shift[k]));
    toMeans(loss, moved, targets.length);
    const gradient = new Float64Array(q), information = zeros(q);
    targets.forEach((target, i) => {
      for (let k = 0; k < q; k++) {
        gradient[k] += residual(loss, k, moved[k][i], target) * masses[i];
        for (let l = 0; l < q; l++) {
          information[k][l] += curvature(loss, k, l, moved[k][i], moved[l][i]) * masses[i];
        }
      }
    });
    const trace = traceOf(information);
    information.forEach((row, k) => { row[k] += 1e-9 * (1 + trace); });
    const found = solved(information, Array.from(gradient, (value) => [-value]))
      .map(([value]) => Math.min(Math.max(value, -2), 2));
    found.forEach((value, k) => { shift[k] += value; });
    if (Math.max(...found.map(Math.abs)) < 1e-10 || found.some(Number.isNaN)) break;
  }
  return shift;
}
