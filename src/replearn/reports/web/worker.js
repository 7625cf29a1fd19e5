// Runs beside the page, so that a long fit never freezes it. It has no way to the network.
import { Refusal } from "./exact.js";
import { counted } from "./table.js";
import { compared, inWords } from "./compare.js";
import { fitted, readRows } from "./replicate.js";

self.onmessage = async ({ data: { study, file, options, opened } }) => {
  try {
    const { rows, findings } = await readRows(study, file, options, (share) =>
      self.postMessage({ progress: 0.6 * share, words: "Reading the table" }));
    let done = 0.6;
    const found = fitted(study, rows, (pass) => {
      done += (1 - done) / 4;
      self.postMessage({ progress: done, words: `Fitting ${counted(rows.nRows)} rows, pass ${pass + 1}` });
    });
    const comparison = compared(study, found, rows.nRows, opened);
    const words = inWords(study, found.fingerprint, comparison);
    self.postMessage({ result: { ...comparison, ...words, findings, model: found.model } });
  } catch (problem) {
    self.postMessage({ refused: problem.message, isFault: !(problem instanceof Refusal) });
  }
};
