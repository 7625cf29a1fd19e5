// All that a lab gets from a study and a table: verdict, model file, sums file, picture.
import { Refusal } from "./exact.js";
import { findings, personsHere, personsOf, refuseUnknown } from "./check.js";
import {
  compared, copiesFinding, inSentences, inWords, spreadFinding, updateOf,
} from "./compare.js";
import { NO_ESTIMATES, ownEstimates, ownInWords } from "./own.js";
import { forest, picture } from "./pictures.js";
import { fitted, readTable, rowsAsTheyAre, rowsOf, scaleOf } from "./replicate.js";
import { checkStudy } from "./stability.js";
import { labSums } from "./sums.js";
import { counted } from "./words.js";

/**
 * @param study the content of a study file
 * @param file a File, with the lab's rows
 * @param options {delimiter, decimal, thousands} of the file; {opened, state, lab}: what opens the
 *   study, the state of a joint fit's round (null in the first), and the lab's name
 * @param onProgress is told the share that is done, and what is being done
 */
export async function replication(study, file, options, onProgress = () => {}) {
  checkStudy(study);
  const read = await readTable(study, file, options, (share) =>
    onProgress(0.6 * share, "Reading the table"));
  const { opened = [], state = null, lab = "lab" } = options;
  return { ...ownModel(study, read, opened, onProgress), sums: jointPart(study, read, state, lab) };
}

function ownModel(study, read, opened, onProgress) {
  const { design } = study, { table } = read;
  const rows = rowsOf(design, read, scaleOf(read));
  refuseUnknown(table);
  const counts = design.classes && design.classes.map((_, place) =>
    rows.targets.reduce((n, target) => n + (target === place ? 1 : 0), 0));
  const odd = findings(study, table, counts);
  let done = 0.6, found;
  try {
    found = fitted(study, rows, (pass) => {
      done += (1 - done) / 4;
      onProgress(done, `Fitting ${counted(rows.nRows)} rows, pass ${pass + 1}`);
    });
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    return { refused: problem.message, questions: inSentences(odd) };  // sums may be good
  }
  const people = peopleOf(study, table, rows);
  const { known, ...comparison } = compared(study, found, rows, opened, odd, people);
  const { support, same } = comparison;
  odd.push(...spreadFinding(study, support ? support.test.spreads : null, rows.nRows));
  odd.push(...copiesFinding(rows));
  const words = inWords(study, found.fingerprint, comparison, odd), plain = plainSupport(support);
  if (same === false) found.model = null;  // nobody's fit: no file may look like a usable model
  const update = possibleUpdate(study, { ...comparison, known }, rows);
  onProgress(0.99, "Estimating without the ridge");
  const own = ownOf(study, read, rows, found.theta);
  // without the original's model the lab's own estimates are drawn
  const drawn = support ?? (own && { columns: own.marks, scale: own.scale });
  return { ...found, ...comparison, ...words, update, support: plain, findings: odd,
    questions: inSentences(odd), picture: picture(comparison), forest: drawn && forest(drawn),
    own: own ? own.items : [NO_ESTIMATES] };
}

/** What these rows say without the ridge, in words; null beyond what a reader takes in. */
function ownOf({ design }, read, rows, theta) {
  const wider = rowsAsTheyAre(design, read, scaleOf(read));
  const own = ownEstimates(design, wider ?? rows, theta);
  const nBeyond = read.table.terms.reduce((sum, { clipped }) => sum + clipped, 0);
  return own && ownInWords(design, own, nBeyond, wider !== null);
}

/** Persons here, their events, and persons for whom the study was planned; null unless it is of survival. */
function peopleOf(study, table, { targets }) {
  if (study.design.loss.kind !== "hazard") return null;
  return { here: personsHere(study, table), events: targets.reduce((sum, target) => sum + target, 0),
    planned: personsOf(study, study.n_replication) };
}

/** The original's model with a base risk of these rows; null where that is not enough, or too much. */
function possibleUpdate(study, comparison, rows) {
  try {
    return updateOf(study, comparison, rows);
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    return null;  // too few events: the next step stands among the items
  }
}

/** Without functions: a worker cannot send them. */
function plainSupport(support) {
  if (!support) return null;
  const { pOf, ...test } = support.test;
  return { ...support, test };
}

function jointPart(study, read, state, lab) {
  try {
    return labSums(study, read, state, lab);
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    return { refused: problem.message };
  }
}
