// What a lab's outcomes are: labels, numbers, or times to an event.
import { Refusal, log } from "./exact.js";
import { levelText, textNumber } from "./table.js";
import { counted, general, quoted } from "./words.js";

const labelText = (label) => String(label);

/** The place of each row's label among the classes. */
export class Labels {
  constructor(classes) {
    this.classes = classes;
    this.places = new Map(classes.map((label, place) => [labelText(label), place]));
    const yesNo = { 0: "false", 1: "true", false: "0", true: "1" };
    const texts = [...this.places.keys()].sort().join();
    if (texts === "0,1" || texts === "false,true") {
      for (const [text, place] of [...this.places]) this.places.set(yesNo[text], place);
    }
    this.values = [];
    this.missing = 0;
    this.odd = new Map();
  }

  cell(text) {
    if (text === null) this.missing++;
    const level = text === null ? "" : levelText(text);
    const place = this.places.get(level);
    if (place === undefined) this.odd.set(level, (this.odd.get(level) ?? 0) + 1);
    this.values.push(place);
  }

  finished() {
    const n = this.values.length;
    if (this.missing) {
      throw new Refusal(`the target must hold a label in every row, got ${counted(this.missing)} ` +
        `missing labels (NaN) in ${counted(n)} rows. Fill in or leave out such rows.`);
    }
    if (this.odd.size) {
      const total = [...this.odd.values()].reduce((sum, count) => sum + count, 0);
      const shown = [...this.odd].filter(([, count]) => count >= 10)
        .sort(([, a], [, b]) => b - a).slice(0, 4).map(([text]) => quoted(text));
      const wanted = this.classes.slice(0, 6)
        .map((label) => (typeof label === "string" ? quoted(label) : label)).join(", ");
      throw new Refusal(`the target must hold the labels of the study, ${wanted}, got others in ` +
        `${counted(total)} of ${counted(n)} rows${shown.length ? `: ${shown.join(", ")}` : ""}. ` +
        "Recode them as the study has them.");
    }
    return Float64Array.from(this.values);
  }
}

/** Numbers of a column, one in every row. */
export class Numbers {
  constructor(place, least = -Infinity) {
    Object.assign(this, { place, least, values: [], missing: 0, odd: 0 });
  }

  cell(text) {
    const value = text === null ? null : textNumber(text);
    if (text === null) this.missing++;
    else if (value === null) this.odd++;
    this.values.push(value ?? 0);
  }

  number(value) {
    this.values.push(value);
  }

  finished() {
    const { place, values, missing, odd, least } = this, n = counted(values.length);
    if (odd || missing) {
      const what = odd ? `${counted(odd)} texts` : `${counted(missing)} missing values (NaN)`;
      const remedy = odd && place === "the event" ?
        "Write 1 where it was seen and 0 where the time is censored." : "Fill in or leave out such rows.";
      throw new Refusal(`${place} must hold a number in every row, got ${what} in ${n} rows. ${remedy}`);
    }
    const below = values.filter((value) => value < least).length;
    if (below) {
      throw new Refusal(`${place} must hold numbers of at least ${least}, got smaller ones in ` +
        `${counted(below)} of ${n} rows. Check the column.`);
    }
    return Float64Array.from(values);
  }
}

/** What intervals of time are called. */
export const intervalNames = (cuts) =>
  ["0", ...cuts].map((start, k) => (k < cuts.length ? `${start} to ${cuts[k]}` : `after ${start}`));

/** Times to an event as rows at risk: one for each interval in which a person was under observation. */
export class RowsAtRisk {
  constructor({ time, event, cuts }) {
    this.times = new Numbers("the time");
    this.events = new Numbers("the event");
    this.roles = [[time, this.times], [event, this.events]];
    this.names = intervalNames(cuts);
    this.starts = [0, ...cuts.map(Number)];
    this.targets = [];
    this.offset = [];
  }

  /** The rows of the person who was read last. */
  begin() {
    this.time = this.times.values.at(-1);
    this.last = this.starts.filter((start) => start < this.time).length - 1;
    return this.last + 1;
  }

  /** The name of the interval of one of these rows. */
  row(k) {
    const end = this.starts[k + 1] ?? Infinity;
    this.offset.push(log(Math.min(this.time, end) - this.starts[k]));
    // an event belongs to the last interval of its person
    this.targets.push(k === this.last ? this.events.values.at(-1) : 0);
    return this.names[k];
  }

  finished() {
    const early = this.times.finished().filter((time) => !(time > 0)).length;
    if (early) {
      throw new Refusal(`the time must be positive in every row, got ${counted(early)} rows with 0 ` +
        "or less. Leave them out, or add half of the smallest unit.");
    }
    const distinct = [...new Set(this.events.finished())].sort((a, b) => a - b);
    if (!distinct.every((value) => value === 0 || value === 1)) {
      const shown = distinct.slice(0, 5).map((value) => general(value, 6)).join(", ");
      const remedy = distinct.length > 2 ?
        "Competing events (a death from something else) are no censoring: they need a model for each, " +
          "which a study does not have. Count all of them as the event, or study one outcome at a " +
          "fixed time with a logistic model." :
        "Recode it so, such as 1 and 2 of R's tables as 0 and 1.";
      throw new Refusal("the event must be 1 where it was seen and 0 where the time is censored, got " +
        `${shown}. ${remedy}`);
    }
    return { targets: Float64Array.from(this.targets), offset: Float64Array.from(this.offset) };
  }
}
