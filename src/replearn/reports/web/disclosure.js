// Sums of few rows, which would show single patients and must not leave: the twin of disclosure.py.
import { Refusal, curvature, marks, residual, scoresInto, toMeans } from "./exact.js";
import { INTERVAL } from "./table.js";
import { counted, quoted } from "./words.js";

const LEAST_COUNT = 10, FEW_VALUES = 3, NAMED = 5, LEAST_OF_TERM = 3, NOTHING = 2 ** -24;
const MOST_SHOWN = 0.5;
const ONE = 1 << 12, MAX_ROW = 1 << 14;
const ALL_ROWS = { name: "all rows", holds: () => true };

const equal = (name, column, value) => ({ name, holds: (i) => column[i] === value });
const notZero = (name, column) => ({ name, holds: (i) => column[i] !== 0 });
const both = (a, b) =>
  ({ name: `${a.name} and ${b.name}`, holds: (i) => a.holds(i) && b.holds(i) });

/** Each of few numbers; of many the rows beside one that most rows have. */
function ofNumbers(name, column) {
  const counts = new Map();
  for (const value of column) counts.set(value, (counts.get(value) ?? 0) + 1);
  if (counts.size <= FEW_VALUES) {
    return [...counts.keys()].sort((a, b) => a - b)
      .map((value, i) => equal(`${name}, number ${i + 1}`, column, value));
  }
  const [usual, count] = [...counts].reduce((best, one) => (one[1] > best[1] ? one : best));
  if (2 * count <= column.length) return [];
  return [equal(`${name}, usual`, column, usual),
    { name: `${name}, not usual`, holds: (i) => column[i] !== usual }];
}

/** Numbers within the reach of the study, and those that are not at its centre, too. */
function notClipped(name, column) {
  const isNear = (i) => Math.abs(column[i]) < MAX_ROW;
  return [{ name: `${name}, not clipped`, holds: isNear },
    { name: `${name}, neither clipped nor at the centre`,
      holds: (i) => isNear(i) && column[i] !== 0 }];
}

/** Hats, both ends of the spline, and rows with or without a value. */
function ofSpline({ name, centre, spread, knots, indicator }, terms) {
  const found = knots.map((knot, j) => notZero(`${name} ~ ${knot}`, terms[1 + j]));
  const last = terms[terms.length - 1];
  if (indicator) found.push(notZero(`${name} missing`, last));
  if (knots.length) {
    const unit = (knot) => Math.floor((Number(knot) - Number(centre)) / Number(spread) * 4096 + 0.5);
    const low = unit(knots[0]), high = unit(knots[knots.length - 1]);
    found.push({ name: `${name} < ${knots[0]}`, holds: (i) => terms[0][i] < low });
    found.push({ name: `${name} > ${knots[knots.length - 1]}`, holds: (i) => terms[0][i] > high });
  }
  if (indicator) found.push(equal(`${name} not missing`, last, 0));
  return found;
}

/** All groups of rows that sums over these terms can single out. */
function groupsOf({ columns, products }, terms) {
  const found = [ALL_ROWS], partitions = [], owners = [], names = [];
  columns.forEach((column, place) => {
    const start = names.length;
    const own = column.kind === "number" ?
      [column.name, ...column.knots.map((knot) => `${column.name} ~ ${knot}`),
        ...(column.indicator ? [`${column.name} missing`] : [])] :
      column.levels.map((level) => `${column.name}` +
        (level === "(missing)" ? " missing" : ` = ${level}`));
    names.push(...own);
    owners.push(...own.map(() => place));
    const mine = terms.slice(start, names.length);
    if (column.kind === "number") {
      partitions.push(ofNumbers(column.name, mine[0]));
      found.push(...notClipped(column.name, mine[0]), ...ofSpline(column, mine));
    } else {
      partitions.push([...own.map((name, j) => notZero(name, mine[j])),
        { name: `${column.name} = ${column.reference}`,
          holds: (i) => mine.every((term) => term[i] === 0) }]);
    }
    found.push(...partitions[place]);
  });
  const pairs = new Map(), nTerms = names.length;
  products.forEach(({ first, second }, j) => {
    const pair = [owners[first], owners[second]];
    pairs.set(pair.join(), pair);
    if (pair.some((place) => !partitions[place].length)) {
      found.push(notZero(`${names[first]} x ${names[second]}`, terms[nTerms + j]));
    }
  });
  for (const [first, second] of pairs.values()) {
    for (const a of partitions[first]) for (const b of partitions[second]) found.push(both(a, b));
  }
  return found;
}

/**
 * Stop before sums leave in which a group of rows is there, but small.
 *
 * @param design of the study
 * @param terms encoded columns before they are combined to directions
 * @param rows as a fit takes them
 * @param share rows whose mark is below it make the information matrix
 * @returns how many rows share two groups with few others
 */
export function refuseFewRows(design, terms, rows, share) {
  const { target, classes } = design, { targets, nRows } = rows;
  const groups = groupsOf(design.encoding, terms);
  const ofClass = [ALL_ROWS, ...(classes ?
    classes.map((label, place) => equal(`${target} = ${label}`, targets, place)) :
    ofNumbers(target, targets))];
  const some = share > 0 && share < 2 ** 32 ? (rows.marks ??= marks(rows)) : null;
  const few = [], time = design.encoding.columns.find(({ name }) => name === INTERVAL);
  const names = time ? [...time.levels, time.reference].map((level) => `${INTERVAL} = ${level}`) : [];
  const intervals = groups.filter(({ name }) => names.includes(name));
  for (const group of groups) {
    const total = ofClass.map(() => 0), sampled = ofClass.map(() => 0);
    const atRisk = intervals.map(() => 0);
    for (let i = 0; i < nRows; i++) {
      if (!group.holds(i)) continue;
      intervals.forEach((one, k) => { if (one.holds(i)) atRisk[k]++; });
      ofClass.forEach((one, k) => {
        if (!one.holds(i)) return;
        total[k]++;
        if (some && some[i] < share) sampled[k]++;
      });
    }
    if (atRisk.length) total[0] = Math.max(...atRisk);  // a person has one row in each interval
    const isFew = (count) => count > 0 && count < LEAST_COUNT;
    ofClass.forEach((one, k) => {
      if (isFew(total[k]) || isFew(sampled[k])) {
        few.push(quoted([group.name, one.name].filter((name) => name !== "all rows").join(" and ")));
      }
    });
  }
  if (!few.length) return shownByPairs(groups, nRows, share, some);
  const more = few.length > NAMED ? ` and ${few.length - NAMED} more` : "";
  throw new Refusal(`sums must be of at least ${LEAST_COUNT} rows of each term and class, or of ` +
    `none: those of fewer show single patients. Here are fewer of ` +
    `${few.slice(0, NAMED).join(", ")}${more}. Join these rows with those of a different lab, ask ` +
    "for a study without such terms, or add up in secret shares (guide: Pool small centres).");
}

/** Rows of the matrix that share two groups with few others; refused if they are most. */
function shownByPairs(groups, nRows, share, rowMarks) {
  if (!share) return 0;
  const n = groups.length, together = new Int32Array(n * n), memberships = [];
  for (let i = 0; i < nRows; i++) {
    if (rowMarks && rowMarks[i] >= share) continue;
    const inside = [];
    groups.forEach((group, k) => { if (group.holds(i)) inside.push(k); });
    for (const k of inside) for (const l of inside) together[k * n + l]++;
    memberships.push(inside);
  }

  const isAlone = (inside) =>
    inside.some((k) => inside.some((l) => together[k * n + l] < LEAST_COUNT));
  const nShown = memberships.filter(isAlone).length;
  if (nShown > MOST_SHOWN * memberships.length) {
    throw new Refusal("sums must show at most half of the rows by pairs of terms, but " +
      `${counted(nShown)} of ${counted(memberships.length)} rows share two terms with fewer than ` +
      `${LEAST_COUNT}. Ask for a study with fewer levels and knots, or add up in secret shares ` +
      "(guide: Pool small centres).");
  }
  return nShown;
}

/** Rows of equal weight that a sum is worth, (sum |a|)^2 / sum a^2; infinite if it is nothing. */
class Effective {
  sum = 0;
  squares = 0;

  add(value) {
    const size = Math.abs(value);
    this.sum += size;
    this.squares += size * size;
  }

  get rows() {
    return this.sum > NOTHING ? this.sum * this.sum / this.squares : Infinity;
  }
}

/**
 * Stop before sums leave that hardly more than one row makes, at the coefficients asked for.
 *
 * @param design of the study
 * @param rows as a fit takes them
 * @param newton the coefficients `theta`, and the `sample_threshold` of the information matrix
 */
export function refuseHeavyRows({ loss }, rows, { theta, sample_threshold: share }) {
  const { columns, targets, weights, offset, nRows } = rows, q = theta.length;
  const means = theta.map((row) => {
    const scores = new Float64Array(nRows);
    scoresInto(scores, columns, row, 0, nRows, offset);
    return scores;
  });
  toMeans(loss, means, nRows);

  // without a matrix, curvatures tell how two gradients may differ
  const isSample = share > 0 && share < 2 ** 32;
  const made = () => new Effective(), rowMarks = isSample ? (rows.marks ??= marks(rows)) : null;
  const residuals = theta.map(made), curvatures = [], terms = [];
  for (let k = 0; k < q; k++) {
    for (let i = 0; i < nRows; i++) {
      residuals[k].add(residual(loss, k, means[k][i], targets[i]) * (weights ? weights[i] : 1));
    }
    for (let l = k; l < q; l++) {
      const own = made(), ofTerms = columns.map(made);
      for (let i = 0; i < nRows; i++) {
        if (rowMarks && rowMarks[i] >= share) continue;
        const value = curvature(loss, k, l, means[k][i], means[l][i]) * (weights ? weights[i] : 1);
        own.add(value);
        columns.forEach((column, j) => ofTerms[j].add(value * column[i] / ONE));
      }
      curvatures.push(own);
      terms.push(...ofTerms);
    }
  }

  const isLess = (sums, least) => sums.some((sum) => sum.rows < least);
  const isFlat = curvatures.some(({ sum }) => sum <= NOTHING);
  if (isFlat || isLess(residuals, LEAST_COUNT) || isLess(curvatures, LEAST_COUNT) ||
      isLess(terms, LEAST_OF_TERM)) {
    throw new Refusal(`sums must be of at least ${LEAST_COUNT} rows that weigh about the same, but ` +
      "at these coefficients a few rows outweigh all others, and would be seen. Ask whoever " +
      "combines how the coefficients were found, and take outliers and heavy weights out of the " +
      "table.");
  }
}

/** Few cells that are missing, unknown or clipped are nobody's business, and count as none. */
export const withoutFew = (count) => (count < LEAST_COUNT ? 0 : count);
