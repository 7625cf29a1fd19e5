// What the original's model is worth to a lab's patients, beside the base rate and the lab's own fit.
// For reading, not for codes: sums are made in plain float64.
import {
  Refusal, decoded, familyOf, nScores, onGrid, startOf, thetaOf, toMeans, totalsOf,
} from "./exact.js";
import { fitConstants, fitFactor, slopesOf, slopesTimes } from "./recalibration.js";
import { partsOf } from "./strongest.js";
import { combined, ofConstants, ofDirections, scoreTest, scoresOf, shiftOf } from "./support.js";
import { termNames } from "./words.js";

export const UNLIKELY = 0.01;  // patients contradict a model below this p-value
const MARGIN = Math.log(1.25);  // base risks differ beyond it
const NORMAL_95 = 1.959963984540054;
const MEASURES = { gaussian: "half the squared error", poisson: "half the deviance" };
export const RATIOS = { gaussian: "coefficient", poisson: "rate ratio", hazard: "hazard ratio" };

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

/** A weighted mean over rows, with the reach of its 95 % confidence interval. */
function mean(values, masses) {
  const total = sumOf(masses), value = sumOf(values.map((v, i) => v * masses[i])) / total;
  const spread = Math.sqrt(sumOf(values.map((v, i) => ((v - value) * masses[i]) ** 2)));
  return { value, reach: NORMAL_95 * spread / total };
}

const around = (value, reach) => ({ value, low: value - reach, high: value + reach });
const meansOf = (loss, scores) => {
  const means = scores.map((row) => row.slice());
  toMeans(loss, means, means[0].length);
  return means;
};

/** The loss of a row; `scores` are its own. */
function lossOf(loss, scores, target) {
  const [score] = scores, family = familyOf(loss);
  if (family === "gaussian") return 0.5 * (score - target) ** 2;
  if (family === "poisson") {
    // half the deviance, counted from a mean that equals the count
    const mean = Math.exp(Math.min(Math.max(score, -30), loss.cap_bits * Math.LN2));
    return mean - target * score - (target - target * Math.log(target || 1));
  }
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

const lossesOf = (loss, scores, targets) =>
  targets.map((target, i) => lossOf(loss, scores.map((score) => score[i]), target));

/** Scores of the base rate: of survival one of events for each unit of time. */
function baseScores(rows, loss, masses) {
  const { weight, totals } = totalsOf(rows, loss);
  if (loss.kind !== "hazard") {
    return startOf(loss, totals.map((value) => value / weight))
      .map((score) => new Float64Array(rows.nRows).fill(score));
  }
  const events = sumOf(rows.targets.map((target, i) => target * masses[i]));
  const rate = Math.log(events / sumOf(rows.offset.map((log, i) => Math.exp(log) * masses[i])));
  return [rows.offset.map((log) => rate + log)];
}

/** Mean loss and, of two classes, AUC. */
function performance(loss, scores, targets, masses) {
  return {
    loss: mean(lossesOf(loss, scores, targets), masses).value,
    auc: loss.kind === "bernoulli" ? areaUnderCurve(scores[0], targets, masses).value : null,
  };
}

/** What a model saves beyond less of it, in nats a row; both have constants of these rows. */
function gainOf(loss, ours, base, targets, masses) {
  const [model, alone] = [ours, base].map((scores) => {
    const shift = shiftOf(loss, scores, targets, masses);
    return lossesOf(loss, scores.map((row, k) => row.map((value) => value + shift[k])), targets);
  });
  const { value, reach } = mean(alone.map((one, i) => one - model[i]), masses);
  return around(value, reach);
}

/** Two sums beside each other. */
function ratioOf(observed, expected, masses) {
  const total = sumOf(observed.map((value, i) => value * masses[i]));
  const value = total / sumOf(expected.map((one, i) => one * masses[i]));
  const spread = Math.sqrt(sumOf(observed.map((y, i) => ((y - expected[i]) * masses[i]) ** 2)));
  const factor = Math.exp(Math.min(1.96 * spread / Math.max(total, 1e-12), 300));
  return { value, low: value / factor, high: value * factor };
}

/** Events, or totals, beside what the model predicts; null for numbers and many classes. */
function observedToExpected(loss, scores, targets, masses) {
  if (nScores(loss) > 1 || loss.kind === "gaussian") return null;
  return ratioOf(targets, meansOf(loss, scores)[0], masses);
}

/** Logarithms of observed to expected, of each class if there are many; of numbers the mean. */
function shiftsOf(loss, scores, targets, masses) {
  if (loss.kind === "gaussian") {
    const { value, reach } = mean(targets.map((y, i) => y - scores[0][i]), masses);
    return [around(value, reach)];
  }
  const means = meansOf(loss, scores);
  let pairs = [[targets, means[0]]];
  if (means.length > 1) {
    const first = means[0].map((_, i) => 1 - sumOf(means.map((row) => row[i])));
    pairs = [first, ...means].map((expected, label) => [targets.map((y) => (y === label ? 1 : 0)), expected]);
  }
  return pairs.filter(([observed]) => observed.some((value) => value)).map((pair) => {
    const { value, low, high } = ratioOf(...pair, masses);
    return { value: Math.log(value), low: Math.log(low), high: Math.log(high) };
  });
}

/** Logistic regression of the target on the score: the slope; null if there is none. */
function calibrationSlope(scores, targets, masses) {
  const share = sumOf(targets.map((y, i) => y * masses[i])) / sumOf(masses);
  if (scores.every((score) => score === scores[0]) || !(share > 0 && share < 1)) return null;
  const lossAt = (a, b) => sumOf(scores.map((score, i) => {
    const f = a + b * score;
    return masses[i] * (Math.max(f, 0) + Math.log1p(Math.exp(-Math.abs(f))) - targets[i] * f);
  }));

  // Newton's steps from the base rate, halved until the loss falls
  let a = Math.log(share / (1 - share)), b = 0, isFound = false, p, aa, ab, bb;
  for (let round = 0; round < 50 && !isFound; round++) {
    p = scores.map((s) => 1 / (1 + Math.exp(-Math.min(Math.max(a + b * s, -500), 500))));
    let first = 0, second = 0;
    aa = ab = bb = 0;
    scores.forEach((score, i) => {
      const left = masses[i] * (targets[i] - p[i]), bend = masses[i] * p[i] * (1 - p[i]);
      first += left;
      second += left * score;
      aa += bend;
      ab += bend * score;
      bb += bend * score * score;
    });
    const below = aa * bb - ab * ab;
    if (below === 0) return null;
    let step = [(bb * first - ab * second) / below, (aa * second - ab * first) / below];
    const before = lossAt(a, b), length = () => Math.max(...step.map(Math.abs));
    while (lossAt(a + step[0], b + step[1]) > before && length() > 1e-10)
      step = step.map((one) => one / 2);
    a += step[0];
    b += step[1];
    isFound = length() <= 1e-10 * (1 + Math.max(Math.abs(a), Math.abs(b)));
  }
  if (!isFound) return null;

  // rows are independent, their weights are not counts
  const below = aa * bb - ab * ab;
  const square = sumOf(scores.map((score, i) =>
    (masses[i] * (targets[i] - p[i]) * (aa * score - ab) / below) ** 2));
  const reach = 1.96 * Math.sqrt(square);
  return Number.isFinite(a + b + reach) ? around(b, reach) : null;
}

/** Calibration in the large and slope, for two classes. */
function lineOf(loss, scores, targets, masses) {
  const slope = loss.kind === "bernoulli" ? calibrationSlope(scores[0], targets, masses) : null;
  if (slope === null) return null;
  const [shift] = shiftOf(loss, scores, targets, masses);
  const [p] = meansOf(loss, [scores[0].map((value) => value + shift)]);
  const information = sumOf(p.map((one, i) => one * (1 - one) * masses[i]));
  return { inTheLarge: around(shift, 1.96 / Math.sqrt(Math.max(information, 1e-12))), slope };
}

/** A score's coefficients as readers multiply and add them: uncentred, and of products per unit of both. */
export function perUnit({ columns, products, products_halved: halved }, row) {
  const found = [...row], isZ = [false], places = [[0, 1]];
  for (const column of columns) {
    const isNumber = column.kind === "number";
    const others = isNumber ? column.knots.length + (column.indicator ? 1 : 0) : column.levels.length;
    if (isNumber) places.push([Number(column.centre), Number(column.spread)]);
    for (let i = 0; i < others; i++) places.push([0, 1]);
    isZ.push(...(isNumber ? [true] : []), ...new Array(others).fill(false));
  }
  places.forEach(([centre, spread], i) => {
    found[i] /= spread;
    if (i) found[0] -= found[i] * centre;
  });

  // p (x - a)(y - b) = p x y - p b x - p a y + p a b
  products.forEach(({ first, second }, j) => {
    const i = places.length + j, f = first + 1, s = second + 1;
    const [[a, aSpread], [b, bSpread]] = [places[f], places[s]];
    found[i] /= 2 ** (halved + (isZ[f] && isZ[s] ? 2 : 0)) * aSpread * bSpread;
    found[f] -= found[i] * b;
    found[s] -= found[i] * a;
    found[0] += found[i] * a * b;
  });
  return found;
}

/** Coefficients per unit, the model's and the lab's own, those that differ most first. */
function columnsOf({ directions, encoding, loss, classes }, theta, test) {
  if (directions || test.isWide) return [];
  const scale = loss.kind === "gaussian" ? Number(loss.spread) : 1, { width } = test;
  const turn = Array.from({ length: width }, (_, i) =>
    perUnit(encoding, Array.from({ length: width }, (__, j) => (i === j ? scale : 0))));
  const printed = (value) => loss.kind === "gaussian" ? value : Math.exp(Math.min(value, 700));

  return termNames(encoding).flatMap((column, place) => {
    const p = test.pOf(place + 1), weights = turn.map((row) => row[place + 1]);
    return theta.map((row, k) => {
      const start = k * width, name = theta.length > 1 ? `${column}, ${classes[k + 1]}` : column;
      const block = test.ownCovariance.slice(start, start + width);
      const variance = sumOf(block.map((one, i) =>
        weights[i] * sumOf(weights.map((weight, j) => weight * one[start + j]))));
      const isKnown = Number.isFinite(test.errors[start + place + 1]);
      const reach = isKnown ? 1.96 * Math.sqrt(Math.max(variance, 0)) : Infinity;
      const model = sumOf(weights.map((weight, i) => weight * row[i]));
      const own = model + sumOf(weights.map((weight, i) => weight * test.step[start + i]));
      const [ours, low, high] = [own, own - reach, own + reach].map(printed);
      return { name, column, model: printed(model), own: ours, low, high, p };
    });
  }).sort((a, b) => a.p - b.p);
}

/** What `make` gives, or null where rows have no such fit. */
function unlessRefused(make) {
  try {
    return make();
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    return null;
  }
}

/** The score test, with the lower rungs tested where their free numbers are fitted. */
function rungsOf(study, theta, rows) {
  const { loss } = study.design, found = scoreTest(study, theta, rows);
  const real = theta.map((row) => row.map((value) => value * 2 ** -26)), slopes = slopesTimes(real, 1);
  const testedAt = (factor) => {
    const there = slopesTimes(real, Number(factor));
    fitConstants(rows, loss, there).forEach((own, k) => { there[k][0] = own; });
    return scoreTest(study, there, rows);
  };
  const own = unlessRefused(() => testedAt("1")) ?? found;
  const hasFactor = theta.length === 1 && slopes[0].some((value) => value);
  const scaled = hasFactor ? unlessRefused(() => testedAt(fitFactor(rows, loss, slopes))) : null;
  return { ...own, spreads: found.spreads, pConstants: found.pConstants,
    pValue: combined(found.pValue, ...ofConstants(found), ...ofDirections(own)),
    pSlopes: combined(own.pSlopes, ...ofDirections(own)),
    pFactor: scaled ? combined(scaled.pFactor, ...ofDirections(scaled).slice(1)) : own.pFactor };
}

/** What a test says that knows of no difference between centres. */
function pIfCentresDidNotDiffer(study, theta, rows) {
  const test = scoreTest({ ...study, between: study.between.map(() => "0"), n_centres: 0 }, theta, rows);
  const directions = ofDirections(test);
  return study.design.constant === "local" ? combined(test.pSlopes, ...directions) :
    combined(test.pValue, ...ofConstants(test), ...directions);
}

/**
 * How far a model holds, after Vergouwe's closed test: all of it, its slopes, these up to a factor, or
 * not its columns. Base risks differ where events are shown to be a quarter more, or fewer, than
 * expected. What centres showed of their differences excuses it; an assumption does not.
 */
function rungOf(study, { pConstants, pSlopes, pFactor }, p, shifts, worseThan) {
  const isShown = shifts.some(({ low, high }) => low > MARGIN || high < -MARGIN);
  const differs = isShown && !(study.n_centres > 1 && pConstants >= UNLIKELY);
  if (p >= UNLIKELY && !differs) return "model";
  if (pSlopes >= UNLIKELY) return "slopes";
  // a factor of 0 suits labels that no column tells anything about
  return pFactor >= UNLIKELY && !worseThan ? "factor" : "columns";
}

/**
 * What a lab's patients say about the model that codes stand for.
 *
 * @param study the content of a study file
 * @param codes of the model
 * @param rows of the lab
 * @param ownTheta the lab's own fit
 */
export function supportOf(study, codes, rows, ownTheta) {
  const { design } = study, { loss } = design, { targets, nRows } = rows;
  const masses = rows.weights ?? new Float64Array(nRows).fill(1);
  const real = thetaOf(design.coordinates, decoded(design, codes));
  const theta = real.map((row) => row.map((value) => onGrid(value, 26)));
  if (design.constant === "local") {  // constants are this lab's own
    fitConstants(rows, loss, slopesOf(design, codes)).forEach((own, k) => { theta[k][0] = own; });
  }
  const test = rungsOf(study, theta, rows), isLocal = design.constant === "local";
  const [ours, own, base] = [theta, ownTheta, theta.map((row) => row.map(() => 0))]
    .map((one) => scoresOf(rows, one));
  const p = isLocal ? test.pSlopes : test.pValue;  // of all that labs agree on
  const shifts = isLocal ? [] : shiftsOf(loss, ours, targets, masses);
  const gain = gainOf(loss, ours, base, targets, masses);
  const parts = partsOf(study, theta).map((part) =>
    ({ ...part, gain: gainOf(loss, ours, scoresOf(rows, part.without), targets, masses) }));
  // what is shown to predict better here than the model
  const worseThan = gain.high < 0 ? "your base rate" :
    parts.find((part) => part.gain.high < -part.excused)?.alternative ?? "";
  return {
    test,
    p,
    rung: rungOf(study, test, p, shifts, worseThan),
    gain,
    parts,
    worseThan,
    measure: MEASURES[familyOf(loss)] ?? "log-loss",
    base: mean(lossesOf(loss, baseScores(rows, loss, masses), targets), masses).value,
    model: performance(loss, ours, targets, masses),
    own: performance(loss, own, targets, masses),
    ratio: observedToExpected(loss, ours, targets, masses),
    pOnePopulation: pIfCentresDidNotDiffer(study, theta, rows),
    line: lineOf(loss, ours, targets, masses),
    columns: columnsOf(design, real, test),
    scale: RATIOS[loss.kind] ?? "odds ratio",
  };
}
