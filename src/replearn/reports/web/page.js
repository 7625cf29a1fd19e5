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
    const isRarer = Number(column.folded ?? 0) > 0;
    const rarer = column.levels.includes("(other)") ? "; rarer ones are taken together" :
      isRarer ? `; rarer ones count as ${column.reference}` : "";
    return ["levels", levels.slice(0, 12).join(", ") + more + rarer];
  }

  function fillColumns() {
    byId("target").textContent = design.target;
    byId("study-fingerprint").textContent = study.fingerprint;
    const body = byId("columns").tBodies[0], { loss } = design;
    const goal = { gaussian: "numbers", poisson: "counts", hazard: "the event" }[loss.kind] ?? "labels";
    const outcomes = loss.kind === "hazard" ? ["1 where it was seen, 0 where the time is censored"] :
      design.classes ?? [];
    body.append(row(design.target, goal, outcomes.join(", ")));
    if (loss.time) body.append(row(loss.time, "the time", "to the event, or to the end of observation"));
    design.encoding.columns.forEach((column, i) => {
      if (column.name === "(interval)") return;  // it follows from the time
      body.append(row(column.name, ...describe(column, profile.columns[i])));
    });
    if (design.weights) body.append(row(design.weights, "weights of rows", "0 or more"));
    if (design.offset && !loss.time) body.append(row(design.offset, "offset", "is added to the score"));
  }

  // --- running -----------------------------------------------------------------------------------

  function finished() {
    if (worker) worker.terminate();
    worker = null;
    byId("busy").hidden = true;
  }

  /** Options of the command line are choices on the page. */
  const menuOf = (name, sign) => {
    const menu = byId(name), choice = [...menu.options].find((option) => option.value === sign);
    return `"${choice.text}" in the menu "${menu.labels[0].firstChild.textContent.trim()}" above`;
  };
  const here = (text) => text.replace(/--(decimal|thousands)="(.)"/g, (_, ...of) => menuOf(...of))
    .replace("(--decimal, --thousands)", "above").replace("pass --opened with", "open above")
    .replace("pass it with --opened", "open it above");

  function say(text, isRefusal = false) {
    byId("status").textContent = here(text);
    byId("status").className = isRefusal ? "refused" : "";
  }

  async function start(file) {
    chosen = file;
    finished();
    byId("result").hidden = true;
    say(`Reading ${file.name}.`);
    byId("busy").hidden = false;
    byId("bar").value = 0;
    const options = { lab: byId("lab").value || file.name.split(".")[0] };
    for (const name of ["decimal", "thousands", "delimiter"]) options[name] = byId(name).value;
    try {
      const parsed = (given) =>
        Promise.all(Array.from(given, async (one) => JSON.parse(await one.text())));
      options.opened = await parsed(byId("opened").files);
      [options.state = null] = await parsed(byId("state").files);
    } catch {
      finished();
      say("A file that the lead sent must be JSON, got something else. Get it anew.", true);
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
    worker.postMessage({ study, file, options });
  }

  // --- the result --------------------------------------------------------------------------------

  /** Sentences as paragraphs, and neighbouring names with values as a table. */
  function listed(items) {
    const found = [];
    for (const item of items) {
      if (typeof item === "string") found.push(element("p", here(item)));
      else if (!Array.isArray(item)) found.push(headed(item));
      else {
        if (found.at(-1)?.localName !== "table" || found.at(-1).tHead) found.push(element("table"));
        found.at(-1).append(row(...item));
      }
    }
    return found;
  }

  function show(found, fileName) {
    result = found;
    say(`${fileName}: done.`);
    const verdict = byId("verdict"), hasModel = !found.refused;
    verdict.textContent = hasModel ? found.verdict : "These rows alone give no model.";
    verdict.className = { confirmed: "same", undecided: "same", untold: "" }[found.word] ??
      (hasModel ? "different" : "");
    const isNew = (item) => !found.questions.includes(item);  // these stand by themselves
    byId("items").replaceChildren(...listed(hasModel ? found.items.filter(isNew) : [found.refused]));
    byId("questions").replaceChildren(...found.questions.map((one) => element("li", one)));
    byId("asked").hidden = !found.questions.length;
    byId("own").hidden = !hasModel;
    byId("save-model").hidden = !found.model;  // after a mismatch there is no usable model
    byId("save-update").hidden = !found.update;  // the original's slopes, with a base risk of here
    byId("update-words").textContent = found.update ? found.update.words : "";
    if (hasModel) {
      byId("picture").replaceChildren(drawn(found.picture));
      byId("effects").hidden = !found.forest;
      if (found.forest) byId("forest").replaceChildren(drawn(found.forest));
      byId("beside").textContent = found.support ? "The model and your patients" : "Your own estimates";
      byId("beside-words").textContent = found.support ?
        "A dot is the model's effect of a column, a line the 95% interval of one step towards your patients. " +
          "Columns that fit least come first." :
        "No model: a dot is your own estimate, a line its 95% interval.";
      byId("details").replaceChildren(...listed([...found.details.filter(isNew), ...found.own]));
    }
    byId("sums-words").textContent = found.sums.words ?? `No sums file: ${found.sums.refused}`;
    byId("save-sums").hidden = !found.sums.file;
    byId("result").hidden = false;
    verdict.focus();
  }

  /** A picture as a part of the page. */
  function drawn(picture) {
    const read = new DOMParser().parseFromString(picture, "image/svg+xml");
    return document.adoptNode(read.documentElement);
  }

  /** A table with a title and a header. */
  function headed({ title, header, rows }) {
    const table = element("table");
    table.append(element("caption", title), element("thead"), element("tbody"));
    table.tHead.append(element("tr"));
    for (const name of header) table.tHead.rows[0].append(element("th", name, { scope: "col" }));
    for (const cells of rows) table.tBodies[0].append(row(...cells));
    return table;
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
    whole.querySelectorAll(".buttons, [hidden]").forEach((part) => part.remove());
    main.append(element("h1", `A replication of the study of ${design.target}`), whole,
      element("p", `Study ${study.fingerprint}`));
    page.body.append(main);
    return `<!doctype html>\n${page.documentElement.outerHTML}\n`;
  }

  fillColumns();
  byId("file").addEventListener("change", ({ target: { files } }) => files[0] && start(files[0]));
  for (const name of ["decimal", "thousands", "delimiter", "opened", "state", "lab"]) {
    byId(name).addEventListener("change", () => chosen && start(chosen));
  }
  byId("stop").addEventListener("click", () => {
    finished();
    say("Stopped.");
  });
  byId("save-model").addEventListener("click", () =>
    save("model.json", result.model, "application/json"));
  byId("save-update").addEventListener("click", () =>
    save("updated.model.json", result.update.file, "application/json"));
  byId("save-sums").addEventListener("click", () =>
    save(`${JSON.parse(result.sums.file).lab}.sums.json`, result.sums.file, "application/json"));
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
