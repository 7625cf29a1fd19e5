// The sample size planner of howto/rows: what agreement costs, in patients.
if (document.querySelector(".planner")) (() => {
  const get = id => Number(document.getElementById("p-" + id).value);
  // upper tail of the normal law
  const tail = x => { const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + z / 2);
    const e = t * Math.exp(-z * z - 1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 +
      t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))))))));
    return x >= 0 ? e / 2 : 1 - e / 2; };
  const leaves = (c, b) => { let sum = 0; // difference plus rounding leaves the cell, widths in standard deviations
    for (let i = 0; i < 200; i++) { const r = ((i + 0.5) / 200 - 0.5) * c / 2 ** b; sum += tail(c / 2 - r) + tail(c / 2 + r); }
    return sum / 200; };
  const show = () => {
    const [q, n, m, s, b] = ["q", "n", "m", "s", "b"].map(get), rho = (1 - get("a") / 100) / s;
    let low = 1, high = 1e7;
    for (let i = 0; i < 80; i++) { const c = Math.sqrt(low * high); if (q * leaves(c, b) > rho) low = c; else high = c; }
    const share = high ** 2 * (1 + n / m) / (12 * 4 ** b), alike = Math.round(n / (1 + share)); // beside the sampling error
    const agree = rows => { const sd = Math.sqrt((1 / n + 1 / rows) / (1 / n + 1 / m));
      return (100 * (1 - leaves(high / sd, b)) ** q).toFixed(1) + "% with " + rows.toLocaleString("en"); };
    document.getElementById("p-out").textContent = !(q > 0 && n > 0 && m > 0 && rho > 0) ? "" :
      "Rounding costs as much accuracy as an original with " + alike.toLocaleString("en") + " in place of " +
      n.toLocaleString("en") + " patients. Agreement of one replication: " +
      [m / 4, m / 2, m, 2 * m].map(Math.round).map(agree).join(", ") + " patients.";
  };
  document.querySelectorAll(".planner input").forEach(field => field.addEventListener("input", show));
  show();
})();
