// Answers calls of the JavaScript modules: a JSON list of [name, arguments] in, a list of answers out.
import { File } from "node:buffer";
import { openAsBlob, readFileSync } from "node:fs";
import { basename } from "node:path";
import * as exact from "../../src/replearn/reports/web/exact.js";
import { Table } from "../../src/replearn/reports/web/table.js";
import { UNITS } from "../../src/replearn/reports/web/check.js";
import { replication } from "../../src/replearn/reports/web/lab.js";
import { placeboMatches, rowMarks } from "../../src/replearn/reports/web/placebo.js";
import { updated } from "../../src/replearn/reports/web/recalibration.js";
import { readTable, rowsOf as rowsOfTable, scaleOf } from "../../src/replearn/reports/web/replicate.js";

const fileOf = async (path) => new File([await openAsBlob(path)], basename(path));

const columnsOf = (terms) => Array.from({ length: terms[0].length }, (_, j) =>
  Int16Array.from(terms, (row) => row[j]));

const rowsOf = ({ terms, targets, weights, offset }) => ({
  columns: columnsOf(terms),
  targets: Float64Array.from(targets),
  weights: weights && Float64Array.from(weights),
  offset: offset && Float64Array.from(offset),
  nRows: terms.length,
});

function fromCoins({ stream, n_rows: nRows, n_terms: nTerms }) {
  const u = exact.uniforms("vectors", stream, 4 * nRows * nTerms);
  const terms = Array.from({ length: nRows }, (_, i) => Array.from({ length: nTerms }, (_, j) => {
    const [a, b, c, d] = u.subarray(4 * (i * nTerms + j));
    return Math.floor((a + b + c + d - 2) * 7000 + 0.5);
  }));
  const v = exact.uniforms("vectors", `${stream}/targets`, nRows);
  return { terms, targets: terms.map((row, i) => (v[i] * 6 - 3 < row[0] / 4096 ? 1 : 0)) };
}

const calls = {
  canonical: ({ content }) => [exact.canonicalJson(content), exact.fingerprintOf(content)],
  words: ({ seed, stream, row }) => [
    exact.words(seed, stream, 6, row).map(String), [...exact.uniforms(seed, stream, 6, row)]],
  exp: (points) => points.map(exact.exp),
  sigmoid: (points) => points.map(exact.sigmoid),
  log: (points) => points.map(exact.log),
  algebra: ({ matrix, floor, right }) => {
    const lower = exact.cholesky(matrix, floor);
    return [lower.map((row) => [...row]), [...exact.solve(lower, right)]];
  },
  rowMarks: ({ salt, ...rows }) => rowMarks(rowsOf(rows), salt),
  placebo: async ({ study, path, codes }) => {
    const { design } = study, read = await readTable({ design }, await fileOf(path));
    return placeboMatches(study, codes, rowsOfTable(design, read, scaleOf(read)));
  },
  marks: ({ terms }) => [...exact.marks(rowsOf({ terms, targets: [] }))],
  ties: (design) => exact.codesOf(exact.offsetsOf(design, Float64Array.from(design.numbers))),
  encode: ({ bytes, encoding, options, step }) => {
    const table = new Table("the table", encoding, [], options);
    const content = Buffer.from(bytes, "base64"), head = (1 << 20) + 1;
    table.feed(content.subarray(0, head), false);  // the first part is always looked at as a whole
    for (let i = head; i < content.length; i += step) {
      table.feed(content.subarray(i, i + step), false);
    }
    table.feed(new Uint8Array(0), true);
    return {
      columns: table.encoded().map((column) => [...column]),
      counts: table.terms.map(({ missing, odd, clipped }) => [missing, odd, clipped]),
    };
  },
  replicate: async ({ study, path, options }) => {
    const started = process.cpuUsage();
    const found = await replication(study, await fileOf(path), options);
    if (found.refused) return { refused: found.refused, sums: found.sums };
    const { user, system } = process.cpuUsage(started), seconds = (user + system) / 1e6;
    // the peak of this program: maxRSS has that of the process which started it, too
    const [, peak] = readFileSync("/proc/self/status", "utf8").match(/VmHWM:\s+(\d+) kB/);
    return { ...found, seconds, megabytes: Number(peak) / 1024 };
  },
  update: async ({ model, path, options, slope }) => {
    const { design } = model, read = await readTable({ design }, await fileOf(path), options);
    try {
      return updated(model, rowsOfTable(design, read, scaleOf(read)), slope);
    } catch (problem) {
      if (!(problem instanceof exact.Refusal)) throw problem;
      return { refused: problem.message };
    }
  },
  units: () => UNITS,
  table: async ({ csv, loss = { kind: "bernoulli" }, ...given }) => {
    const design = { ...given, loss }, file = new File([csv], "table.csv");
    const read = await readTable({ design }, file), scale = scaleOf(read);
    const { weights } = rowsOfTable(design, read, scale), { terms } = read.table;
    const isNumber = terms.map(({ column }) => column.kind === "number");
    return {
      terms: Array.from(read.targets, (_, i) => read.columns.map((column) => column[i])),
      cells: [terms.map(({ missing }) => missing), terms.map(({ odd }, i) => isNumber[i] ? 0 : odd),
        terms.map(({ odd }, i) => isNumber[i] ? odd : 0), terms.map(({ clipped }) => clipped)],
      targets: [...read.targets],
      scale,
      scaled: [...weights ?? []],
    };
  },
  fit: (vector) => {
    const data = vector.stream ? fromCoins(vector) : vector;
    const rows = rowsOf(data), passes = [];
    const started = performance.now();
    const theta = exact.fit(rows, vector.loss, Number(vector.ridge), (_, size, there, share) => {
      passes.push({ theta: there.map((row) => [...row]), share });
    });
    const seconds = (performance.now() - started) / 1000;
    const first = exact.sumsAt(rows, vector.loss, passes[0].theta, passes[0].share);
    const answer = {
      shares: [...exact.summaryOf(rows, vector.loss).shares],
      gradient: first.gradient.integers().map(String),
      weight: first.weight,
      sampled: first.sampled,
      passes,
      theta: theta.map((row) => [...row]),
      seconds,
    };
    if (!vector.coordinates) return answer;
    const z = exact.coordinatesOf(vector.coordinates, theta);
    const decoded = exact.decoded(vector, vector.codes);
    return {
      ...answer,
      numbers: [...z],
      codes: exact.codesOf(exact.offsetsOf(vector, z)),
      moved: exact.codesOf(exact.offsetsOf(vector, z.map((value) => value + 0.03))),
      decoded: [...decoded],
      coefficients: exact.thetaOf(vector.coordinates, decoded).map((row) => [...row]),
    };
  },
};

const answers = [];
for (const [name, given] of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    answers.push(await calls[name](given));
  } catch (problem) {
    if (!(problem instanceof exact.Refusal)) throw problem;
    answers.push({ refused: problem.message });
  }
}
process.stdout.write(JSON.stringify(answers));
