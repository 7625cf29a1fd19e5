// The page around the worker: a file in, a verdict out. Names come from files, so nothing is HTML.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const study = JSON.parse(byId("study").textContent);
  const { design, profile } = study;
  let worker = null, result = null, chosen = null;

  const element = (name, text = "", attributes = {}) => {
    const found = document.createElement(name);
    found.textContent = text;
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    return found;
  };

  const row = (head, ...cells) => {
    const found = document.createElement("tr");
    found.append(element("th", head, { scope: "row" }), ...cells.map((cell) => element("td", cell)));
    return found;
  };

  // --- what the table needs ----------------------------------------------------------------------

  function describe(column, theirs) {
    if (column.kind === "number") {
      const { quantiles } = theirs;
      return ["numbers", quantiles.length ? `mostly ${quantiles[0]} to ${quantiles[4]}` : ""];
    }
    const levels = [column.reference, ...column.levels].filter((level) => !level.startsWith("("));
    const more = levels.length > 12 ? ` and ${levels.length - 12} more` : "";
    return ["levels", levels.slice(0, 12).join(", ") + more];
  }

  function fillColumns() {
    byId("target").textContent = design.target;
    byId("study-fingerprint").textContent = study.fingerprint;
    const body = byId("columns").tBodies[0];
    const goal = { gaussian: "numbers", poisson: "counts" }[design.loss.kind] ?? "labels";
    body.append(row(design.target, goal, (design.classes ?? []).join(", ")));
    design.encoding.columns.forEach((column, i) => {
      body.append(row(column.name, ...describe(column, profile.columns[i])));
    });
    if (design.weights) body.append(row(design.weights, "weights of rows", "0 or more"));
    if (design.offset) body.append(row(design.offset, "offset", "is added to the score"));
  }

  // --- running -----------------------------------------------------------------------------------

  function finished() {
    if (worker) worker.terminate();
    worker = null;
    byId("busy").hidden = true;
  }

  function say(text, isRefusal = false) {
    byId("status").textContent = text;
    byId("status").className = isRefusal ? "refused" : "";
  }

  async function start(file) {
    chosen = file;
    finished();
    byId("result").hidden = true;
    say(`Reading ${file.name}.`);
    byId("busy").hidden = false;
    byId("bar").value = 0;
    const options = {};
    for (const name of ["decimal", "thousands", "delimiter"]) options[name] = byId(name).value;
    let opened = null;
    try {
      const [given] = byId("opened").files;
      if (given) opened = JSON.parse(await given.text());
    } catch {
      finished();
      say("The original's model file cannot be read. Get it again from its source.", true);
      return;
    }
    const engine = new Blob([byId("engine").textContent], { type: "text/javascript" });
    const url = URL.createObjectURL(engine);
    worker = new Worker(url);
    worker.onmessage = ({ data }) => {
      if (data.progress !== undefined) {
        byId("bar").value = data.progress;
        byId("step").textContent = data.words;
      } else {
        URL.revokeObjectURL(url);
        finished();
        if (data.result) show(data.result, file.name);
        else say(`${data.refused}${data.isFault ? " (This is a fault of the page.)" : ""}`, true);
      }
    };
    worker.onerror = (problem) => {
      finished();
      say(`The page cannot go on: ${problem.message}`, true);
    };
    worker.postMessage({ study, file, options, opened });
  }

  // --- the result --------------------------------------------------------------------------------

  function show(found, fileName) {
    result = found;
    say(`${fileName}: done.`);
    const verdict = byId("verdict");
    verdict.textContent = found.verdict;
    verdict.className = found.same ? "same" : found.same === false ? "different" : "";
    const notes = found.notes.map((note) => element("p", note));
    if (found.findings.length) {
      const list = document.createElement("ul");
      for (const [column, sentence] of found.findings) {
        list.append(element("li", column ? `${column} ${sentence}.` : `In the target ${sentence}.`));
      }
      notes.push(element("p", "Please look at these columns:"), list);
    }
    byId("notes").replaceChildren(...notes);
    byId("facts").tBodies[0].replaceChildren(...found.rows.map((cells) => row(...cells)));
    byId("picture").replaceChildren(picture(found.names, found.positions));
    byId("result").hidden = false;
    verdict.focus();
  }

  /** A box for each cell and a mark for this lab: the thirty that are furthest from the centre. */
  function picture(names, positions) {
    const shown = names.map((_, i) => i)
      .sort((a, b) => Math.abs(positions[b]) - Math.abs(positions[a])).slice(0, 30)
      .sort((a, b) => a - b);
    const step = 22, left = 180, width = 440, height = step * shown.length + 12;
    const middle = left + (width - left) / 2, cell = (width - left) / 3;
    const outside = positions.filter((place) => Math.abs(place) > 0.5).length;
    const draw = (name, attributes, text = "") => {
      const found = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
      found.textContent = text;
      return found;
    };
    const label = `Where the numbers lie in their cells: ${names.length - outside} of ` +
      `${names.length} are inside, the furthest at ` +
      `${Math.max(...positions.map(Math.abs)).toFixed(2)} cells from the centre.`;
    const viewBox = `0 0 ${width} ${height}`;
    const svg = draw("svg", { viewBox, width, role: "img", "aria-label": label });
    shown.forEach((i, line) => {
      const y = 16 + line * step, place = positions[i], isOutside = Math.abs(place) > 0.5;
      const name = names[i].length <= 26 ? names[i] : `${names[i].slice(0, 25)}…`;
      svg.append(draw("text", { x: left - 12, y: y + 4, "text-anchor": "end" }, name),
        draw("rect", { class: "cell", x: middle - cell / 2, y: y - 8, width: cell, height: 16, rx: 2 }),
        draw("circle", {
          class: isOutside ? "outside" : "mark", r: isOutside ? 6 : 4, cy: y,
          cx: middle + cell * Math.max(-1.45, Math.min(1.45, place)),
        }));
    });
    return svg;
  }

  function save(name, text, type) {
    const link = element("a", "", { download: name });
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function report() {
    const page = document.implementation.createHTMLDocument(result.verdict);
    page.documentElement.lang = "en";
    const policy = element("meta", "", {
      "http-equiv": "Content-Security-Policy",
      content: "default-src 'none'; style-src 'unsafe-inline'",
    });
    page.head.append(policy, element("style", document.querySelector("style").textContent));
    const main = page.createElement("main");
    const whole = byId("result").cloneNode(true);
    whole.querySelectorAll("button").forEach((button) => button.remove());
    main.append(element("h1", `A replication of the study of ${design.target}`), whole,
      element("p", `Study ${study.fingerprint}`));
    page.body.append(main);
    return `<!doctype html>\n${page.documentElement.outerHTML}\n`;
  }

  fillColumns();
  byId("file").addEventListener("change", ({ target: { files } }) => files[0] && start(files[0]));
  for (const name of ["decimal", "thousands", "delimiter", "opened"]) {
    byId(name).addEventListener("change", () => chosen && start(chosen));
  }
  byId("stop").addEventListener("click", () => {
    finished();
    say("Stopped.");
  });
  byId("save-model").addEventListener("click", () =>
    save("model.json", result.model, "application/json"));
  byId("save-report").addEventListener("click", () => save("report.html", report(), "text/html"));
  const drop = byId("drop");
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();  // a browser would leave the page for the file
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files[0]) start(event.dataTransfer.files[0]);
    });
  }
})();
