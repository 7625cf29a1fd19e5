// Sums of few rows, which would show single patients and must not leave: the twin of disclosure.py.
import { Refusal, marks } from "./exact.js";
import { quoted } from "./words.js";

const LEAST_COUNT = 10, FEW_VALUES = 3, NAMED = 5;
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
      found.push(...ofSpline(column, mine));
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
 */
export function refuseFewRows(design, terms, rows, share) {
  const { target, classes } = design, { targets, nRows } = rows;
  const groups = groupsOf(design.encoding, terms);
  const ofClass = [ALL_ROWS, ...(classes ?
    classes.map((label, place) => equal(`${target} = ${label}`, targets, place)) :
    ofNumbers(target, targets))];
  const some = share > 0 && share < 2 ** 32 ? (rows.marks ??= marks(rows)) : null;
  const few = [];
  for (const group of groups) {
    const total = ofClass.map(() => 0), sampled = ofClass.map(() => 0);
    for (let i = 0; i < nRows; i++) {
      if (!group.holds(i)) continue;
      ofClass.forEach((one, k) => {
        if (!one.holds(i)) return;
        total[k]++;
        if (some && some[i] < share) sampled[k]++;
      });
    }
    const isFew = (count) => count > 0 && count < LEAST_COUNT;
    ofClass.forEach((one, k) => {
      if (isFew(total[k]) || isFew(sampled[k])) {
        few.push(quoted([group.name, one.name].filter((name) => name !== "all rows").join(" and ")));
      }
    });
  }
  if (!few.length) return;
  const more = few.length > NAMED ? ` and ${few.length - NAMED} more` : "";
  throw new Refusal(`sums must be of at least ${LEAST_COUNT} rows of each term and class, or of ` +
    `none: those of fewer show single patients. Here are fewer of ` +
    `${few.slice(0, NAMED).join(", ")}${more}. Join these rows with those of a different lab, ask ` +
    "for a study without such terms, or add up in secret shares (guide: Pool small centres).");
}

/** Few cells that are missing, unknown or clipped are nobody's business, and count as none. */
export const withoutFew = (count) => (count < LEAST_COUNT ? 0 : count);
