"""Write docs/results.md and its picture from docs/results/*.csv, which the benchmarks write.

python docs/results.py

README.md and docs/index.md quote a sentence of it between <!-- worth --> and <!-- /worth -->.
"""

import re
from html import escape
from pathlib import Path

import pandas as pd
from scipy.stats import beta

HERE = Path(__file__).resolve().parent
PLAN = "default"  # of benchmarks/worth.py
CAPTION = (
    "![Kept of the lab's own log-loss gain: blue the replicated model, grey a published model of "
    "1,000 rows. The line is the lab's own fit.](pictures/results.svg)"
)
WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"
INK = (
    "<style>svg:root{color:#1f2328}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
)


def dot_plot(table):
    """Share of the lab's own gain: a published model of 1,000 rows, and the replicated model."""
    left, right, row = 250, 600, 20
    parts = [
        f'<text x="{left}" y="16">0</text><text x="{right}" y="16" text-anchor="middle">1: own fit'
        f'</text><line x1="{right}" x2="{right}" y1="22" y2="{28 + row * len(table)}" '
        'stroke="currentColor" stroke-opacity="0.5"/>'
    ]
    for place, (_, line) in enumerate(table.iterrows()):
        y = 36 + place * row
        name = f"{line['task']}, {line['basis']}"
        parts.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        gain = line["base"] - line["own loss"]
        few = (line["base"] - line["logistic 1,000 loss"]) / gain
        grey = 'currentColor" fill-opacity="0.4'
        for share, color in ((few, grey), (line[f"kept {PLAN}"], "#0b7fb3")):
            if share == share:  # not every task has the rival
                x = left + (right - left) * min(max(share, 0.0), 1.05)
                parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{color}"/>')
    height = 44 + row * len(table)
    kept = table[f"kept {PLAN}"]
    label = f"{len(table)} tasks: replicated models keep {kept.min():.1%} or more of the own gain."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {height}" width="660" '
        f'role="img" aria-label="{label}" style="max-width:100%;height:auto" '
        f'font-family="system-ui,sans-serif" font-size="12" fill="currentColor">{INK}'
        f"{''.join(parts)}</svg>\n"
    )


def worth():
    """What replicated models are worth on real tables."""
    table = pd.read_csv(HERE / "results" / "worth.csv")
    table["task"] = table["task"].str.replace(" %", "%")
    equal = table[table["share"] == 1]
    (HERE / "pictures" / "results.svg").write_text(dot_plot(equal), encoding="utf-8")
    n_pairs, n_differ = int(equal["pairs"].sum()), int(equal[f"differ {PLAN}"].sum())
    kept = equal[f"kept {PLAN}"]
    sentence = (
        f"{kept.median():.1%} of the own fit's gain is kept on {equal['task'].nunique()} public "
        f"tasks (median; worst {kept.min():.1%})"
    )
    for page in (HERE.parent / "README.md", HERE / "index.md"):
        quote(page, sentence)
    n_thin = int((equal["pairs"] < 5).sum())
    thin = f" {n_thin} of {len(equal)} lines rest on fewer than five pairs." if n_thin else ""
    notes = HERE / "results" / "worth.md"
    splits = notes.read_text(encoding="utf-8").split("\n")[0] if notes.exists() else ""
    most = beta.ppf(0.95, n_differ + 1, n_pairs - n_differ)
    ahead = equal.dropna(subset="ahead")  # on the same splits
    many = ahead["task"].str.contains("classes")
    linear, splines, products = (
        ahead[~many & (ahead["basis"] == basis)]["ahead"]
        for basis in ("linear", "splines", "products")
    )
    yield f"""## What models are worth

`python benchmarks/worth.py DATA --before docs/results/worth.csv --write docs/results` splits public
tables into an original, a replication of the same size, and rows to test on; pairs of earlier runs
count, too. It uses the defaults: three bits, or four where
rounding would cost over 1%, and 99% planned agreement.{thin} {splits} (A split is fresh if it chose
no rule of the library. Lines with products are not blind: what they showed on splits 4000 to 4011
led to the shrinkage of products, whose size was chosen on older splits.)

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

The table as CSV: {{download}}`worth.csv <results/worth.csv>`.

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


def quote(page, sentence):
    """Put a sentence between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    marked = rf"\g<1>{sentence}\g<2>"
    new = re.sub(r"(<!-- worth -->).*?(<!-- /worth -->)", marked, text, flags=re.DOTALL)
    page.write_text(new, encoding="utf-8")


def hard():
    """Populations that are hard on purpose."""
    table = pd.read_csv(HERE / "results" / "hard.csv")
    n_differ, n_pairs = table["differ"].sum(), table["pairs"].sum()
    most = beta.ppf(0.95, n_differ + 1, n_pairs - n_differ)
    yield f"""## Populations that are hard on purpose

`python benchmarks/hard.py --write docs/results` draws an original and a replication from each of
{len(table)} invented populations, {table["pairs"].max()} times. Of {n_pairs:,} replications
{n_differ} get a different model, or none: {n_differ / n_pairs:.2%} (at most {most:.2%} with 95%
confidence), where 1% was planned. *Refused* are originals that must not be published, such as those
whose smallest labs may have no event. Lines about nearly separable classes and about labs of 200
are not blind: what they showed led to rules.

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
nothing has changed. The planned rate is a mean over originals; some originals lie close to the edge
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


def adversary():
    """Labs that search for a match."""
    table = pd.read_csv(HERE / "results" / "adversary.csv")
    claimed = table.iloc[0]
    tries = [name for name in table.columns if name.endswith("tries")]
    needed = claimed["claimed_search"]
    searching = f"{needed:,.0f} rows" if needed >= 1 else "needs none"
    yield f"""## Labs that search for a match

`python benchmarks/adversary.py --write docs/results` plays labs with few rows of
their own who try neighbouring models until the fingerprint fits. The studies claim that an honest
lab needs {claimed["claimed_rows"]:,.0f} rows, and one with 2^40 tries {searching}. A sealed
study allows no tries.

| rows | matches at once | {" | ".join(tries)} |
|--:|--:|{"--:|" * len(tries)}"""
    for _, line in table.iterrows():
        shares = " | ".join(f"{line[name]:.1%}" for name in tries)
        yield f"| {line['rows']:,.0f} | {line['direct']:.1%} | {shares} |"
    yield ""


def main():
    parts = [f"{WIDE}# Results\n\nThe command above each table printed its numbers.\n"]
    for part in (worth, hard, retraining, adversary):
        if (HERE / "results" / f"{part.__name__}.csv").exists():
            parts.extend(part())
    (HERE / "results.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
