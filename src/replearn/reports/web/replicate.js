// A replication of a study: a CSV file in, encoded rows, a model file out.
import {
  Refusal, canonicalJson, codesOf, coordinatesOf, familyOf, fingerprintOf, fit, offsetsOf, onGrid,
} from "./exact.js";
import { fitConstants, slopesOf } from "./recalibration.js";
import { isAgreed } from "./stability.js";
import { Table } from "./table.js";
import { Labels, Numbers, RowsAtRisk } from "./targets.js";

const PIECE = 1 << 22;  // bytes of a file that are read at once
const MOST_TARGET = 16;  // spreads of a numeric target

// --- targets and weights --------------------------------------------------------------------------

function targetOf({ loss, classes }) {
  if (classes) return new Labels(classes);
  return new Numbers("the target", loss.kind === "poisson" ? 0 : -Infinity);
}

/** Class numbers, standardised numbers or counts. */
function targetsOf({ loss }, found) {
  if (loss.kind === "gaussian") {
    const centre = Number(loss.centre), spread = Number(loss.spread);
    return found.map((y) =>
      onGrid(Math.min(Math.max((y - centre) / spread, -MOST_TARGET), MOST_TARGET), 16) / 65536);
  }
  const most = 1 << loss.cap_bits;
  return familyOf(loss) === "poisson" ? found.map((y) => Math.min(y, most)) : found;
}

/** Weights of rows before they are scaled; null if all are 1. */
function massesOf({ class_weight: byClass }, given, targets) {
  if (!given && !byClass) return null;
  return targets.map((target, i) => {
    const weight = byClass ? Number(byClass[target]) : 1;
    return given ? given[i] * weight : weight;
  });
}

/** A power of two that exceeds all weights of rows. */
export function scaleOf({ masses }) {
  if (!masses) return 1;
  const largest = masses.reduce((most, mass) => Math.max(most, mass), 0);
  if (!(largest > 0)) {
    throw new Refusal("sample_weight must not be zero in all rows. Pass some that are positive.");
  }
  let scale = 1;
  while (scale <= largest) scale *= 2;
  while (scale / 2 > largest) scale /= 2;
  return scale;
}

/** Rows as a fit takes them: weights on their grid; rows without weight are left out. */
export function rowsOf(design, { columns, targets, masses, offset }, scale) {
  let parts = [...columns, targets, offset], weights = null;
  if (masses) {
    weights = masses.map((mass) => Math.max(onGrid(mass / scale, 16), mass > 0 ? 1 : 0) / 65536);
    if (weights.some((weight) => !weight)) {
      parts = parts.map((array) => array && array.filter((_, i) => weights[i] > 0));
      weights = weights.filter((weight) => weight > 0);
    }
  }
  offset = parts.pop();
  targets = parts.pop();
  return { columns: parts, targets, weights, offset, nRows: targets.length };
}

/** Published combinations of encoded numbers, on the same grid and clipped like them. */
function projected(columns, directions, nRows) {
  return directions.map((direction) => {
    const whole = new Float64Array(nRows);
    direction.forEach((factor, j) => {
      for (let i = 0; i < nRows; i++) whole[i] += columns[j][i] * factor;
    });
    return Int16Array.from(whole, (value) =>
      Math.min(Math.max(Math.floor(value / 4096 + 0.5), -16384), 16384));
  });
}

// --- the whole way -------------------------------------------------------------------------------

/** The bytes of a file in pieces, unpacked if its name ends in .gz. */
async function* piecesOf(file) {
  if (!file.name.toLowerCase().endsWith(".gz")) {
    for (let start = 0; start < file.size; start += PIECE) {
      const piece = new Uint8Array(await file.slice(start, start + PIECE).arrayBuffer());
      yield [piece, start + piece.length];
    }
    return;
  }
  let done = 0;
  const packed = new TransformStream({ transform(piece, out) {
    done += piece.length;
    out.enqueue(piece);
  } });
  const unpacked = file.stream().pipeThrough(packed).pipeThrough(new DecompressionStream("gzip"));
  for (const reader = unpacked.getReader(); ;) {
    let found;
    try {
      found = await reader.read();
    } catch (problem) {
      throw new Refusal(`${file.name} cannot be read: ${problem.message.replace(/\.$/, "")}. Check ` +
        "that the file is complete, or unpack it first.");
    }
    if (found.done) return;
    yield [found.value, done];
  }
}

/**
 * Read a table as a study says: encoded rows, before weights are put on their grid.
 *
 * @param study the content of a study file
 * @param file a File
 * @param options {delimiter, decimal, thousands}
 * @param onProgress is told the share of the file that has been read
 */
export async function readTable({ design }, file, options = {}, onProgress = () => {}) {
  const atRisk = design.loss.kind === "hazard" ? new RowsAtRisk(design.loss) : null;
  const [target, weights, offset] = atRisk ? [null, null, null] : [targetOf(design),
    design.weights ? new Numbers("sample_weight", 0) : null,
    design.offset ? new Numbers("offset") : null];
  const roles = [[design.target, target], [design.weights, weights], [design.offset, offset]]
    .filter(([, handler]) => handler !== null);
  const table = new Table(file.name, design.encoding, roles, options, atRisk);
  for await (const [piece, done] of piecesOf(file)) {
    table.feed(piece, false);
    onProgress(Math.min(1, done / file.size));
  }
  table.feed(new Uint8Array(0), true);
  const outcomes = atRisk ? atRisk.finished() : { targets: target.finished(), offset: null };
  const targets = targetsOf(design, outcomes.targets);
  const masses = massesOf(design, weights && weights.finished(), targets);
  const offsets = offset ? offset.finished() : outcomes.offset;
  const columns = table.encoded();
  return { table, targets, masses, offset: offsets, numbers: outcomes.targets,
    columns: design.directions ? projected(columns, design.directions, table.nRows) : columns };
}

/** Rows whose numbers beyond the study's range are as they are; null if that changes nothing. */
export function rowsAsTheyAre(design, read, scale) {
  const { loss } = design, columns = read.table.asTheyAre();
  let { targets } = read;
  if (loss.kind === "gaussian") {
    const centre = Number(loss.centre), spread = Number(loss.spread);
    const given = read.numbers.map((y) => (y - centre) / spread);
    if (given.some((y) => Math.abs(y) > MOST_TARGET)) targets = given;
  }
  if (!columns && targets === read.targets) return null;
  return rowsOf(design, { ...read, columns: columns ?? read.columns, targets }, scale);
}

/** The fit of a study to rows: codes, where they lie in their cells, and the model file. */
export function fitted(study, rows, onPass) {
  const { design } = study;
  const theta = fit(rows, design.loss, Number(design.ridge), onPass);
  const numbers = coordinatesOf(design.coordinates, theta);
  const offsets = offsetsOf(design, numbers);
  const codes = codesOf(offsets).map((code, i) => (isAgreed(design, i) ? code : 0));
  const content = { format: "replearn/model", version: 1, design, codes };
  const fingerprint = fingerprintOf(content);
  const own = design.constant ?  // no part of the fingerprint
    { provenance: { constants: fitConstants(rows, design.loss, slopesOf(design, codes)) } } : {};
  return {
    codes,
    fingerprint,
    theta,
    numbers: Array.from(numbers),
    places: Array.from(offsets, (offset, i) => offset - codes[i]),  // in cells, 0 at the centre
    model: canonicalJson({ ...content, fingerprint, ...own }) + "\n",
  };
}
