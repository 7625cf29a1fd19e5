// Tails of chi-square and F with any degrees of freedom. For reading, not for codes.

const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
  -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
  1.5056327351493116e-7,
];

/** Logarithm of the gamma function of a positive number. */
function logGamma(x) {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const series = LANCZOS.slice(1).reduce((sum, c, i) => sum + c / (x + i), LANCZOS[0]);
  const t = x + 6.5;
  return Math.log(2 * Math.PI) / 2 + (x - 0.5) * Math.log(t) - t + Math.log(series);
}

/** Lentz's continued fraction b0 + a1/(b1 + a2/(b2 + ...)). */
function fraction(first, part) {
  const tiny = 1e-300;
  let value = first || tiny, c = value, d = 0;
  for (let n = 1; n < 100000; n++) {
    const [a, b] = part(n);
    d = 1 / (b + a * d || tiny);
    c = b + a / c || tiny;
    value *= c * d;
    if (Math.abs(c * d - 1) < 1e-15) break;
  }
  return value;
}

/** The regularised upper incomplete gamma function. */
function gammaTail(a, x) {
  if (x <= 0) return 1;
  const front = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let term = 1 / a, sum = term;
    for (let n = 1; term > 1e-17 * sum; n++) sum += term *= x / (a + n);
    return Math.max(0, 1 - front * sum);
  }
  return front / fraction(x + 1 - a, (n) => [-n * (n - a), x + 2 * n + 1 - a]);
}

/** The regularised incomplete beta function. */
function beta(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - beta(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) +
    b * Math.log1p(-x)) / a;
  return front / fraction(1, (n) => {
    const m = n >> 1;
    return [n % 2 ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)) :
      m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), 1];
  });
}

/** Probability of a larger chi-square, or, with a finite freedom `below`, of its F. */
export function tailOf(square, freedom, below = Infinity) {
  const x = Math.max(square, 0);
  return below === Infinity ? gammaTail(freedom / 2, x / 2) :
    beta(below / (below + x), below / 2, freedom / 2);
}
