// What a lab's fit says about the original's model, in the words of Python's `replicate`.
import { Refusal, canonicalJson, contentOf, decoded, fingerprintOf, nScores, sealOf } from "./exact.js";
import { disagreement, erfc, evidence } from "./evidence.js";
import { counted, fixed, general, pValue, percent, quoted, real } from "./words.js";

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

/** The model and the nonce of files that open a study. */
function openedBy(study, files) {
  const { design, commitment, sealed } = study;
  let nonce = null, codes = null;
  const commits = (fingerprint) => !commitment || (sealed && nonce === null) ? null :
    commitment === (sealed ? sealOf(nonce, fingerprint) : fingerprint);
  for (const file of files) {
    if (file.format !== "replearn/opening") continue;
    if (contentOf(file).study !== fingerprintOf(contentOf(study))) {
      throw new Refusal("the file opens a different study. Ask the original for this.");
    }
    ({ nonce } = file);
  }
  for (const file of files) {
    if (file.format === "replearn/opening") continue;
    const model = contentOf(file, "replearn/model", "the opened model");
    if (canonicalJson(model.design) !== canonicalJson(design) ||
        commits(fingerprintOf(model)) === false) {
      throw new Refusal("the opened model must be the one that the study commits to, got a " +
        "different one. Ask the original for its model file.");
    }
    ({ codes } = model);
  }
  return { commits, codes };
}

/**
 * @param study the content of a study file
 * @param found what `fitted` gives
 * @param nRows rows of this lab
 * @param files what opens the study: the original's model, a seal's opening, or both
 */
export function compared(study, found, nRows, files = []) {
  const { design, sealed } = study, opened = openedBy(study, files);
  const same = opened.codes ? canonicalJson(opened.codes) === canonicalJson(found.codes) :
    opened.commits(found.fingerprint);
  let known = same ? found.codes : opened.codes;
  if (known === null && same === false && !sealed) known = neighbour(study, found);
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
    reach: study.spreads.map((spread, i) =>
      1.96 * Number(spread) / Math.sqrt(nRows) / Number(design.widths[i])),
    disagreement: disagreement(study, nRows),
    evidence: evidence(study, found.codes),
  };
}

const twoDigits = (number) => counted(Number(number.toPrecision(2)));

/** What a match proves, in a sentence. */
function proofInWords({ bits, rows, rowsSearch }) {
  if (bits < 10) {
    return "A match proves little: a guess without rows hits once in about " +
      `${twoDigits(Math.round(2 ** bits))} tries.`;
  }
  const honest = `A lab needs about ${twoDigits(rows)} rows of its own to get this model`;
  if (rowsSearch === undefined) return `${honest}.`;
  return honest + (rowsSearch < 50 ? "; one that tries 2^40 models needs hardly any." :
    `; one that tries 2^40 models, about ${twoDigits(rowsSearch)}.`);
}

/** Findings for people: columns about which the same is to be said share a sentence. */
export function inSentences(findings) {
  const columns = new Map();
  for (const [column, sentence] of findings) {
    columns.set(sentence, [...(columns.get(sentence) ?? []), column]);
  }
  return [...columns].map(([sentence, names]) => {
    if (names.length > 1) {
      const listed = names.slice(0, 4).map(quoted).join(", ") + (names.length > 4 ? ", ..." : "");
      return `${names.length} columns (${listed}): each ${sentence}.`;
    }
    return names[0] ? `Column ${quoted(names[0])} ${sentence}.` :
      `${sentence[0].toUpperCase()}${sentence.slice(1)}.`;
  });
}

/** Whether rows here vary as the study states: what a match proves rests on that. */
export function spreadFinding(study, spreads, nRows) {
  const ratios = study.spreads.map((stated, i) => Number(stated) / spreads[i]).sort((a, b) => a - b);
  const n = ratios.length, ratio = (ratios[n >> 1] + ratios[(n - 1) >> 1]) / 2;
  if ((ratio > 1 / 3 && ratio < 3) || nRows < 50) return [];
  return [["", `the study states that its numbers vary ${general(ratio, 2)} times as much as they do ` +
    "here, so what a match proves is not known"]];
}

/** The likely reasons why models differ, the likeliest first. */
function reasons(study, found, sentences) {
  const out = sentences.slice(0, 2), { samePopulation: p, differences, nRows } = found;
  if (nRows < study.n_replication && found.disagreement > 0.05) {
    out.push(`${counted(nRows)} rows are few: the study was planned for ` +
      `${counted(study.n_replication)}.`);
  } else if (p === null || p > 0.01) {
    out.push(`Chance alone makes ${percent(found.disagreement)} of such labs differ.`);
  }
  if (p !== null) {
    out.push(["populations", `${p > 0.01 ? "not shown to differ" : "they differ"}, ${pValue(p)}`]);
  }
  for (const { name, cells, standardised } of differences.slice(0, 3)) {
    const n = Math.abs(cells);
    out.push([name, `${counted(n)} cell${n === 1 ? "" : "s"} apart, ${standardised < 0 ? "" : "+"}` +
      `${fixed(standardised, 1)} standard deviations`]);
  }
  if (!differences.length) {
    out.push(`Coefficients nearest to the edge of their cells: ${found.nearest.slice(0, 3).join(", ")}.`);
  }
  return out;
}

/**
 * What Python's `replicate` says: a verdict, items and details. An item is a sentence, or a name and
 * its value.
 */
export function inWords(study, fingerprint, found, findings, worth) {
  const { same, evidence: proof } = found, sentences = inSentences(findings);
  const items = [`Fingerprint ${fingerprint}`];
  let verdict = "The same model: these rows give exactly the original's model.";
  if (same) items.push(proofInWords(proof));
  else if (same === null) {
    verdict = "A model was made; the study does not tell whether it is the original's.";
    items.push("Compare the fingerprint with those of other labs, or pass --opened with the " +
      "original's model.");
  } else {
    verdict = "A different model: these rows do not give the original's model.";
    items.push(...reasons(study, found, sentences));
  }
  const rate = percent(Math.max(1 - found.disagreement, 1e-5));
  const rows = worth.map(({ name, base, ...measure }) => [name, real(measure, base, name)]);
  items.push(["rows here", `${counted(found.nRows)}, planned for ${counted(study.n_replication)}`],
    ["agreement rate", `${rate}, estimated for ${counted(found.nRows)} rows`], ...(same ? rows : []));
  const details = [...sentences.slice(same === false ? 2 : 0),
    ...(same ? [] : ["On the rows of the fit, so a little too good:", ...rows]),
    ["proof in bits", `${real({ value: proof.bits })}, against a guess without rows`],
    ...(proof.bitsSearch === undefined ? [] :
      [["after 2^40 guesses", real({ value: proof.bitsSearch })]])];
  return { verdict, items, details };
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
  .replaceAll('"', "&quot;").replaceAll("'", "&#x27;");
const short = (name, most) =>
  escaped([...name].length <= most ? name : `${[...name].slice(0, most - 1).join("")}…`);

/** The picture "where we landed" of one lab, to the letter as Python draws it, but for its style. */
export function picture({ names, positions, reach }) {
  const far = positions.map(Math.abs), row = 24, left = 230, width = 640, mark = "#0b7fb3";
  const shown = names.map((_, i) => i).sort((a, b) => far[b] - far[a]).slice(0, 30)
    .sort((a, b) => a - b);
  const span = Math.min(1.5, Math.max(0.75, ...far) + 0.1);  // cells to each side that are shown
  const height = row * shown.length + 56, middle = left + (width - left) / 2;
  const cell = (width - left) / (2 * span);
  const dot = (x, y) =>
    `<circle cx="${fixed(x, 1)}" cy="${fixed(y, 1)}" r="4" fill="${mark}"/>`;
  const parts = shown.map((i, line) => {
    const y = 26 + line * row, at = positions[i], level = fixed(y, 1);
    const [low, x, high] = [at - reach[i], at, at + reach[i]].map((one) =>
      middle + cell * Math.max(-span, Math.min(span, one)));
    return `<text x="${left - 12}" y="${y + 4}" text-anchor="end" font-size="12">` +
      `${short(names[i], 32)}</text>` +
      `<rect x="${fixed(middle - cell / 2, 1)}" y="${fixed(y + 2 - row / 2, 1)}" ` +
      `width="${fixed(cell, 1)}" height="${row - 4}" rx="2" fill="currentColor" ` +
      'fill-opacity="0.08" stroke="currentColor" stroke-opacity="0.35"/>' +
      `<line x1="${fixed(low, 1)}" x2="${fixed(high, 1)}" y1="${level}" y2="${level}" ` +
      `stroke="${mark}" stroke-opacity="0.55"/>${dot(x, y)}`;
  });
  parts.push(`${dot(12, height - 20)}<text x="21" y="${height - 16}">this lab</text>`);
  const outside = far.filter((place) => place > 0.5).length;
  const what = outside ? `${outside} ${outside === 1 ? "has" : "have"} a mark outside` :
    "all marks are inside";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" ` +
    `role="img" aria-label="Where labs landed: ${names.length} numbers, ${what}." ` +
    'font-family="system-ui,sans-serif" font-size="13" fill="currentColor">' +
    `${parts.join("")}</svg>`;
}
