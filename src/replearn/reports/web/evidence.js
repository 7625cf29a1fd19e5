// What a match proves: guesses that find the model from the study alone, as Python's
// study/evidence.py counts them, and rows that match half of the time. For reading, not for codes.
import { decoded, offsetsOf } from "./exact.js";
import { erfc, isConstant, rowsToMatch } from "./stability.js";

const LEAST_BITS = 20, MOST_RUN = 1 << 14, MOST_COUNTED = 256, MOST_BITS = 1000, MOST_SPREAD = 3;

/** Logarithm of the standard normal distribution function. */
function logNormal(x) {
  if (x > -8) return x > 0 ? Math.log1p(-erfc(x / Math.SQRT2) / 2) : Math.log(erfc(-x / Math.SQRT2) / 2);
  let rest = 0;
  for (let n = 60; n > 0; n--) rest = n / (-x + rest);
  return -x * x / 2 - Math.log(2 * Math.PI) / 2 - Math.log(-x + rest);
}

/** What cells cost beyond the likeliest one, in nats, cheapest first; and the true one's place. */
function cellCosts(width, offset, number) {
  const nearest = Math.round(offset), trueCode = Math.round(number / width + offset);
  const wanted = Math.max(Math.abs(trueCode - nearest) + 2, Math.ceil(6 / width) + 1);
  const reach = Math.min(wanted, 4096);
  const cells = Array.from({ length: 2 * reach + 1 }, (_, i) => {
    const code = nearest - reach + i, end = Math.abs((code - offset) * width);
    const upper = logNormal(width / 2 - end), lower = logNormal(-end - width / 2);
    return { code, cost: -(upper + Math.log1p(-Math.exp(Math.min(lower - upper, -1e-16)))) };
  });
  cells.sort((a, b) => a.cost - b.cost);
  const least = cells[0].cost;
  return { costs: cells.map(({ cost }) => cost - least),
    place: cells.findIndex(({ code }) => code === trueCode) };
}

/** How many code vectors are at least as likely as the true one, from a histogram of costs. */
function countCheaper(ladders) {
  const budget = ladders.reduce((sum, { costs, place }) => sum + costs[place], 0);
  const step = Math.max(budget / 2048, 1e-6), nBins = Math.floor(budget / step) + 1;
  let counts = new Float64Array(nBins), logScale = 0;
  counts[0] = 1;
  for (const { costs } of ladders) {
    const bins = new Map(), next = new Float64Array(nBins);
    for (const cost of costs) {
      const bin = Math.floor(cost / step);
      if (cost <= budget) bins.set(bin, (bins.get(bin) ?? 0) + 1);
    }
    for (const [bin, n] of bins) {
      for (let i = bin; i < nBins; i++) next[i] += n * counts[i - bin];
    }
    const top = next.reduce((most, value) => Math.max(most, value), 0);
    counts = next.map((value) => value / top);
    logScale += Math.log(top);
  }
  const logCount = logScale + Math.log(counts.reduce((sum, value) => sum + value, 0));
  return Math.exp(Math.min(logCount, MOST_BITS * Math.LN2));
}

/** The order of Python's tuples: the cost, then the raised ladders. */
function isBefore(a, b) {
  if (a.cost !== b.cost) return a.cost < b.cost;
  const first = a.raised.flat(), second = b.raised.flat();
  for (let i = 0; i < Math.min(first.length, second.length); i++) {
    if (first[i] !== second[i]) return first[i] < second[i];
  }
  return first.length < second.length;
}

function push(heap, item) {
  let at = heap.push(item) - 1;
  for (let above; at > 0 && isBefore(item, heap[above = (at - 1) >> 1]); at = above) {
    heap[at] = heap[above];
  }
  heap[at] = item;
}

function pop(heap) {
  const [top] = heap, last = heap.pop();
  if (!heap.length) return top;
  let at = 0;
  for (let below; (below = 2 * at + 1) < heap.length; at = below) {
    if (below + 1 < heap.length && isBefore(heap[below + 1], heap[below])) below++;
    if (!isBefore(heap[below], last)) break;
    heap[at] = heap[below];
  }
  heap[at] = last;
  return top;
}

/** Guesses until the true code vector, by best-first search; each vector is reached once. */
function search(ladders) {
  const chosen = ladders.filter(({ costs }) => costs.length > 1)
    .sort((a, b) => a.costs[1] - b.costs[1]);
  const steps = chosen.map(({ costs }) => costs);
  const trueOnes = JSON.stringify(chosen.map(({ place }, k) => [k, place]).filter(([, at]) => at));
  const heap = [{ cost: 0, raised: [] }];
  let nGuesses = 0;
  while (heap.length) {
    const { cost, raised } = pop(heap);
    nGuesses++;
    if (JSON.stringify(raised) === trueOnes || nGuesses >= 4 * MOST_RUN) return nGuesses;
    const [last, rank] = raised.at(-1) ?? [-1, 0], before = raised.slice(0, -1);
    if (raised.length && rank + 1 < steps[last].length) {
      push(heap, { cost: cost - steps[last][rank] + steps[last][rank + 1],
        raised: [...before, [last, rank + 1]] });
    }
    if (last + 1 < steps.length) {
      const next = steps[last + 1][1];
      push(heap, { cost: cost + next, raised: [...raised, [last + 1, 1]] });
      if (rank === 1) {
        push(heap, { cost: cost - steps[last][1] + next, raised: [...before, [last + 1, 1]] });
      }
    }
  }
  return nGuesses;
}

/** Guesses that find a model from its study alone, as a power of two. */
function guessBits(cells) {
  const scale = Math.sqrt(cells.reduce((sum, { number }) => sum + number ** 2, 0) / cells.length);
  if (!(scale > 0)) return 0;
  const ladders = [...cells].sort((a, b) => a.width - b.width).slice(0, MOST_COUNTED)
    .map(({ width, offset, number }) => cellCosts(width / scale, offset, number / scale));
  const counted = countCheaper(ladders);
  return counted <= MOST_RUN ? Math.log2(search(ladders)) : Math.min(Math.log2(counted), MOST_BITS);
}

/** What a study states of its numbers' spreads, in those of a lab's rows. */
const spreadRatios = (study, spreads) =>
  study.spreads.map((stated, i) => Number(stated) / Math.max(spreads[i], 1e-30));

/** Numbers whose spread, as the study states it, the rows of a lab deny. */
export const deniedSpreads = (study, spreads) => spreadRatios(study, spreads)
  .map((ratio) => !(ratio >= 1 / MOST_SPREAD && ratio <= MOST_SPREAD));

/** Whether a number has less spread here than stated: wide cells for a few are enough to forge. */
export const statesTooMuch = (study, spreads) =>
  spreadRatios(study, spreads).some((ratio) => ratio > MOST_SPREAD);

/**
 * What it proves that somebody gets these codes; `spreads` are those of the lab's own rows, and
 * numbers whose spread they deny count nothing.
 */
export function evidence(study, codes, spreads = null) {
  const { design } = study, z = decoded(design, codes);
  const offsets = offsetsOf(design, new Float64Array(codes.length));
  const denied = spreads && deniedSpreads(study, spreads);
  const cells = codes.map((_, i) =>
    ({ width: Number(design.widths[i]), offset: offsets[i], number: z[i] }))
    .filter((_, i) => !isConstant(design, i) && !denied?.[i]);  // the base rate gives constants away
  const most = study.n_centres > 1 ? cells.length : MOST_BITS;  // learned widths leave the signs
  const bits = Math.min(guessBits(cells), most);
  return { rows: rowsToMatch(study, spreads), bits, isWeak: bits < LEAST_BITS };
}
