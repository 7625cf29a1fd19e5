// What a lab's fit says about the original's model, in the words of Python's `replicate`.
import {
  Refusal, canonicalJson, contentOf, fingerprintOf, marks, nScores, sealOf,
} from "./exact.js";
import { deniedSpreads, evidence, statesTooMuch } from "./evidence.js";
import { placeboMatches } from "./placebo.js";
import { updated } from "./recalibration.js";
import { disagreement, isAgreed, isConstant } from "./stability.js";
import { INTERVAL } from "./table.js";
import {
  counted, fixed, general, numbersInWords, pCell, pValue, percent, quoted, ratioInWords, real, termNames,
} from "./words.js";
import { UNLIKELY, supportOf } from "./worth.js";

const MOVED = 24;  // numbers next to a wall that are moved to look for the original's model
const LEAST_ROWS = 50;
const MOST_COMPARED = 1 << 14;  // rows that are compared with each other, about
const MANY_COPIES = 0.1;  // rows that occur again, where chance does not explain them
const MOST_NAMED = 3;  // columns that a verdict names

/** Names of the coded numbers. */
function namesOf({ encoding, directions, loss, classes }) {
  const terms = ["(constant)", ...(directions ?
    directions.map((_, i) => `direction ${i + 1}`) : termNames(encoding))];
  if (nScores(loss) === 1) return terms;
  return classes.slice(1).flatMap((label) => terms.map((term) => `${term}, ${label}`));
}

const byWall = (places) => places.map((_, i) => i)
  .sort((a, b) => Math.abs(Math.abs(places[a]) - 0.5) - Math.abs(Math.abs(places[b]) - 0.5) || a - b);

const modelPrint = ({ design }, codes) =>
  fingerprintOf({ format: "replearn/model", version: 1, design, codes });

/** The original's codes, if one or two numbers next to a wall make the difference. */
function neighbour(study, { codes, places }) {
  const near = byWall(places).filter((i) => isAgreed(study.design, i)).slice(0, MOVED);
  const tries = near.map((i) => [i]);
  for (let a = 0; a < Math.min(8, near.length); a++) {
    for (let b = a + 1; b < Math.min(8, near.length); b++) tries.push([near[a], near[b]]);
  }
  for (const moved of tries) {
    const tried = codes.map((code, i) =>
      moved.includes(i) ? code + (places[i] > 0 ? 1 : -1) : code);
    if (modelPrint(study, tried) === study.commitment) return tried;
  }
  return null;
}

/** The original's codes, if only its constants differ: the nearest ones that it commits to. */
function withOtherConstants({ design }, codes, commits) {
  const q = nScores(design.loss), reach = { 1: 200, 2: 8, 3: 3 }[q] ?? 1;
  const steps = [0];
  for (let step = 1; step <= reach; step++) steps.push(-step, step);
  let moves = [[]];
  for (let k = 0; k < Math.min(q, 6); k++) {
    moves = moves.flatMap((move) => steps.map((step) => [...move, step]));
  }
  const length = (move) => move.reduce((sum, step) => sum + Math.abs(step), 0);
  const p = codes.length / q;
  for (const move of moves.sort((a, b) => length(a) - length(b))) {
    const tried = codes.map((code, i) => code + (i % p === 0 ? move[i / p] ?? 0 : 0));
    if (commits(modelPrint({ design }, tried))) return tried;
  }
  return null;
}

/** The model and the nonce of files that open a study. */
function openedBy(study, files) {
  const { design, commitment, sealed } = study;
  let nonce = null, codes = null;
  const told = (promised) => (fingerprint) => !promised || (sealed && nonce === null) ? null :
    promised === (sealed ? sealOf(nonce, fingerprint) : fingerprint);
  const commits = told(commitment), commitsToSlopes = told(study.slopes_commitment);
  for (const file of files) {
    if (file.format !== "replearn/opening") continue;
    if (contentOf(file).study !== fingerprintOf(contentOf(study))) {
      throw new Refusal("the file opens a different study. Ask the original for this.");
    }
    ({ nonce } = file);
    // a wrong nonce would call every model a different one
    if (commits(file.model) === false) {
      throw new Refusal("the opening must hold the nonce and the model that the study commits " +
        "to, got others. Ask the original for its opening.");
    }
  }
  for (const file of files) {
    if (file.format === "replearn/opening") continue;
    const model = contentOf(file, "replearn/model", "the opened model");
    if (sealed && nonce === null) {
      throw new Refusal("a sealed study needs its opening, which proves that the model is the " +
        "original's, got a model alone. Open a.opening.json too.");
    }
    if (canonicalJson(model.design) !== canonicalJson(design) ||
        commits(fingerprintOf(model)) === false) {
      throw new Refusal("the opened model must be the one that the study commits to, got a " +
        "different one. Ask the original for its model file.");
    }
    ({ codes } = model);
  }
  return { commits, commitsToSlopes, codes };
}

/** Whether a lab's model is the original's, or is but for the constants, and that one if known. */
function agreementOf(study, found, files) {
  const { design, sealed } = study, opened = openedBy(study, files);
  const slopesOf = (codes) => codes.map((code, i) => (isConstant(design, i) ? 0 : code));
  const isEqual = (a, b) => canonicalJson(a) === canonicalJson(b);
  if (opened.codes) {
    return { known: opened.codes, same: isEqual(opened.codes, found.codes),
      sameSlopes: isEqual(slopesOf(opened.codes), slopesOf(found.codes)) };
  }
  const same = opened.commits(found.fingerprint);
  const sameSlopes = opened.commitsToSlopes(modelPrint(study, slopesOf(found.codes)));
  let known = same ? found.codes : null;
  if (!same && sameSlopes) known = withOtherConstants(study, found.codes, opened.commits);
  else if (same === false && !sealed) known = neighbour(study, found);
  return { known, same, sameSlopes };
}

const DENIED = ["factor", "columns"];  // rungs on which patients contradict more than the base risk

/** Agreement and support in one word. */
function verdictOf({ same, sameSlopes, support, lookFirst, isSmall }) {
  if (same === null) return "untold";
  if (same) {
    const isBetter = support.gain.low > 0;
    if (support.worseThan || DENIED.includes(support.rung)) return "contradicted";
    if (lookFirst.length) return "questioned";
    if (!isBetter && !isSmall) return "unsupported";
    if (support.rung === "slopes") return "same slopes";
    return isBetter ? "confirmed" : "undecided";
  }
  const isDenied = !support || support.test.pSlopes < UNLIKELY || support.worseThan !== "";
  return sameSlopes && !isDenied ? "same slopes" : "different";
}

/**
 * @param study the content of a study file
 * @param found what `fitted` gives
 * @param rows of this lab
 * @param files what opens the study: the original's model, a seal's opening, or both
 * @param findings about this lab's columns
 * @param people of a survival study
 */
export function compared(study, found, rows, files = [], findings = [], people = null) {
  const lookFirst = findings.filter(([, , first]) => first).map(([column]) => column);
  const { design } = study, { nRows } = rows, { known, same, sameSlopes } = agreementOf(study, found, files);
  const names = namesOf(design), support = known && supportOf(study, known, rows, found.theta);
  const positions = found.places.map((place, i) => place + (known ? found.codes[i] - known[i] : 0));
  const apart = names.map((_, i) => i).filter((i) => known && found.codes[i] !== known[i])
    .sort((a, b) => Math.abs(positions[b]) - Math.abs(positions[a]));
  const agreed = (_, i) => isAgreed(design, i);  // constants of a lab's own are in no cell
  return {
    known,
    same,
    sameSlopes,
    lookFirst,
    word: verdictOf({ same, sameSlopes, support, lookFirst, isSmall: nRows < study.n_replication }),
    nRows,
    people,
    size: sizeOf({ nRows, people }),
    names: names.filter(agreed),
    support,
    apart: apart.map((i) => names[i]),
    nearest: byWall(found.places).filter((i) => isAgreed(design, i)).slice(0, 5).map((i) => names[i]),
    positions: positions.filter(agreed),
    reach: study.spreads.map((spread, i) =>
      1.96 * Number(spread) / Math.sqrt(nRows) / Number(design.widths[i])).filter(agreed),
    disagreement: disagreement(study, nRows),
    atNewCentre: disagreement(study, nRows, true),
    evidence: proofOf(study, found.codes, rows, support, same),
  };
}

const twoDigits = (number) => counted(Number(number.toPrecision(2)));
const guessesInWords = ({ bits }) => bits < 30 ? twoDigits(2 ** bits) : `2^${fixed(bits, 0)}`;

/** What a match proves; nothing if labels have no part in it. */
function proofOf(study, codes, rows, support, same) {
  const proof = evidence(study, codes, support ? support.test.spreads : null);
  const placebo = same === true && !proof.isWeak && placeboMatches(study, codes, rows);
  return { ...proof, placebo, isWeak: proof.isWeak || placebo };
}

/** The same in a sentence. */
function proofInWords(proof) {
  if (proof.placebo) {
    return "A match is no evidence: your rows give this model with permuted labels, too. " +
      "Whatever the outcomes are, a lab matches.";
  }
  if (proof.isWeak) {
    const guesses = guessesInWords(proof);
    const tries = guesses === "1" ? "at the first guess" : `in about ${guesses} guesses`;
    return `A match is no evidence: the study gives the model away ${tries}.`;
  }
  return `Guessing this model from the study file takes about ${guessesInWords(proof)} tries; ` +
    `fitting it takes about ${twoDigits(proof.rows)} patients.`;
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
  if (!spreads || nRows < LEAST_ROWS) return [];
  const odd = deniedSpreads(study, spreads).filter((denied) => denied).length, n = spreads.length;
  const isFine = 2 * odd <= n && !statesTooMuch(study, spreads);
  return isFine ? [] : [["", `the spreads of ${odd} of ${n} coefficients are not what the ` +
    "study states; these count nothing in what a match proves", false]];
}

/** Whether the table holds rows twice, or three times; rows of few kinds are alike by nature. */
export function copiesFinding(rows) {
  if (rows.nRows < LEAST_ROWS) return [];
  const share = MOST_COMPARED * 2 ** 32 / rows.nRows, upper = marks(rows), lower = marks(rows, 2);
  const copies = new Map();
  for (let i = 0; i < rows.nRows; i++) {
    if (upper[i] >= share) continue;
    const held = [rows.targets, rows.weights, rows.offset].map((values) => values && values[i]);
    const key = [upper[i], lower[i], ...held].join("/");
    copies.set(key, (copies.get(key) ?? 0) + 1);
  }
  const copied = copiedShare([...copies.values()]);
  if (!copied) return [];
  const howMany = copied === 1 ? "every row occurs at least twice" : `${percent(copied)} of the rows occur again`;
  return [["", `${howMany}: does the table hold copies? Leave them out, because tests and standard errors ` +
    "count them as patients", false]];
}

/** Share of rows that are copies, from how often each kind occurs: Python's `copied_share`. */
function copiedShare(counts) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (counts.length < Math.floor(LEAST_ROWS / 3)) return 0;
  if (counts.every((count) => count >= 2) && total <= 3 * counts.length) return 1;
  const share = 1 - counts.length / total, nMore = counts.filter((count) => count > 2).length;
  const nByChance = 2 / 3 * share * counts.filter((count) => count === 2).length;
  return share >= MANY_COPIES && nByChance >= 8 && 8 * nMore <= nByChance ? share : 0;
}

const culpritsOf = ({ columns }) =>
  [...new Set(columns.filter(({ p }) => p < UNLIKELY).map(({ column }) => column))].slice(0, 3).join(", ");

/** Why patients contradict a model. */
function whyContradicted(support) {
  if (support.worseThan && !DENIED.includes(support.rung)) return `it is worse than ${support.worseThan}`;
  let culprits = culpritsOf(support);
  if (!culprits && support.rung === "slopes") culprits = "the base risk";
  return pValue(Math.min(support.p, support.test.pSlopes)) + (culprits ? `: ${culprits}` : "");
}

/** What differs and how. */
function baseRiskInWords({ ratio }) {
  if (!ratio) return ["constants", "differ here"];
  const isHigh = ratio.value >= 1, times = isHigh ? ratio.value : 1 / Math.max(ratio.value, 1e-12);
  return ["base risk", `is ${general(times, 2)} times as ${isHigh ? "high" : "low"} here`];
}

/** Columns to look at first. */
function listedColumns(columns) {
  const which = columns.length === 1 ? "this column" : "these columns";
  const more = columns.length > MOST_NAMED ? `, and ${columns.length - MOST_NAMED} more` : "";
  return `${which} first: ${columns.slice(0, MOST_NAMED).join(", ")}${more}`;
}

/** How many rows, or persons, this lab has. */
const sizeOf = ({ nRows, people }) => people ? `${counted(people.here)} persons` : `${counted(nRows)} rows`;

/** The verdict, as people say it. */
function sentenceOf({ design }, { word, support, size, lookFirst, same: isSame }) {
  const [same, it, beats] = design.constant ?
    ["The same slopes, with your own constant", "them", "they beat"] :
    ["The same model", "it", "it beats"];
  return {
    confirmed: () => `${same}, and your patients support ${it}.`,
    questioned: () => `${same}, but look at ${listedColumns(lookFirst)}.`,
    unsupported: () => `${same}, but your ${size} do not show that ${beats} your base rate.`,
    undecided: () => `${same}; your ${size} are too few to show whether ${beats} ` +
      "your base rate.",
    contradicted: () => `${same}, but your patients contradict ${it} (${whyContradicted(support)}).`,
    "same slopes": () => {
      const [what, differs] = baseRiskInWords(support);
      return isSame ? `The same model, but the ${what} ${differs}.` :
        `The same model but for the ${what}, which ${differs}.`;
    },
    untold: () => "A model was made; the study does not tell whether it is the original's." +
      (lookFirst.length ? ` Look at ${listedColumns(lookFirst)}.` : ""),
    different: () => "A different model: these rows do not give the original's model. Do not use this.",
  }[word]();
}

/** How far the original's model holds here. */
const rungInWords = (support) => support.rung === "model" && support.worseThan ?
  `The original's model predicts worse here than ${support.worseThan}.` : ({
  model: "Your patients do not contradict the original's model: chance may be the reason.",
  slopes: "Your patients have the original's slopes and a different base risk.",
  factor: "Your patients have the original's slopes up to one factor.",
  columns: `Your patients contradict these columns: ${culpritsOf(support) || "several"}.`,
}[support.rung]);

/** Whether the rung is the last one, which says which columns differ. */
const namesColumns = (support) => culpritsOf(support) !== "" && support.rung === "columns";

const MISCALIBRATED = 1.1;  // observed to expected events beyond it, or below its inverse, are told
// what to do next, from the rung that was reached
const UPDATE_CONSTANT = "Next: replearn update MODEL TABLE --constant fits the base risk here.";
const UPDATE_SLOPE = "Next: replearn update MODEL TABLE --slope fits base risk and one factor.";
const EVALUATE = "Next: replearn evaluate MODEL TABLE says how well the model predicts here.";
const ASK_ORIGINAL = "Next: ask the original for its model, and pass it with --opened.";
const PUBLISH = "Next: replearn publish makes a study of your own rows.";
const RECODE = "Next: give these columns as the study has them, or say why they differ.";

/** What to do where agreement holds but the base risk here is a different one. */
function miscalibrated({ ratio }) {
  if (!ratio || (ratio.low <= MISCALIBRATED && ratio.high >= 1 / MISCALIBRATED)) return [];
  return [`Events are ${general(ratio.value, 2)} times as many as the model says: replearn update ` +
    "--constant."];
}

/** The command that suits the rung: the smallest change that is enough. */
function nextCommand({ rung, worseThan }) {
  if (worseThan) return PUBLISH;
  return { model: EVALUATE, slopes: UPDATE_CONSTANT, factor: UPDATE_SLOPE, columns: PUBLISH }[rung];
}

/** What differs, by how much, and what to do. */
function nextSteps(study, reached) {
  const { word, support, lookFirst, nRows, people, size, disagreement: rate, apart, nearest } = reached;
  if (word === "untold") {
    return ["Compare the fingerprint with those of other labs, or pass --opened with the " +
      "original's model; of a sealed study with its opening."];
  }
  if (word === "same slopes" && !lookFirst.length) return [UPDATE_CONSTANT];
  if (word === "contradicted" || word === "unsupported") return [nextCommand(support)];
  // whoever updated first would fit the wrong columns
  if (word === "questioned" || word === "same slopes") return [RECODE];
  if (word !== "different") return support ? miscalibrated(support) : [];
  const found = [];
  if (nRows < study.n_replication && rate > 0.05) {
    let planned = counted(study.n_replication);
    if (people) planned = people.planned === null ? `${planned} rows at risk` : `about ${counted(people.planned)}`;
    found.push(`${size} are few: the study was planned for ${planned}.`);
  }
  if (support) found.push(rungInWords(support));
  if (apart.length && !(support && namesColumns(support))) {
    found.push(`Coefficients that differ: ${apart.slice(0, 3).join(", ")}.`);
  }
  if (nearest.length && !support) {
    found.push(`Coefficients nearest to the edge of their cells: ${nearest.slice(0, 3).join(", ")}.`);
  }
  found.push(support ? nextCommand(support) : ASK_ORIGINAL);
  return found;
}

/**
 * A model file that a lab may use where the original's alone does not fit: its slopes, with a base risk
 * of these rows and, where slopes differ by a factor, that factor. Null where neither is enough.
 */
export function updateOf({ design }, { known, word, support }, rows) {
  if (!known || !support || !["same slopes", "contradicted", "different"].includes(word)) return null;
  const next = nextCommand(support), withSlope = next === UPDATE_SLOPE;
  if (next !== UPDATE_CONSTANT && !withSlope) return null;
  const parent = { format: "replearn/model", version: 1, design, codes: known };
  const file = updated(parent, rows, withSlope), { factor } = JSON.parse(file).recalibration;
  const slopes = withSlope ? `the original's slopes times ${factor}` : "the original's slopes";
  return { file, words: `You may use this: ${slopes}, with the base risk of your patients.` };
}

/** A table for people: numbers of a column have one precision. */
function tableOf(title, header, rows) {
  const columns = header.map((_, i) => {
    const cells = rows.map((row) => row[i]);
    if (cells.some((cell) => typeof cell === "string")) return cells;
    return numbersInWords(cells).map((text, at) => (cells[at] === null ? "" : text));
  });
  return { title, header, rows: rows.map((_, at) => columns.map((column) => column[at])) };
}

const rowOf = (name, measure, note) => [name, `${real(measure)}, ${note}`];

function performanceItems({ measure, base, model, own, ratio, line, p, pOnePopulation }) {
  const hasAuc = model.auc !== null; // two classes are ranked, too
  const header = ["model", measure, "AUC"].slice(0, hasAuc ? 3 : 2);
  const rows = [["base rate here", base, null], ["the original's model", model.loss, model.auc],
    ["own fit, rows it saw", own.loss, own.auc]];
  const found = [tableOf("Performance on these rows", header,
    rows.map((row) => row.slice(0, header.length)))];
  if (ratio) found.push(rowOf("observed to expected", ratio, "1 is perfect"));
  if (line) found.push(rowOf("calibration slope", line.slope, "1 is perfect"));
  // rows that only differences between centres excuse
  if (pOnePopulation < UNLIKELY && p >= UNLIKELY) {
    const alone = `${pValue(pOnePopulation)} if centres did not differ`;
    found.push(["differs as centres do", `${pValue(p)}; ${alone}`]);
  }
  return found;
}

const STEPS = ["model", "own", "low", "high"];

function supportDetails({ test, p: pAll, pOnePopulation, gain, parts, line, columns, scale }) {
  const found = [["patients fit the model", pValue(pAll)],
    ["if centres did not differ", pValue(pOnePopulation)],
    ["base risk alone", pValue(test.pConstants)],
    ["slopes alone", pValue(test.pSlopes)], ["slopes up to a factor", pValue(test.pFactor)],
    rowOf("gain over the base rate", gain, "constant fitted here"),
    ...parts.map((part) => rowOf(`gain of ${part.name}`, part.gain, "beside the rest"))];
  if (line) found.push(rowOf("calibration in the large", line.inTheLarge, "0 is perfect"));
  // intervals of time are the baseline, and shown where they contradict it
  const shown = columns.filter(({ name, p }) => p < UNLIKELY || !name.startsWith(`${INTERVAL} = `));
  found.push(tableOf(`The model, and one step towards your patients (${scale})`,
    ["column", "model", "step", "from", "to", "p"],
    shown.map(({ name, p, ...numbers }) => [name, ...STEPS.map((key) => scale.endsWith("ratio") ?
      ratioInWords(numbers[key], 4) : numbers[key]), pCell(p)])));
  return found;
}

/** Persons of a survival study, each of whom has a row for each interval at risk. */
function peopleInWords({ here, events, planned }) {
  const note = planned === null ? "" : `; planned for about ${counted(planned)}`;
  return ["persons here", `${counted(here)}, ${counted(events)} events${note}`];
}

/** Questions about columns that stand beside a verdict. */
const MOST_TOLD = 6;

/**
 * What Python's `replicate` says: a verdict, questions, items and details. An item is a sentence, a name and its
 * value, or a table.
 */
export function inWords(study, fingerprint, found, findings) {
  const { support, word, nRows, people, size } = found, sentences = inSentences(findings);
  const items = nextSteps(study, found);
  if (found.same !== false) items.push(`Fingerprint ${fingerprint}`);
  if (found.same) items.push(proofInWords(found.evidence));
  if (support) items.push(...performanceItems(support));
  items.push(people ? peopleInWords(people) :
    ["rows here", `${counted(nRows)}, planned for ${counted(study.n_replication)}`]);
  const rates = [["a sample of the original's patients", found.disagreement],
    ["a new centre", found.atNewCentre]];
  const details = [...sentences.slice(MOST_TOLD), ...(support ? supportDetails(support) : []),
    ...rates.map(([name, rate]) => [`agreement, ${name}`,
      `${percent(Math.max(1 - rate, 1e-5))}, estimated for ${size}`]),
    ["guesses that find the model", `${guessesInWords(found.evidence)}, from the study alone`]];
  return { verdict: sentenceOf(study, found), told: sentences.slice(0, MOST_TOLD), items, details };
}
