// Numbers and names in words, as Python's facts say them.

export const counted = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

/** A number with so many decimals; halves go to the even digit, as in Python. */
export function fixed(value, digits) {
  const text = value.toFixed(digits), exact = value.toFixed(digits + 40);
  if (!/50{39}$/.test(exact)) return text;
  const cut = exact.slice(0, -40).replace(/\.$/, "");
  return "02468".includes(cut.at(-1)) ? cut : text;
}

const exponential = (value, digits) =>
  value.toExponential(digits).replace(/e([+-])(\d)$/, "e$10$2");

/** So many digits, without zeros at the end. */
export function general(value, digits) {
  const shown = exponential(value, digits - 1), exponent = Number(shown.split("e")[1]);
  if (exponent >= -4 && exponent < digits) return String(Number(shown));
  return shown.replace(/\.?0*e/, "e");
}

const commas = (text) => text.replace(/\d+/, counted);

export function quoted(name) {
  const shown = JSON.stringify(name.length <= 60 ? name : name.slice(0, 57) + "...");
  return name.includes("'") ? shown : `'${shown.slice(1, -1).replaceAll('\\"', '"')}'`;
}

export function namedColumns(names, most = 8) {
  const more = names.length > most ? ` and ${names.length - most} more` : "";
  return `column${names.length > 1 ? "s" : ""} ${names.slice(0, most).map(quoted).join(", ")}${more}`;
}

/** Columns that are not there, and which ones differ in case or spaces only. */
export function absentColumns(absent, names) {
  const plain = (name) => name.trim().toLowerCase();
  const near = new Map(names.map((name) => [plain(name), name]));
  const alike = absent.filter((name) => near.has(plain(name))).slice(0, 8)
    .map((name) => `${quoted(name)} is ${quoted(near.get(plain(name)))} there`);
  const said = `${namedColumns(absent)}; it has ${namedColumns(names)}`;
  return alike.length ? `${said} (${alike.join(", ")}: case and spaces count)` : said;
}

/** Real numbers with one precision. */
export function numbersInWords(values) {
  const numbers = values.filter(Number.isFinite).map(Math.abs), largest = Math.max(0, ...numbers);
  const exponent = largest ? Math.floor(Math.log10(largest)) : 0;
  const decimals = exponent >= 0 ? Math.max(3 - exponent, 0) : 2 - exponent;
  return values.map((value) => !Number.isFinite(value) ? "not known" :
    exponent < -5 || exponent > 14 ? exponential(value, 2) : commas(fixed(value + 0, decimals)));
}

const exponentOf = (value) => value ? Math.floor(Math.log10(Math.abs(value))) : 0;

/** A number with so many significant digits, as a reader multiplies it. */
export function significant(value, digits) {
  const exponent = exponentOf(value);
  return exponent < -5 || exponent > 14 ? exponential(value, digits - 1) :
    commas(fixed(value + 0, Math.max(digits - 1 - exponent, 0)));
}

/** A ratio with so many significant digits, and two of how far it is from 1. */
export function ratioInWords(value, digits) {
  if (!Number.isFinite(value)) return "not known";
  const away = exponentOf(value - 1);
  return away >= -6 && away < 2 - digits ? fixed(value, 1 - away) : significant(value, digits);
}

/** A share in percent, as it stands alone. */
export function percent(share) {
  const decimals = share >= 0.01 || share === 0 ? 1 : 2, least = decimals === 1 ? 0.001 : 0.0001;
  if (share > 0 && share < least / 2) return `<${fixed(100 * least, decimals)}%`;
  if (share < 1 && share > 1 - least / 2) return `>${fixed(100 * (1 - least), decimals)}%`;
  return `${fixed(100 * share, decimals).replace(/\.0+$/, "")}%`;
}

export const pCell = (p) => p < 0.001 ? "<0.001" : fixed(p, 3);

export const pValue = (p) => p < 0.001 ? "p < 0.001" : `p = ${fixed(p, 3)}`;

/** A real number, perhaps with its interval, and with what the base rate, or the mean, alone gives. */
export function real({ value, low, high }, base, name = "") {
  const all = [value, low, high].filter((end) => end !== undefined), [shown, ...ends] = numbersInWords(all);
  return shown + (ends.length ? ` (${ends.join(" to ")})` : "") +
    (base === undefined ? "" : `, ${name.startsWith("half") ? "mean" : "base rate"} alone ` +
      numbersInWords([...all, base]).at(-1));
}

/** What terms are called. */
export function termNames({ columns, products }) {
  const basic = columns.flatMap((column) => column.kind === "number" ?
    [column.name, ...column.knots.map((knot) => `${column.name} ~ ${knot}`),
      ...(column.indicator ? [`${column.name} missing`] : [])] :
    column.levels.map((level) => level === "(missing)" ?
      `${column.name} missing` : `${column.name} = ${level}`));
  return [...basic, ...products.map(({ first, second }) => `${basic[first]} x ${basic[second]}`)];
}
