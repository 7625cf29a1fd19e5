// What a lab's fit says about the original's model, in the words of Python's `replicate`.
import { Refusal, canonicalJson, decoded, fingerprintOf, nScores } from "./exact.js";
import { counted } from "./table.js";
import { disagreement, erfc, evidence } from "./evidence.js";

const MOVED = 24;  // numbers next to a wall that are moved to look for the original's model

/** What terms are called. */
function termNames({ columns, products }) {
  const basic = columns.flatMap((column) => column.kind === "number" ?
    [column.name, ...column.knots.map((knot) => `${column.name} ~ ${knot}`),
      ...(column.indicator ? [`${column.name} missing`] : [])] :
    column.levels.map((level) => level === "(missing)" ?
      `${column.name} missing` : `${column.name} = ${level}`));
  return [...basic, ...products.map(({ first, second }) => `${basic[first]} x ${basic[second]}`)];
}

/** Names of the coded numbers. */
function namesOf({ encoding, directions, loss, classes }) {
  const terms = ["(constant)", ...(directions ?
    directions.map((_, i) => `direction ${i + 1}`) : termNames(encoding))];
  if (nScores(loss) === 1) return terms;
  return classes.slice(1).flatMap((label) => terms.map((term) => `${term}, ${label}`));
}

const byWall = (places) => places.map((_, i) => i)
  .sort((a, b) => Math.abs(Math.abs(places[a]) - 0.5) - Math.abs(Math.abs(places[b]) - 0.5) || a - b);

/** The original's codes, if one or two numbers next to a wall make the difference. */
function neighbour(study, { codes, places }) {
  const near = byWall(places).slice(0, MOVED);
  const tries = near.map((i) => [i]);
  for (let a = 0; a < Math.min(8, near.length); a++) {
    for (let b = a + 1; b < Math.min(8, near.length); b++) tries.push([near[a], near[b]]);
  }
  for (const moved of tries) {
    const tried = codes.map((code, i) =>
      moved.includes(i) ? code + (places[i] > 0 ? 1 : -1) : code);
    const content = { format: "replearn/model", version: 1, design: study.design, codes: tried };
    if (fingerprintOf(content) === study.commitment) return tried;
  }
  return null;
}

/**
 * @param study the content of a study file
 * @param found what `fitted` gives
 * @param nRows rows of this lab
 * @param opened the original's model file, once it is open
 */
export function compared(study, found, nRows, opened = null) {
  const { design, commitment, sealed } = study;
  let same = commitment && !sealed ? commitment === found.fingerprint : null;
  if (opened) {
    if (opened.format !== "replearn/model" || !Array.isArray(opened.codes) ||
        canonicalJson(opened.design) !== canonicalJson(design) ||
        (commitment && !sealed && commitment !== fingerprintOf(
          { format: opened.format, version: opened.version, design, codes: opened.codes }))) {
      throw new Refusal("the opened model must be the one that the study commits to, got a " +
        "different one. Ask the original for its model file.");
    }
    same = canonicalJson(opened.codes) === canonicalJson(found.codes);
  }
  let known = same ? found.codes : opened ? opened.codes : null;
  if (known === null && same === false) known = neighbour(study, found);
  const names = namesOf(design);
  let differences = [], samePopulation = null;
  if (known) {
    const z = decoded(design, known), root = Math.sqrt(1 / study.n_original + 1 / nRows);
    const scaled = found.numbers.map((value, i) => {
      const spread = Number(study.spreads[i]) * root, width = Number(design.widths[i]);
      return (value - z[i]) / Math.sqrt(spread ** 2 + width ** 2 / (12 * 4 ** design.bits));
    });
    samePopulation = Math.min(1,
      scaled.length * erfc(Math.max(...scaled.map(Math.abs)) / Math.SQRT2));
    differences = scaled.map((value, i) =>
      ({ name: names[i], cells: found.codes[i] - known[i], standardised: value }))
      .filter(({ cells }) => cells !== 0)
      .sort((a, b) => Math.abs(b.standardised) - Math.abs(a.standardised));
  }
  return {
    same,
    nRows,
    names,
    differences,
    samePopulation,
    nearest: byWall(found.places).slice(0, 5).map((i) => names[i]),
    positions: found.places.map((place, i) => place + (known ? found.codes[i] - known[i] : 0)),
    disagreement: disagreement(study, nRows),
    evidence: evidence(study, found.codes),
  };
}

const twoDigits = (number) => counted(Number(number.toPrecision(2)));

/** A verdict, named values, and notes. */
export function inWords(study, fingerprint, found) {
  const { same, evidence: proof, differences } = found;
  const rows = [], notes = [];
  let verdict = "A different model: these rows do not give the original's model.";
  if (same) {
    verdict = "The same model: these rows give exactly the original's model.";
    const honest = `A lab needs about ${twoDigits(proof.rows)} rows of its own to get this model`;
    notes.push(proof.bits < 10
      ? "A match proves little: a guess without rows hits once in about " +
        `${twoDigits(Math.round(2 ** proof.bits))} tries.`
      : honest + (proof.rowsSearch === undefined ? "." : proof.rowsSearch < 50
        ? "; one that tries 2^40 neighbours needs hardly any."
        : `; one that tries 2^40 neighbours, about ${twoDigits(proof.rowsSearch)}.`));
  } else if (same === null) {
    verdict = "A model was made; the study does not tell whether it is the original's.";
    notes.push("Send the fingerprint to the original, or open its model file here.");
  } else {
    if (found.samePopulation !== null) {
      const p = found.samePopulation;
      rows.push(["same population?", p < 0.001 ? "p < 0.001" : `p = ${p.toPrecision(2)}`]);
    }
    for (const { name, cells, standardised } of differences) {
      const n = Math.abs(cells);
      rows.push([name, `${n} cell${n > 1 ? "s" : ""} apart, ${standardised > 0 ? "+" : ""}` +
        `${standardised.toFixed(1)} standard deviations`]);
    }
    if (!differences.length) notes.push(`Next to a wall: ${found.nearest.slice(0, 3).join(", ")}.`);
    if (found.nRows < study.n_replication) {
      notes.push("These rows are fewer than the study was planned for.");
    }
  }
  rows.push(["fingerprint", fingerprint],
    ["rows here", `${counted(found.nRows)}, planned for ${counted(study.n_replication)}`],
    ["chance of a different model",
      `${(100 * found.disagreement).toPrecision(2)}%, estimated beforehand`],
    ...(same === false ? [] : [
      ["proof in bits", `${proof.bits.toFixed(0)}, against a guess without rows`]]));
  return { verdict, rows, notes };
}
