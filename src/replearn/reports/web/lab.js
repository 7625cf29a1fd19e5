// All that a lab gets from a study and a table: verdict, model file, sums file, picture.
import { MOST_STEERED, Refusal } from "./exact.js";
import { findings, refuseUnknown } from "./check.js";
import { compared, inSentences, inWords, picture, spreadFinding } from "./compare.js";
import { fitted, readTable, rowsOf, scaleOf } from "./replicate.js";
import { labSums } from "./sums.js";
import { counted } from "./words.js";
import { spreadsOf, worthOf } from "./worth.js";

/**
 * @param study the content of a study file
 * @param file a File, with the lab's rows
 * @param options {delimiter, decimal, thousands} of the file; {opened, state, lab}: what opens the
 *   study, the state of a joint fit's round (null in the first), and the lab's name
 * @param onProgress is told the share that is done, and what is being done
 */
export async function replication(study, file, options, onProgress = () => {}) {
  const read = await readTable(study, file, options, (share) =>
    onProgress(0.6 * share, "Reading the table"));
  const { opened = [], state = null, lab = "lab" } = options;
  return { ...ownModel(study, read, opened, onProgress), sums: jointPart(study, read, state, lab) };
}

function ownModel(study, read, opened, onProgress) {
  const { design, profile } = study, { table } = read;
  const rows = rowsOf(design, read, scaleOf(read));
  refuseUnknown(table);
  const counts = design.classes && design.classes.map((_, place) =>
    rows.targets.reduce((n, target) => n + (target === place ? 1 : 0), 0));
  const odd = findings(profile, table, counts);
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
  if (design.widths.length <= MOST_STEERED) {  // beyond, a page would take too long
    odd.push(...spreadFinding(study, spreadsOf(study, found.theta, rows), rows.nRows));
  }
  const comparison = compared(study, found, rows.nRows, opened);
  const words = inWords(study, found.fingerprint, comparison, odd, worthOf(study, found.codes, rows));
  return { ...found, ...comparison, ...words, findings: odd, questions: inSentences(odd),
    picture: picture(comparison) };
}

function jointPart(study, read, state, lab) {
  try {
    return labSums(study, read, state, lab);
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    return { refused: problem.message };
  }
}
