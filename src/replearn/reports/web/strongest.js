// The strongest column of a model and all the others, of which each must be worth something to a lab.
import { factorsOf, inverted, solved, times, transposed } from "./support.js";
import { INTERVAL } from "./table.js";

const NORMAL_99 = 2.3263478740408408;  // one of 100 lies beyond it, on one side
const NEGLIGIBLE = 0.05;  // of what the whole model seemed worth, a loss that matters to nobody

/** Places of the terms that each column is part of, behind the constant; and the columns of each term. */
function termsOf({ columns, products }) {
  const names = columns.flatMap((column) => Array(column.kind === "number" ?
    1 + column.knots.length + (column.indicator ? 1 : 0) : column.levels.length).fill(column.name));
  const terms = [...names.map((name) => [name]),
    ...products.map(({ first, second }) => [names[first], names[second]])];
  const owned = new Map(columns.map(({ name }) => [name, []]));
  terms.forEach((parts, i) => new Set(parts).forEach((name) => owned.get(name).push(i + 1)));
  return { owned, terms };
}

/** Variance that terms add to scores and that no other term explains, times the information. */
function strengthOf({ scores, columns, scales }, theta) {
  const [factor, triangle] = factorsOf({ scores, columns: scales ? [] : columns });
  const turned = times(transposed(factor), theta.map((row) => row.map((value) => value * 2 ** -26)));
  if (scales) {  // too many terms for a triangle
    return { isKnown: false, of: (places) => turned.reduce((sum, row) =>
      sum + places.reduce((part, j) => part + (row[j] * scales[j]) ** 2, 0), 0) };
  }
  const inverse = inverted(triangle), precision = times(transposed(inverse), inverse);
  return { isKnown: true, of: (places) => {
    const part = places.map((j) => turned.map((row) => row[j]));
    const alone = solved(places.map((i) => places.map((j) => precision[i][j])), part);
    return part.reduce((sum, row, i) => sum + row.reduce((all, value, k) => all + value * alone[i][k], 0), 0);
  } };
}

/**
 * The strongest column, and all others: the model without each, and the loss that is excused, by chance
 * at the original or because it is small. Of a single column nothing.
 */
export function partsOf({ design, spreads, n_original: nOriginal }, theta) {
  const { owned, terms } = termsOf(design.encoding);
  // intervals of time are the baseline, and belong to no part
  const asked = [...owned.keys()].filter((name) => name !== INTERVAL);
  if (design.directions || asked.length < 2) return [];

  const strength = strengthOf(design.coordinates, theta);
  const strengths = asked.map((name) => strength.of(owned.get(name)));
  const name = asked[strengths.indexOf(Math.max(...strengths))];
  const effects = terms.map((_, i) => i + 1).filter((place) => !(owned.get(INTERVAL) ?? []).includes(place));
  const others = effects.filter((place) => terms[place - 1].some((one) => one !== name));

  const squares = spreads.reduce((sum, spread) => sum + Number(spread) ** 2, 0) / spreads.length;
  const variance = squares / nOriginal;
  const seemingGain = (places) => (strength.isKnown ? strength.of(places) / 2 : 0);
  const negligible = NEGLIGIBLE * seemingGain(effects);
  const excusedOf = (gone) => {
    const seeming = seemingGain(gone), chance = theta.length * gone.length * variance;
    const reach = NORMAL_99 * Math.sqrt(2 * seeming * variance + chance * variance);
    return Math.max(chance + reach - seeming, negligible);
  };
  return [[name, `without ${name}`, owned.get(name)], ["the other columns", `${name} alone`, others]]
    .map(([part, alternative, gone]) => ({
      name: part,
      alternative,
      without: theta.map((row) => row.map((value, j) => (gone.includes(j) ? 0 : value))),
      excused: excusedOf(gone),
    }));
}
