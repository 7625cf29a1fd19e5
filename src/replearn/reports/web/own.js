// A lab's own estimates without the ridge, with robust standard errors: Python's glm/sandwich.py and
// glm/cox.py. For reading, not for codes: sums are made in plain float64.
import { MAX_THETA, MOST_STEERED, curvature, nScores, onGrid, residual } from "./exact.js";
import { atModel, dot, inverted, kron, momentsOf, solved, times, zeros } from "./support.js";
import { INTERVAL } from "./table.js";
import { counted, quoted, ratioInWords, significant, termNames } from "./words.js";
import { RATIOS, perUnit } from "./worth.js";

/** What is said where a lab has none. */
export const NO_ESTIMATES =
  "No standard errors: own estimates are for at most 500 coefficients of single columns.";

const UNIT = 2 ** -26, ONE = 4096;
const LEFT = 0.01;  // what is left of a ridge, in rows
const PINNED = 1024;  // a ridge that keeps coefficients at 0
const FOLLOWS = 1e-5;  // a pivot, relative to its diagonal
const MOST_OWN_STEPS = 20, OWN_NEAR = 1e-4;
const MOST_COX_STEPS = 50, MOST_EVENTS = 5000;
const Z95 = 1.959963984540054, TINY = 1e-300;

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);
const diagonalOf = (matrix) => matrix.map((row, i) => row[i]);

/**
 * Estimates and standard errors per unit, a row for each score: null where a column follows from those
 * before it. Null beyond 500 coefficients, and of rows that are combinations of columns.
 *
 * @param design of the study
 * @param rows of the lab, numbers beyond the study's range as they are
 * @param theta the fit, in whole units
 */
export function ownEstimates(design, rows, theta) {
  const { encoding, loss } = design, p = theta[0].length;
  if (theta.length * p > MOST_STEERED || design.directions) return null;
  const repeated = repeatedTerms(momentsAt(rows, loss, theta.map((row) => row.map((x) => x * UNIT))), p);
  const { beta, information } = withoutRidge(rows, loss, theta, repeated);

  // from encoded columns to units of the target
  const [scale, centre] = loss.kind === "gaussian" ? [Number(loss.spread), Number(loss.centre)] : [1, 0];
  const turn = zeros(p).map((row, i) => {
    row[i] = scale;
    return Float64Array.from(perUnit(encoding, row));
  });
  const perUnits = (row) => perUnit(encoding, Array.from(row, (value) => value * scale));
  let estimate = beta.map(perUnits);
  estimate.forEach((row) => { row[0] += centre; });
  const errors = standardErrors(rows, loss, beta, information, turn);
  let nRows = rows.nRows, isCox = false;
  const cox = loss.kind === "hazard" ? coxOf(encoding, rows, repeated) : null;
  if (cox) {
    [nRows, isCox, estimate] = [cox.nPersons, true, [perUnits(cox.theta)]];
    const own = cox.slopes.map((i) => Float64Array.from(cox.slopes, (j) => turn[i][j]));
    cox.slopes.forEach((at, j) => {
      const column = own.map((row) => row[j]);
      errors[0][at] = Math.sqrt(dot(column, cox.covariance.map((row) => dot(row, column))));
    });
    cox.unknown.forEach((at) => { repeated[at] = true; });
  }
  const known = (matrix) => matrix.map((row) => Array.from(row, (value, j) => repeated[j] ? null : value));
  return { estimate: known(estimate), error: known(errors), nRows, isCox };
}

/** Coefficients of which earlier ones leave nothing: what they leave is a pivot of elimination. */
function repeatedTerms({ information }, p) {
  const left = information.slice(0, p).map((row) => row.slice(0, p)), before = diagonalOf(left);
  return before.map((whole, j) => {
    const pivot = left[j][j];
    if (pivot <= FOLLOWS * whole) return true;
    for (let i = j + 1; i < p; i++) {
      const factor = left[i][j] / pivot;
      for (let k = j + 1; k < p; k++) left[i][k] -= factor * left[j][k];
    }
    return false;
  });
}

const momentsAt = (rows, loss, beta) => {
  const whole = beta.map((row) => Array.from(row, (value) => onGrid(value, 26)));
  return momentsOf(rows, loss, beta.length, atModel(rows, loss, whole, false));
};

const massOf = ({ weights, nRows }) => (weights ? sumOf(weights) : nRows);

/** Where Newton's steps end once hardly a ridge is left. */
function withoutRidge(rows, loss, theta, repeated) {
  const q = theta.length, p = theta[0].length, mass = massOf(rows);
  const ofScores = zeros(q).map((row, k) => row.map((_, l) => (k === l ? 1 : 0) - (q > 1 ? 1 / (q + 1) : 0)));
  const pulls = zeros(p);
  for (let j = 1; j < p; j++) pulls[j][j] = mass * (LEFT / rows.nRows + (repeated[j] ? PINNED : 0));
  const left = kron(ofScores, pulls);
  const scored = (flat) => theta.map((_, k) => flat.slice(k * p, (k + 1) * p));

  let before = Float64Array.from(theta.flatMap((row) => [...row]), (value) => value * UNIT);
  let beta = before, move = new Float64Array(q * p), slope = 0, information;
  for (let step = 0; step < MOST_OWN_STEPS; step++) {
    const at = momentsAt(rows, loss, scored(beta));
    information = at.information.map((row, i) => row.map((value, j) => value + left[i][j]));
    const gradient = at.gradient.map((value, i) => value + dot(left[i], beta));

    // far beyond the lowest point of the last step: half of it
    if (dot(gradient, move) > -slope) {
      move = move.map((value) => value / 2);
      slope /= 2;
      beta = before.map((value, i) => value + move[i]);
      continue;
    }
    move = Float64Array.from(solved(information, Array.from(gradient, (value) => [-value])), ([x]) => x);
    if (-dot(gradient, move) * rows.nRows / mass < OWN_NEAR) break;

    // long steps come from columns that nearly separate: one at a time, and not too far
    const shorter = Math.min(1, 4 / Math.max(...move.map(Math.abs)));
    move = move.map((value) => value * shorter);
    slope = dot(gradient, move);
    const there = beta.map((value, i) => value + move[i]);
    if (Math.max(...there.map(Math.abs)) >= MAX_THETA) break;
    [before, beta] = [beta, there];
  }
  return { beta: scored(beta), information };
}

/** Roots of the sandwich (HC3), or of what the model itself predicts if that is larger. */
function standardErrors(rows, loss, beta, information, turn) {
  const q = beta.length, p = turn.length, { means, columnsAt } = atModel(rows, loss,
    beta.map((row) => Array.from(row, (value) => onGrid(value, 26))), false);
  const turned = times(inverted(information), kron(zeros(q).map((row, k) => row.map((_, l) =>
    (k === l ? 1 : 0))), turn));
  const pulls = beta.map((_, k) => turned.slice(k * p, (k + 1) * p));
  const bread = beta.map((_, k) => inverted(information.slice(k * p, (k + 1) * p)
    .map((row) => row.slice(k * p, (k + 1) * p))));
  const isClass = loss.kind === "bernoulli" || loss.kind === "multinomial";

  const seen = new Float64Array(q * p), likely = new Float64Array(q * p);
  const squares = new Float64Array(q), fourth = new Float64Array(q);
  const moved = zeros(q, q * p), total = new Float64Array(q * p);
  let noise = 0;
  for (let i = 0; i < rows.nRows; i++) {
    const [x] = columnsAt(i), mass = rows.weights ? rows.weights[i] : 1;
    total.fill(0);
    for (let k = 0; k < q; k++) {
      const mean = means[k][i], missed = residual(loss, k, mean, rows.targets[i]);
      const bend = curvature(loss, k, k, mean, mean), square = (missed * mass) ** 2;
      squares[k] += square;
      fourth[k] += square * square;
      noise += bend * mass * mass;
      let length = 0;
      for (let a = 0; a < p; a++) if (x[a]) length += x[a] * dot(bread[k][a], x);
      const factor = mass / (1 - Math.min(length * bend * mass, 0.9)), own = moved[k].fill(0);
      for (let a = 0; a < p; a++) {
        if (x[a]) for (let j = 0; j < own.length; j++) own[j] += factor * x[a] * pulls[k][a][j];
      }
      for (let j = 0; j < own.length; j++) total[j] += own[j] * missed;
    }
    for (let j = 0; j < total.length; j++) {
      seen[j] += total[j] ** 2;
      if (loss.kind === "gaussian") likely[j] += moved[0][j] ** 2;
      else {
        let first = 0, second = 0;
        for (let k = 0; k < q; k++) {
          first += means[k][i] * moved[k][j];
          second += means[k][i] * moved[k][j] ** 2;
        }
        likely[j] += second - (isClass ? first * first : 0);
      }
    }
  }

  // counts often vary more than a Poisson law predicts, and numbers have their own variance; classes
  // that are nearly separable have fewer errors than a fit predicts
  let dispersion = sumOf(squares) / Math.max(noise, TINY);
  const few = Math.min(...squares.map((sum, k) => Math.max(sum * sum / Math.max(fourth[k], TINY), 0.1)));
  const most = dispersion * (1 + 3 * Math.sqrt(2 / few) + 10 / few);
  if (most >= 1) dispersion = Math.max(1, dispersion);
  else dispersion = most;
  const errors = seen.map((value, j) => Math.sqrt(Math.max(value, likely[j] * dispersion)));
  return beta.map((_, k) => errors.slice(k * p, (k + 1) * p));
}

// --- survival ------------------------------------------------------------------------------------

/**
 * Hazard ratios of Cox's partial likelihood in place of those that intervals give, and the baseline that
 * follows: events over what they expect in each interval. Null with too many events, or if steps do not end.
 */
function coxOf(encoding, { columns, targets, offset, nRows }, repeated) {
  const nEvents = sumOf(targets);
  if (!(nEvents > 0 && nEvents <= MOST_EVENTS)) return null;
  const nBasic = columns.length - encoding.products.length;
  const ofTime = [], slopes = [];  // places of coefficients
  termNames(encoding).forEach((name, j) =>
    (j < nBasic && name.startsWith(`${INTERVAL} = `) ? ofTime : slopes).push(j + 1));
  const interval = new Int32Array(nRows);
  ofTime.forEach((place, k) => columns[place - 1].forEach((one, i) => { if (one) interval[i] = k + 1; }));
  const X = Array.from({ length: nRows }, (_, i) =>
    Float64Array.from(slopes, (place) => columns[place - 1][i] / ONE));
  const time = offset.map(Math.exp);
  const fit = coxFit(X, interval, time, targets,
    slopes.map((place) => LEFT + (repeated[place] ? PINNED * nRows : 0)));
  if (!fit) return null;

  const events = new Float64Array(ofTime.length + 1), expected = new Float64Array(ofTime.length + 1);
  X.forEach((x, i) => {
    events[interval[i]] += targets[i];
    expected[interval[i]] += time[i] * Math.exp(dot(x, fit.beta));
  });
  const hazards = events.map((n, k) => Math.log(Math.max(n, 1) / Math.max(expected[k], TINY)));
  const theta = new Float64Array(1 + columns.length), baseline = [0, ...ofTime];
  baseline.forEach((place, k) => { theta[place] = hazards[k] - (k ? hazards[0] : 0); });
  slopes.forEach((place, j) => { theta[place] = fit.beta[j]; });
  // an interval without an event has no baseline, nor has any if that is the first
  return { theta, slopes, covariance: fit.covariance, nPersons: interval.filter((k) => k === 0).length,
    unknown: baseline.filter((_, k) => events[k] === 0 || events[0] === 0) };
}

/** Rows at risk, with Efron's way of ties; the sandwich of persons' residuals, or the model's if larger. */
function coxFit(X, interval, time, event, left) {
  const d = left.length, strata = [];
  interval.forEach((k, i) => (strata[k] ??= []).push(i));
  for (const rows of strata) rows?.sort((a, b) => time[b] - time[a] || a - b);

  const at = (beta) => {
    const link = Float64Array.from(X, (x) => dot(x, beta));
    const top = link.reduce((most, one) => Math.max(most, one), -Infinity);  // a common factor changes nothing
    const weight = link.map((one) => Math.exp(one - top)), scores = zeros(X.length, d);
    const information = zeros(d).map((row, j) => row.map((_, k) => (j === k ? left[j] : 0)));
    let value = -sumOf(left.map((pull, j) => pull * beta[j] ** 2)) / 2;
    event.forEach((n, i) => { if (n) value += link[i] - top; });
    for (const rows of strata) {
      if (rows) value -= addStratum(rows, X, weight, time, event, scores, information);
    }
    return { value, scores, information };
  };

  // Newton's steps, halved where the likelihood falls
  let beta = new Float64Array(d), before = beta, highest = -Infinity;
  for (let step = 0; step < MOST_COX_STEPS; step++) {
    const { value, scores, information } = at(beta);
    if (!(value >= highest - 1e-9 * Math.abs(highest))) {
      beta = beta.map((one, j) => (one + before[j]) / 2);
      continue;
    }
    const gradient = beta.map((one, j) => -left[j] * one);
    for (const row of scores) for (let j = 0; j < d; j++) gradient[j] += row[j];
    const move = solved(information, Array.from(gradient, (one) => [one])).map(([one]) => one);
    if (dot(gradient, move) >= 1e-9) {
      [before, highest, beta] = [beta, value, beta.map((one, j) => one + move[j])];
      continue;
    }

    // residuals add up in each person, whose rows follow each other
    const inverse = inverted(information), persons = [];
    scores.forEach((row, i) => {
      if (interval[i] === 0) persons.push(new Float64Array(d));
      row.forEach((one, j) => { persons.at(-1)[j] += one; });
    });
    const seen = zeros(d);
    for (const person of persons) {
      const pulled = inverse.map((row) => dot(row, person));
      for (let j = 0; j < d; j++) for (let k = 0; k < d; k++) seen[j][k] += pulled[j] * pulled[k];
    }
    const larger = seen.map((row, j) => Math.sqrt(Math.max(row[j], inverse[j][j]) / row[j]));
    return { beta, covariance: seen.map((row, j) => row.map((one, k) => one * larger[j] * larger[k])) };
  }
  return null;
}

/** Add what rows that enter together say, the longest time first; what the likelihood loses comes back. */
function addStratum(rows, X, weight, time, event, scores, information) {
  const n = rows.length, d = information.length;
  const hazard = new Float64Array(n), dropped = new Float64Array(n);  // of each event; less at its own rows
  const [hazardX, droppedX, meanAt] = [zeros(n, d), zeros(n, d), zeros(n, d)];
  const atRiskX = new Float64Array(d);
  let atRisk = 0, logs = 0;
  for (let start = 0, end; start < n; start = end) {
    for (end = start; end < n && time[rows[end]] === time[rows[start]]; end++) {
      const w = weight[rows[end]], x = X[rows[end]];
      atRisk += w;
      for (let j = 0; j < d; j++) atRiskX[j] += w * x[j];
    }
    const here = [];
    for (let at = start; at < end; at++) if (event[rows[at]] > 0) here.push(at);
    if (!here.length) continue;

    // Efron's: of tied events each one leaves a larger share of them
    const tied = sumOf(here.map((at) => weight[rows[at]]));
    const tiedX = Float64Array.from(atRiskX, (_, j) => sumOf(here.map((at) => weight[rows[at]] * X[rows[at]][j])));
    const sums = [new Float64Array(d), new Float64Array(d)];  // of means, and of what is dropped
    let drop = 0;
    here.forEach((_, m) => {
      const share = m / here.length, total = atRisk - share * tied;
      const mean = atRiskX.map((one, j) => (one - share * tiedX[j]) / total);
      logs += Math.log(total);
      hazard[end - 1] += 1 / total;
      drop += share / total;
      for (let j = 0; j < d; j++) {
        hazardX[end - 1][j] += mean[j] / total;
        sums[0][j] += mean[j];
        sums[1][j] += share / total * mean[j];
        for (let k = 0; k < d; k++) information[j][k] -= mean[j] * mean[k];
      }
    });
    for (const at of here) {
      dropped[at] = drop;
      meanAt[at] = sums[0].map((one) => one / here.length);
      droppedX[at] = sums[1];
    }
  }

  // a row collects the hazard of all events up to its time: those that stand after it, and its own
  const collectedX = new Float64Array(d);
  let collected = 0;
  for (let at = n - 1; at >= 0; at--) {
    const i = rows[at], x = X[i], w = weight[i];
    collected += hazard[at];
    const own = collected - dropped[at];
    for (let j = 0; j < d; j++) {
      collectedX[j] += hazardX[at][j];
      scores[i][j] = event[i] * (x[j] - meanAt[at][j]) - w * (x[j] * own - (collectedX[j] - droppedX[at][j]));
      if (x[j]) for (let k = 0; k < d; k++) information[j][k] += w * own * x[j] * x[k];
    }
  }
  return logs;
}

// --- words ---------------------------------------------------------------------------------------

/** A standard error in three digits, and its estimate to the same decimal place. */
function asStated(estimate, error) {
  if (error === null) return [null, null];
  const shown = Number(error.toPrecision(3));
  if (!(shown > 0)) return [estimate, shown];
  const unit = 10 ** (Math.floor(Math.log10(shown)) - 2);
  return [Number((Math.round(estimate / unit) * unit).toPrecision(15)), shown];
}

/**
 * A table of own estimates, what to know of them, and the marks of a forest plot: as Python's
 * `Coefficients` has them.
 *
 * @param nBeyond numbers beyond the study's range
 * @param asTheyAre whether estimates take them as they are
 */
export function ownInWords(design, { estimate, error, nRows, isCox }, nBeyond, asTheyAre) {
  const { loss, encoding, classes } = design, ratio = loss.kind === "gaussian" ? "" : RATIOS[loss.kind] ?? "odds ratio";
  const terms = ["(constant)", ...termNames(encoding)], isMany = nScores(loss) > 1;
  const curved = encoding.columns.flatMap(({ name, kind, knots }) => kind === "number" && knots.length ?
    [name, ...knots.map((knot) => `${name} ~ ${knot}`)] : []);
  const rows = [], marks = [];
  estimate.forEach((row, k) => terms.forEach((term, j) => {
    const [value, spread] = asStated(row[j], error[k][j]), isKnown = value !== null;
    const isRatio = ratio && j && !curved.includes(term), reach = Z95 * spread;
    const printed = (one) => isRatio ? Math.exp(Math.min(one, 700)) : one;
    const numbers = isKnown && (isRatio || !ratio) ? [value, value - reach, value + reach].map(printed) : null;
    const words = (one) => ratio ? ratioInWords(one, 4) : significant(one, 4);
    const shown = numbers ? numbers.map(words) : ["", "", ""];
    rows.push([...(isMany ? [String(classes[k + 1])] : []), term, isKnown ? significant(value, 4) : "",
      isKnown ? significant(spread, 3) : "", ...(ratio ? shown : shown.slice(1))]);
    if (j && numbers) {
      const [model, low, high] = numbers;
      marks.push({ name: isMany ? `${term}, ${classes[k + 1]}` : term, model, low, high });
    }
  }));

  const whose = isCox ? "persons" : loss.kind === "hazard" ? "rows at risk" : "rows";
  const table = { title: `This lab's own estimates (${counted(nRows)} ${whose}), without the ridge`,
    header: [...(isMany ? ["class"] : []), "term", "estimate", "SE", ...(ratio ? [ratio] : []), "2.5%", "97.5%"],
    rows };
  let said = `Intervals are 95%, from robust standard errors${ratio && `, of the ${ratio}`}.`;
  if (loss.kind === "hazard") {
    said += ` Hazard ratios are those ${isCox ? "of Cox's partial likelihood, with Efron's ties" :
      "of the study's intervals of time"}.`;
  }
  if (nBeyond) {
    const values = `${counted(nBeyond)} value${nBeyond === 1 ? "" : "s"}` +
      (loss.kind === "hazard" ? " (of rows at risk)" : "");
    const here = asTheyAre ? "while these estimates take them as they are" : "here, too";
    said += ` The model sets ${values} beyond the study's range to its ends, ${here}.`;
  }
  const absent = terms.filter((_, j) => estimate[0][j] === null);
  const ofTime = absent.filter((term) => term === "(constant)" || term.startsWith(`${INTERVAL} = `));
  const follow = absent.filter((term) => !ofTime.includes(term));
  if (follow.length) {
    said += ` No estimate: ${follow.slice(0, 4).map(quoted).join(", ")}${follow.length > 4 ? ", ..." : ""}, ` +
      "which has no row here or follows from columns above. Their estimates are those without it. Leave one " +
      "of them out (--drop).";
  }
  if (ofTime.length) said += " Intervals in which nobody had the event have no estimate.";
  if (curved.length) {
    said += ` ${quoted(curved.at(-1))} is a part of a curve, and no effect by itself: only differences of their ` +
      "sums are.";
  }
  said += ` The model itself has a ridge of ${design.ridge}, which moves its coefficients towards zero and ` +
    "predicts new rows better. Report effects from the estimates, and predictions from the model.";
  return { items: [table, said], marks, scale: ratio || "estimate" };
}
