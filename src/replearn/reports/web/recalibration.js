// Recalibration: constants of a model fitted anew, its slopes kept. Python's glm/recalibration.py.
import {
  Refusal, canonicalJson, decoded, familyOf, fingerprintOf, fit, nClasses, nScores, onGrid,
  summaryOf, thetaOf,
} from "./exact.js";
import { scoresOf } from "./support.js";
import { counted, general } from "./words.js";

const THETA_BITS = 26, SCORE_BITS = 10, MAX_ROW = 1 << 14;  // scores enter a fit divided by 4
const LEAST_EVENTS = 10;  // or rows of a class, for each number that is fitted

/** Slopes times a factor, in whole units, with constants of 0. */
export const slopesTimes = (theta, factor) => theta.map((row) =>
  row.map((value, j) => (j ? onGrid(value * factor, THETA_BITS) : 0)));

/** The same of those that codes stand for. */
export const slopesOf = (design, codes, factor = 1) =>
  slopesTimes(thetaOf(design.coordinates, decoded(design, codes)), factor);

/** A fit without a ridge; `words` say why there is none. */
function boundedFit(rows, loss, words) {
  summaryOf(rows, loss);
  try {
    return fit(rows, loss, 0);
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    throw new Refusal(words);
  }
}

/** Constants at which the mean loss of rows is smallest, given slopes in whole units. */
export function fitConstants({ columns, targets, weights, offset, nRows }, loss, slopes) {
  const offsets = scoresOf({ columns, offset, nRows }, slopes);
  const theta = boundedFit({ columns: [], targets, weights, offsets, nRows }, loss,
    "the constant must have a bounded fit beside the model's slopes, got none: scores of these rows " +
    "lie far away from the outcomes. Check units and the target's coding.");
  return theta.map((row) => row[0]);
}

/** The factor on slopes at which the mean loss of rows is smallest, its constant free; as text. */
export function fitFactor({ columns, targets, weights, offset, nRows }, loss, slopes) {
  const [scores] = scoresOf({ columns, offset: null, nRows }, slopes);
  const column = Int16Array.from(scores, (score) =>
    Math.min(Math.max(onGrid(score, SCORE_BITS), -MAX_ROW), MAX_ROW));
  const [theta] = boundedFit({ columns: [column], targets, weights, offset, nRows }, loss,
    "the factor on the slopes must be below 4, but these rows drive it further. Use the constant " +
    "alone, or get more rows.");
  return thousandths(theta[1] * 2 ** -(THETA_BITS + 2));
}

/** A factor as files have it. */
function thousandths(factor) {
  const whole = Math.floor(factor * 1000 + 0.5);
  if (whole < 1) {
    throw new Refusal(`the factor on the slopes must be positive, got ${general(factor, 3)}: the ` +
      "model ranks these rows the wrong way round, and no factor mends that. Check the target's " +
      "coding, or fit a model of your own.");
  }
  return String(whole / 1000);
}

/** Refuse too few events. */
function checkEvents({ targets, nRows }, loss, nFitted) {
  const needed = LEAST_EVENTS * nFitted, classes = nClasses(loss);
  let fewest = nRows, what = "rows";
  if (classes) {
    const counts = new Array(classes).fill(0);
    for (const target of targets) counts[target]++;
    [fewest, what] = [Math.min(...counts), "rows of each class"];
  } else if (familyOf(loss) === "poisson") {
    [fewest, what] = [targets.reduce((sum, target) => sum + target, 0), "events"];
  }
  if (fewest < needed) {
    throw new Refusal(`an update needs at least ${needed} ${what}, got ${counted(fewest)}: fewer ` +
      "say too little about a base risk, and would show single patients. Get more rows.");
  }
}

/**
 * The file of a model that is recalibrated on rows: what `replearn update` writes.
 *
 * @param parent the content of a model: {design, codes, recalibration?}
 * @param rows of this lab
 * @param withSlope whether one factor on all slopes is fitted, too
 */
export function updated(parent, rows, withSlope) {
  const { design, codes } = parent, { loss } = design;
  if (withSlope && nScores(loss) > 1) {
    throw new Refusal(`slope must be False for ${nScores(loss) + 1} classes, whose scores have no ` +
      "one factor in common, got True. Update the constants alone.");
  }
  checkEvents(rows, loss, withSlope ? 2 : 1);
  let factor = parent.recalibration?.factor ?? "1";
  if (withSlope) {
    const further = fitFactor(rows, loss, slopesOf(design, codes, Number(factor)));
    factor = thousandths(Number(factor) * Number(further));
  }
  const constants = fitConstants(rows, loss, slopesOf(design, codes, Number(factor)));
  const recalibration = { parent: fingerprintOf(parent), constants, factor };
  const content = { format: "replearn/model", version: 1, design, codes, recalibration };
  return canonicalJson({ ...content, fingerprint: fingerprintOf(content) }) + "\n";
}
