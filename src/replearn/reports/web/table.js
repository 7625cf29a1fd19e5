// A CSV file to whole numbers, as Python reads and encodes it: docs/format.md is the specification.
import { Refusal } from "./exact.js";
import { absentColumns, counted, namedColumns, quoted } from "./words.js";

// --- one meaning of a cell -----------------------------------------------------------------------

const MISSING_WORDS = new Set(
  ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", ".", "?"]);
const NUMBER = /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
const INFINITE = new Set(["inf", "-inf", "Infinity", "-Infinity"]);
const BOOLS = new Map([["true", "true"], ["True", "true"], ["TRUE", "true"],
  ["false", "false"], ["False", "false"], ["FALSE", "false"]]);
const MAX_TEXT = 4096;
const REMEDIES = {
  "infinite numbers": "Leave such cells empty, or drop the column.",
  "texts of more than 4,096 characters": "Shorten them, or drop the column.",
  "texts with a NUL or half of a character": "Save the table as UTF-8, or drop the column.",
  "numbers with a point where the decimal sign is a comma":
    "Write all numbers alike, or give the signs of this file (--decimal, --thousands).",
};

class OddCell extends Error {}

const trimmed = (text) => text.replace(/^[ \t\n\r\v\f]+|[ \t\n\r\v\f]+$/g, "");

/** A text, trimmed; null if it says that there is no value. */
export function cleanText(given) {
  const text = trimmed(given);
  if (MISSING_WORDS.has(text)) return null;
  if (text.length > MAX_TEXT && [...text].length > MAX_TEXT) {
    throw new OddCell("texts of more than 4,096 characters");
  }
  if (text.includes("\0")) throw new OddCell("texts with a NUL or half of a character");
  if (INFINITE.has(text) || (NUMBER.test(text) && !Number.isFinite(Number(text)))) {
    throw new OddCell("infinite numbers");
  }
  return text;
}

/** The number that a clean text is, or null; true is 1, false is 0. */
export function textNumber(text) {
  if (NUMBER.test(text)) return Number(text);
  return BOOLS.has(text) ? Number(BOOLS.get(text) === "true") : null;
}

/** The level that a clean text is: "1.0" and "01" are "1", "TRUE" is "true". */
export const levelText = (text) =>
  NUMBER.test(text) ? String(Number(text)) : BOOLS.get(text) ?? text;

// --- decimal commas and thousands ----------------------------------------------------------------

const SIGN_KINDS = [
  ["both", /^[+-]?[0-9]{1,3}(\.[0-9]{3})+,[0-9]+$/],
  ["commas", /^[+-]?[0-9]{1,3}((,[0-9]{3})+|(,[0-9]{3})+\.[0-9]+)$/],
  ["decimal", /^[+-]?[0-9]+,[0-9]+$/],
  ["points", /^[+-]?[0-9]{1,3}(\.[0-9]{3})+$/],
  ["apostrophes", /^[+-]?[0-9]{1,3}('[0-9]{3})+$/],
  ["spaces", /^[+-]?[0-9]{1,3}( [0-9]{3})+$/],
];

/** What to announce if most of these texts are numbers with other signs; "" if they are not. */
export function signsMeant(texts) {
  const kinds = texts.map((text) => SIGN_KINDS.find(([, pattern]) => pattern.test(text))?.[0]);
  const found = new Set(kinds);
  if (2 * kinds.filter((kind) => kind !== undefined).length <= kinds.length) return "";
  if (found.has("both") || (found.has("decimal") && found.has("points"))) {
    return '--decimal="," and --thousands="."';
  }
  if (found.has("decimal")) return '--decimal=","';
  const [, sign] = [["commas", ","], ["points", "."], ["apostrophes", "'"], ["spaces", " "]]
    .find(([kind]) => found.has(kind));
  return `--thousands="${sign}"`;
}

/** What turns texts that are numbers with these signs into plain numbers. */
function signReader(decimal, thousands) {
  const group = thousands.replace(".", "\\."), point = decimal.replace(".", "\\.");
  const whole = thousands ? `([0-9]+|[0-9]{1,3}(${group}[0-9]{3})+)` : "([0-9]+)";
  const pattern = new RegExp(`^[+-]?(${whole}(${point}[0-9]*)?|${point}[0-9]+)([eE][+-]?[0-9]+)?$`);
  return (text) => {
    const inner = trimmed(text);
    if (pattern.test(inner)) {
      return (thousands ? inner.replaceAll(thousands, "") : inner).replace(decimal, ".");
    }
    if (decimal === "," && NUMBER.test(inner) && inner.slice(0, -1).includes(".")) {
      throw new OddCell("numbers with a point where the decimal sign is a comma");
    }
    return text;
  };
}

// --- CSV -----------------------------------------------------------------------------------------

const HEAD_BYTES = 1 << 20, MOST_RECORD = 1 << 22;
const SAVE_AS = 'Save it as "CSV UTF-8" (in Excel: Save As, CSV UTF-8).';
const QUOTE = 34, NEWLINE = 10, RETURN = 13;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decodedBytes(bytes, start, end) {
  if (end - start < 24) {
    let text = "";
    for (let i = start; i < end; i++) {
      if (bytes[i] > 127) return decoder.decode(bytes.subarray(start, end));
      text += String.fromCharCode(bytes[i]);
    }
    return text;
  }
  return decoder.decode(bytes.subarray(start, end));
}

/** The sign that the first line has most of, outside of quotes. */
function delimiterOf(head) {
  const text = head.replace(/^[\r\n]+/, "").replace(/"[^"]*"/g, "");
  const line = text.split(/[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/, 1)[0];
  let best = ",";
  for (const sign of [";", "\t", "|"]) {
    if (line.split(sign).length > line.split(best).length) best = sign;
  }
  return best;
}

/** Refuse what is no text, and return the first part of a file as text. */
function checkedHead(place, bytes) {
  const begins = (...signature) => signature.every((byte, i) => bytes[i] === byte);
  if (begins(0x1f, 0x8b)) {
    throw new Refusal(`${place} is compressed. Rename it, so that it ends in .gz.`);
  }
  if (begins(0x50, 0x4b, 3, 4) || begins(0xd0, 0xcf, 0x11, 0xe0)) {
    throw new Refusal(`${place} is a workbook. ${SAVE_AS}`);
  }
  if (begins(0xff, 0xfe) || begins(0xfe, 0xff) || bytes.subarray(0, 1000).includes(0)) {
    throw new Refusal(`${place} must be UTF-8 text, got something else. ${SAVE_AS}`);
  }
  try {
    const whole = new TextDecoder("utf-8", { fatal: true });  // it drops a byte order mark
    return whole.decode(bytes.subarray(0, HEAD_BYTES), { stream: bytes.length > HEAD_BYTES });
  } catch {
    throw new Refusal(`${place} must be UTF-8 text, got other bytes. ${SAVE_AS}`);
  }
}

function checkedNames(place, raw) {
  const names = raw.map(trimmed);
  names.forEach((name, i) => {
    if (name === "") {
      throw new Refusal(`${place} must name every column, but column ${i + 1} has no name. Name it, ` +
        "or leave it out if it numbers the rows (pandas: to_csv(..., index=False)).");
    }
    try {
      cleanText(name);
    } catch (odd) {
      if (odd.message !== "infinite numbers") {
        throw new Refusal(`${place}: the name of column ${i + 1} has ${odd.message}.`);
      }
    }
  });
  const twice = [...new Set(names.filter((name, i) => names.indexOf(name) < i))].sort();
  if (twice.length) {
    throw new Refusal(`${place} must have different names of columns, got ${namedColumns(twice)} ` +
      "more than once. Rename them.");
  }
  return names;
}

/**
 * Reads records of bytes that come in pieces. `open(names)` returns a handler for each column, or
 * null where nobody wants it; a handler has `cell(text)` and, for plain numbers, `number(value)`.
 * `grow(n)` makes room for n rows.
 */
/** Ends of lines between two places; one of two signs counts once. */
function breaksIn(bytes, start, end) {
  let count = 0;
  for (let i = start; i < end; i++) {
    if (bytes[i] === NEWLINE && bytes[i - 1] === RETURN && i > start) continue;
    if (bytes[i] === NEWLINE || bytes[i] === RETURN) count++;
  }
  return count;
}

class CsvReader {
  constructor(place, options, open, grow, atRisk) {
    Object.assign(this, { place, options, open, grow, atRisk, names: null, handlers: null });
    Object.assign(this, { nRecords: 0, nRows: 0, line: 1 });
    this.rest = new Uint8Array(0);
    const { decimal = ".", thousands = "" } = options;
    this.rewrite = decimal === "." && thousands === "" ? null : signReader(decimal, thousands);
  }

  feed(bytes, isLast) {
    let buffer = bytes;
    if (this.rest.length) {
      buffer = new Uint8Array(this.rest.length + bytes.length);
      buffer.set(this.rest);
      buffer.set(bytes, this.rest.length);
    }
    let start = 0;
    if (this.delimiter === undefined) {
      if (buffer.length <= HEAD_BYTES && !isLast) {
        this.rest = buffer;
        return;
      }
      const head = checkedHead(this.place, buffer);
      this.delimiter = (this.options.delimiter || delimiterOf(head)).charCodeAt(0);
      if (buffer[0] === 0xef && buffer[1] === 0xbb && buffer[2] === 0xbf) start = 3;
    }
    for (let next = start; next >= 0;) {
      start = next;
      next = this.record(buffer, start, isLast);
    }
    this.rest = buffer.slice(start);
    if (this.rest.length > MOST_RECORD) {
      throw new Refusal(`${this.place}, line ${counted(this.line)}, begins a row that is longer than ` +
        "4 MB. Check the quotes.");
    }
    if (isLast && this.names === null) {
      throw new Refusal(
        `${this.place} must begin with a line of column names, got none. Check the file.`);
    }
    if (isLast && this.nRecords === 0) {
      throw new Refusal(`${this.place} must have rows, got none. Check it.`);
    }
  }

  /** Read one record, and return where the next one starts; -1 if this one is not complete. */
  record(bytes, start, isLast) {
    const { delimiter } = this, n = bytes.length;
    const cells = this.cells ??= [];  // start, end, and whether quotes must be taken out
    let count = 0, i = start, hasQuotes = false;
    for (;;) {
      const from = i;
      let isQuoted = false;
      if (i < n && bytes[i] === QUOTE) {
        isQuoted = hasQuotes = true;
        let isOpen = true;
        for (i++; i < n && isOpen; i++) {
          if (bytes[i] === QUOTE && bytes[++i] !== QUOTE) {
            isOpen = false;
            i--;
          }
        }
        if (isOpen && isLast) {
          throw new Refusal(`${this.place} must close every quote, but it ends inside of one. Check ` +
            "that the file is complete.");
        }
      }
      while (i < n && bytes[i] !== delimiter && bytes[i] !== NEWLINE && bytes[i] !== RETURN) i++;
      if (i >= n && (!isLast || (count === 0 && i === from))) return -1;
      cells[count++] = from;
      cells[count++] = i;
      cells[count++] = isQuoted;
      if (i < n && bytes[i] === delimiter) {
        i++;
        continue;
      }
      if (i + 1 >= n && i < n && bytes[i] === RETURN && !isLast) return -1;
      const isEmpty = count === 3 && i === from;
      const nBreaks = hasQuotes ? breaksIn(bytes, start, i) : 0;
      if (nBreaks) this.refuseSwallowedRows(bytes, count / 3);
      this.line += 1 + nBreaks;
      if (bytes[i] === RETURN && bytes[i + 1] === NEWLINE) i++;
      if (!isEmpty) this.take(bytes, count / 3);
      return i + 1 > n ? n : i + 1;
    }
  }

  /** A stray quote takes the rows after it into one cell. Texts of several lines are fine. */
  refuseSwallowedRows(bytes, nCells) {
    if ((this.names?.length ?? nCells) < 3) return;
    const sign = String.fromCharCode(this.delimiter), full = nCells - 1;
    for (let place = 0; place < nCells; place++) {
      const [first, ...inner] = this.text(bytes, place).split(/\r\n|\r|\n/)
        .map((line) => line.split(sign).length - 1);
      if (!inner.length) continue;
      const last = inner.pop();
      if (!inner.includes(full) && !(place + first === full && last === place)) continue;
      throw new Refusal(`${this.place}, line ${counted(this.line)}, must not begin a quote that takes ` +
        "the rows after it into one cell. Remove the stray quote, or write it twice.");
    }
  }

  take(bytes, nCells) {
    if (this.names === null) {
      const raw = Array.from({ length: nCells }, (_, place) => this.text(bytes, place));
      this.names = checkedNames(this.place, raw);
      this.handlers = this.open(this.names);
      return;
    }
    this.nRecords++;
    if (nCells !== this.names.length) {
      throw new Refusal(`${this.place}, row ${this.nRecords + 1}, must have ${this.names.length} cells ` +
        `in every row, got ${nCells}. Put texts that hold the delimiter in quotes; with a decimal ` +
        "comma separate cells by semicolons.");
    }
    let repeats = 1;
    if (this.atRisk) {  // a person has a row for each interval under observation
      this.fill(bytes, nCells, this.atRisk.handlers);
      repeats = this.atRisk.begin();
    }
    for (let k = 0; k < repeats; k++) {
      this.grow(++this.nRows);
      if (this.atRisk) this.atRisk.interval.cell(this.atRisk.row(k));
      this.fill(bytes, nCells, this.handlers);
    }
  }

  fill(bytes, nCells, handlers) {
    for (let place = 0; place < nCells; place++) {
      const handler = handlers[place];
      if (handler === null) continue;
      if (handler.number && this.rewrite === null && !this.cells[3 * place + 2]) {
        const value = plainNumber(bytes, this.cells[3 * place], this.cells[3 * place + 1]);
        if (value === value) {
          handler.number(value);
          continue;
        }
      }
      this.cell(handler, bytes, place);
    }
  }

  cell(handler, bytes, place) {
    try {
      const text = this.text(bytes, place);
      handler.cell(cleanText(this.rewrite === null ? text : this.rewrite(text)));
    } catch (odd) {
      if (!(odd instanceof OddCell)) throw odd;
      throw new Refusal(`${this.place}: ${namedColumns([this.names[place]])} must hold numbers or ` +
        `text, got ${odd.message}. ${REMEDIES[odd.message]}`);
    }
  }

  text(bytes, place) {
    const start = this.cells[3 * place], end = this.cells[3 * place + 1];
    try {
      if (!this.cells[3 * place + 2]) return decodedBytes(bytes, start, end);
      const text = decoder.decode(bytes.subarray(start + 1, end));
      const close = text.match(/^(?:[^"]|"")*/)[0].length;  // what follows the quotes counts too
      return text.slice(0, close).replaceAll('""', '"') + text.slice(close + 1);
    } catch {
      throw new Refusal(`${this.place} must be UTF-8 text. ${SAVE_AS}`);
    }
  }
}

const TENS = [1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/**
 * The number that up to 15 digits with a sign and a point are; NaN for all else. A whole number
 * below 2^53 over a power of ten that is exact is rounded once, as a correct reader rounds.
 */
function plainNumber(bytes, start, end) {
  let i = start, whole = 0, digits = 0, decimals = -1;
  const isNegative = bytes[i] === 45;
  if (isNegative) i++;
  if (end - i > 16) return NaN;
  for (; i < end; i++) {
    const digit = bytes[i] - 48;
    if (digit >= 0 && digit <= 9) {
      whole = whole * 10 + digit;
      digits++;
      if (decimals >= 0) decimals++;
    } else if (bytes[i] === 46 && decimals < 0) {
      decimals = 0;
    } else {
      return NaN;
    }
  }
  if (digits === 0 || digits > 15) return NaN;
  const value = decimals > 0 ? whole / TENS[decimals] : whole;
  return isNegative ? -value : value;
}

// --- columns to terms ----------------------------------------------------------------------------

export const INTERVAL = "(interval)";  // what a survival study calls the column of intervals of time

const ONE = 1 << 12, MOST_KEPT = 1 << 16;
const MOST_REACH = 500;  // spreads from the centre up to which own estimates take numbers as they are
const MOST_CELLS = 2 ** 30;  // two bytes each: what a browser's tab can hold

/** Columns of a growing number of rows. */
class Store {
  constructor() {
    this.capacity = 1 << 12;
    this.arrays = [];
  }

  /** A new array, by its place: arrays are replaced as they grow. */
  place(Kind) {
    return this.arrays.push(new Kind(this.capacity)) - 1;
  }

  fit(nRows) {
    if (nRows < this.capacity) return;
    this.capacity *= 2;
    if (this.capacity * (this.arrays.length + 16) > MOST_CELLS) {
      throw new Refusal(`the table must have at most ${counted(this.capacity / 2)} rows for this ` +
        "page, got more. Use Python, or R.");
    }
    this.arrays = this.arrays.map((array) => {
      const larger = new array.constructor(this.capacity);
      larger.set(array);
      return larger;
    });
  }
}

/** z, hats and missing indicator of a column of numbers. */
class NumberTerms {
  constructor(column, store) {
    const { centre, spread, knots, indicator } = column;
    Object.assign(this, { column, store, missing: 0, odd: 0, clipped: 0, row: 0 });
    this.oddTexts = new Set();
    this.far = [];  // rows and values beyond the range, of columns without knots
    this.kept = [];  // some of the values, evenly spaced, to look at their quantiles
    this.stride = 1;
    this.centre = Number(centre);
    this.spread = Number(spread);
    const low = this.centre - 4 * this.spread, high = this.centre + 4 * this.spread;
    this.nodes = [low, ...knots.map(Number), high];
    this.first = store.place(Int16Array);
    knots.forEach(() => store.place(Int16Array));
    this.indicator = indicator ? store.place(Int16Array) : null;
  }

  cell(text) {
    const value = text === null ? null : textNumber(text);
    if (value !== null) return this.number(value);
    if (text === null) this.missing++;
    else {
      this.odd++;
      if (this.oddTexts.size < 1000) this.oddTexts.add(text);
    }
    if (this.indicator !== null) this.store.arrays[this.indicator][this.row] = ONE;
    this.put(this.centre);
  }

  number(value) {
    if (this.row % this.stride === 0 && this.kept.push(value) > MOST_KEPT) {
      this.kept = this.kept.filter((_, i) => i % 2 === 0);
      this.stride *= 2;
    }
    if (value < this.nodes[0] || value > this.nodes[this.nodes.length - 1]) {
      this.clipped++;
      if (this.nodes.length === 2) this.far.push([this.row, value]);
    }
    this.put(value);
  }

  put(value) {
    const { nodes, store: { arrays } } = this;
    const last = nodes.length - 1;
    const x = Math.min(Math.max(value, nodes[0]), nodes[last]);
    arrays[this.first][this.row] = Math.floor((x - this.centre) / this.spread * ONE + 0.5);
    for (let j = 1; j < last; j++) {
      const below = nodes[j - 1], top = nodes[j], above = nodes[j + 1];
      let hat = 0;
      if (below <= x && x <= above) {
        hat = x <= top ? (x - below) / (top - below) : (above - x) / (above - top);
      }
      arrays[this.first + j][this.row] = Math.floor(hat * ONE + 0.5);
    }
    this.row++;
  }
}

/** Indicators of levels. */
class LevelTerms {
  constructor(column, store) {
    Object.assign(this, { column, store, missing: 0, odd: 0, clipped: 0, row: 0 });
    this.first = store.arrays.length;
    column.levels.forEach(() => store.place(Int16Array));
    const places = new Map(column.levels.map((level, place) => [level, place]));
    this.other = places.get("(other)") ?? -1;
    for (const [level, place] of [
      ["(other)", this.other], ["(missing)", this.other], [column.reference, -1]]) {
      if (!places.has(level)) places.set(level, place);
    }
    this.places = places;
    this.found = new Map();  // texts as they stand, so that each is understood once
    this.counts = new Map();
  }

  cell(text) {
    let level = text === null ? "(missing)" : this.found.get(text);
    if (level === undefined) {
      level = levelText(text);
      if (this.found.size < 10000) this.found.set(text, level);
    }
    const place = this.places.get(level);
    if (text === null) this.missing++;
    else {
      if (place === undefined) this.odd++;
      if (this.counts.size < 4096 || this.counts.has(level)) {
        this.counts.set(level, (this.counts.get(level) ?? 0) + 1);
      }
    }
    const term = place ?? this.other;
    if (term >= 0) this.store.arrays[this.first + term][this.row] = ONE;
    this.row++;
  }
}

const termsOf = (column, store) =>
  column.kind === "number" ? new NumberTerms(column, store) : new LevelTerms(column, store);

/** Two or more handlers of one column. */
class Both {
  constructor(handlers) {
    this.handlers = handlers;
  }

  cell(text) {
    for (const handler of this.handlers) handler.cell(text);
  }
}

/**
 * Rows of a CSV file as whole numbers. Pieces of the file go to `feed`; `encoded` gives the columns.
 *
 * @param place what the file is called in messages
 * @param encoding how a row becomes whole numbers
 * @param roles further handlers, by the names of their columns
 * @param options {delimiter, decimal, thousands}
 * @param atRisk makes rows at risk of persons, in a survival study
 */
export class Table {
  constructor(place, encoding, roles = [], options = {}, atRisk = null) {
    Object.assign(this, { place, encoding, store: new Store() });
    this.terms = encoding.columns.map((column) => termsOf(column, this.store));
    const wanted = new Map(), ofPersons = new Map(atRisk ? atRisk.roles : []);
    for (const [name, handler] of [
      ...encoding.columns.map((column, i) => [column.name, this.terms[i]]), ...roles]) {
      if (atRisk && name === INTERVAL) atRisk.interval = handler;  // of no column of the file
      else wanted.set(name, [...(wanted.get(name) ?? []), handler]);
    }
    this.reader = new CsvReader(place, options, (names) => {
      const absent = [...wanted.keys(), ...ofPersons.keys()].filter((name) => !names.includes(name));
      if (absent.length) {
        throw new Refusal(`${place} has no ${absentColumns(absent, names)}. ` +
          "Rename the columns, or check the file.");
      }
      if (atRisk) atRisk.handlers = names.map((name) => ofPersons.get(name) ?? null);
      return names.map((name) => {
        const handlers = wanted.get(name) ?? [null];
        return handlers.length > 1 ? new Both(handlers) : handlers[0];
      });
    }, (nRows) => this.store.fit(nRows), atRisk);
  }

  feed(bytes, isLast) {
    this.reader.feed(bytes, isLast);
  }

  get nRows() {
    return this.reader.nRows;
  }

  /** The terms of all rows, products last. */
  encoded() {
    const { encoding, nRows } = this;
    for (const { column, missing, odd } of this.terms) {
      const absent = missing + (column.kind === "number" ? odd : 0);
      if (absent && encoding.missing === "refuse") {
        throw new Refusal(`column ${quoted(column.name)} must have a value in every row, got ` +
          `${counted(absent)} missing ones. Fill or leave out such rows, or make the study with ` +
          'missing="indicator".');
      }
    }
    const columns = this.store.arrays.map((array) => array.subarray(0, nRows));
    for (const { a, b, shift } of this.productsOf(columns)) {
      const half = 1 << (shift - 1);
      columns.push(a.map((value, i) => (value * b[i] + half) >> shift));
    }
    return columns;
  }

  /** Factors of each product, and by how many bits it is shifted. */
  productsOf(columns) {
    const { encoding, terms } = this;
    const isZ = new Set(terms.filter((t) => t.column.kind === "number").map((t) => t.first));
    return encoding.products.map(({ first, second }) => ({ a: columns[first], b: columns[second],
      shift: encoding.products_halved + (isZ.has(first) && isZ.has(second) ? 14 : 12) }));
  }

  /** The terms with numbers beyond the study's range as they are; null if there are none to take so. */
  asTheyAre() {
    const columns = this.store.arrays.map((array) => array.subarray(0, this.nRows));
    let isWider = false;
    for (const { far = [], first, centre, spread } of this.terms) {
      const reach = far.reduce((most, [, value]) => Math.max(most, Math.abs(value - centre) / spread), 0);
      if (!far.length || reach > MOST_REACH) continue;  // other rows would vanish beside them
      columns[first] = Float64Array.from(columns[first]);
      for (const [row, value] of far) columns[first][row] = (value - centre) / spread * ONE;
      isWider = true;
    }
    if (!isWider) return null;
    for (const { a, b, shift } of this.productsOf(columns)) {
      columns.push(Float64Array.from(a, (value, i) => value * b[i] / 2 ** shift));
    }
    return columns;
  }
}
