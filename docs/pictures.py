"""Draw the pictures of the documentation from seeded data (about 30 seconds).

    python docs/pictures.py [FOLDER]        default: docs/pictures

Sixteen hospitals have 4,000 invented patients each, and base risks that differ as those of
hospitals do; the first publishes, the others replicate.
Performance is measured on 20,000 new patients. The script prints the numbers that pages quote.
Where chromedriver is installed, it photographs study.html, too.
"""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import replearn as rl
from replearn.datasets import load_readmission
from replearn.reports.bundle import write_bundle
from replearn.study import replicate
from replearn.tables import open_table
from replearn.words import Rung, counted, ladder, where_we_landed
from replearn.words.pictures import dot, svg

HOSPITALS, PATIENTS, TARGET = 16, 4000, "readmitted"
# pictures that stand alone, in a README, choose their ink; inside a page they take the page's
INK = (
    "<style>svg:root{color:#1f2328}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
)


def split(table):
    return table.drop(columns=TARGET), table[TARGET]


def with_base_risk(table, shift, coins):
    """Patients of a hospital whose log-odds are shifted: rows of one outcome are left out.

    In a logistic model that moves the constant by ``shift`` and no slope.
    """
    event = table[TARGET] == 1
    thinned = event if shift < 0 else ~event
    kept = ~thinned | (coins.random(len(table)) < np.exp(-abs(shift)))
    return table[kept].head(PATIENTS).reset_index(drop=True)


@cache
def hospitals():
    """Hospitals differ as 90 real ones do: by 0.18 in log-odds (standard deviation)."""
    coins = np.random.default_rng(2026)
    tables = [load_readmission("Ashford", PATIENTS)]
    for number, shift in enumerate(coins.normal(0, 0.18, HOSPITALS - 1)):
        drawn = load_readmission("Dunmore", 3 * PATIENTS, seed=number)
        tables.append(with_base_risk(drawn, shift, coins))
    return tables


@cache
def new_patients():
    return split(load_readmission("Castleton", 20_000))


@cache
def original(basis="linear"):
    return rl.ReplicableLogisticClassifier(basis=basis).fit(*split(hospitals()[0]))


def replication(table, first):
    """A lab's fit beside the opened original."""
    return replicate(first.study_, open_table(table, target=TARGET), opened=first.model_)[1]


def own_model(table):
    """What a hospital would do alone: scikit-learn's logistic regression."""
    numbers = make_column_selector(dtype_include="number")
    levels = make_column_selector(dtype_exclude="number")
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), levels),
    )
    return make_pipeline(columns, LogisticRegression()).fit(*split(table))


def removed(model):
    """Share of the base rate's log-loss that a model removes for new patients."""
    X, y = new_patients()
    base = log_loss(y, np.full(len(y), y.mean()))
    return 1 - float(log_loss(y, model.predict_proba(X)[:, 1]) / base)


def sixteen_scores(own: Sequence[float], replicated: Sequence[float], patient: str) -> str:
    """Draw what hospitals tell one patient: a dot for each, stacked by whole percents.

    Risks, 0 to 1, by each hospital's own model, and by its replication of one study.
    """
    low = 5 * int(100 * min(*own, *replicated) / 5)
    high = 5 * -int(-100 * max(*own, *replicated) // 5)
    left, right, width = 24, 576, 600
    per_percent = (right - left) / max(1, high - low)
    parts = [f'<text x="{left}" y="20" font-size="18">{escape(patient)}</text>']
    top = 34
    for risks, color in ((own, 1), (replicated, 0)):
        stacks = Counter(round(100 * risk) for risk in risks)
        floor = top + 34 + 11 * max(stacks.values())
        different = len(set(risks))
        said = f"{len(risks)} hospitals, each its own model: {different} different risks"
        if color == 0:
            said = f"{len(risks)} hospitals, one replicated model: {risks_in_words(different)}"
        words = f'<text x="{left}" y="{top + 16}" font-weight="600" font-size="16">{said}</text>'
        parts.append(words)
        for share, n_here in stacks.items():
            x = left + (share - low) * per_percent
            parts += [dot(x, floor - 8 - 11 * i, color, 5) for i in range(n_here)]
        parts.append(
            f'<line x1="{left}" x2="{right}" y1="{floor}" y2="{floor}" stroke="currentColor" '
            'stroke-opacity="0.5"/>'
        )
        for share in range(low, high + 1, 5):
            x = left + (share - low) * per_percent
            parts.append(
                f'<text x="{x:.1f}" y="{floor + 17}" text-anchor="middle" font-size="15" '
                f'fill-opacity="0.8">{share}%</text>'
            )
        top = floor + 28
    words = "risk of readmission within 30 days"
    parts.append(f'<text x="300" y="{top + 14}" text-anchor="middle">{words}</text>')
    label = (
        f"{patient}: own models of {len(own)} hospitals say {min(own):.0%} to {max(own):.0%}; "
        f"replicated models say {risks_in_words(len(set(replicated)))}."
    )
    return svg(width, top + 24, parts, label)


def risks_in_words(different: int) -> str:
    return "one risk" if different == 1 else f"{different} different risks"


def draw_scores():
    some = new_patients()[0][:300]
    own = np.array([own_model(table).predict_proba(some)[:, 1] for table in hospitals()])
    who = int(np.argsort(np.abs(own[0] - 0.4))[0])  # near 40% at the first hospital
    first = original()
    models = [first] + [
        rl.ReplicableLogisticClassifier(study=first.study_).fit(*split(table))
        for table in hospitals()[1:]
    ]
    ours = [float(model.predict_proba(some[who : who + 1])[0, 1]) for model in models]
    row = some.iloc[who]
    before = counted(int(row.prior_admissions), "earlier admission")
    text = f"One patient: {row.age} years, NYHA class {row.nyha}, {before}"
    print(f"{text}: own models {own[:, who].min():.1%} to {own[:, who].max():.1%}")
    print(f"replicated: {len({model.fingerprint_ for model in models})} model, {ours[0]:.1%}")
    return sixteen_scores(own[:, who].tolist(), ours, text)


def draw_ladder():
    curved = original("splines")
    n_same = 1 + sum(replication(table, curved).same for table in hospitals()[1:])
    alone = [
        rl.ReplicableLogisticClassifier(basis="splines").fit(*split(table))
        for table in hospitals()[1:5]
    ]
    assert len({model.fingerprint_ for model in (curved, *alone)}) == 5
    everyone = f"{HOSPITALS} of {HOSPITALS}"
    return rungs(
        ("the base rate", 0.0, everyone),
        ("a published model of 1,000", removed(own_model(hospitals()[0][:1000])), everyone),
        ("the replicated model", removed(curved), f"{n_same} of {HOSPITALS}"),
        ("a hospital's own model", sum(map(removed, alone)) / 4, "nobody else"),
        unit="log-loss removed, new patients",
        ours="the replicated model",
    )


def rungs(*lines, unit, ours):
    for name, worth, agree in lines:
        print(f"  {name}: {worth:.1%}, {agree}")
    return ladder(
        [Rung(name, x, f"{x:.1%}", agree, name == ours) for name, x, agree in lines], unit
    )


def landed(first, **labs):
    found = {name: replication(table, first) for name, table in labs.items()}
    print("  " + ", ".join(f"{name}: same {lab.same}" for name, lab in found.items()))
    names = next(iter(found.values())).names
    return where_we_landed(names, {name: lab.landed for name, lab in found.items()}, 12)


def draw_landed():
    others = ("Birchwood", "Castleton", "Dunmore")
    return landed(original(), **{name: load_readmission(name, PATIENTS) for name in others})


def draw_validate():
    table = load_readmission("Castleton", PATIENTS)
    planned = (table.admission == "planned") & (table.prior_admissions >= 1)
    table.loc[planned, TARGET] = 1
    return landed(original(), Birchwood=load_readmission("Birchwood", PATIENTS), Castleton=table)


def draw_retrain():
    """Six months make the original; July is like them, and in August something has changed."""
    names = ("January", "February", "March", "April", "May", "June")
    tables = [load_readmission("Ashford", PATIENTS, seed=name) for name in names]
    X, y = split(pd.concat(tables, ignore_index=True))
    month = np.repeat(names, PATIENTS)
    first = rl.ReplicableLogisticClassifier().fit(X, y, centres=month)
    july, august = (load_readmission("Ashford", PATIENTS, seed=name) for name in ("July", "August"))
    august.loc[august.discharge_to == "nursing home", TARGET] = 0
    return landed(first, July=july, August=august)


def draw_rows():
    """Agreement against the rows of a lab: estimated lines, and labs that were run."""
    study, opened = original().study_, original()
    sizes = [125 * 2**k for k in range(7)]
    left, right, floor, top = 70, 565, 250, 40

    def across(n_rows):
        return left + (right - left) * np.log2(n_rows / sizes[0]) / np.log2(sizes[-1] / sizes[0])

    def up(rate):
        return floor - (floor - top) * rate

    parts = [f'<text x="{left - 50}" y="20">centres with the original\'s model</text>']
    for rate in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            f'<text x="{left - 10}" y="{up(rate) + 5:.1f}" text-anchor="end">{rate:.0%}</text>'
            f'<path d="M{left} {up(rate):.1f}H{right}" stroke="currentColor" '
            'stroke-opacity="0.15"/>'
        )
    for n_rows in sizes:
        x = across(n_rows)
        parts.append(f'<text x="{x:.1f}" y="{floor + 22}" text-anchor="middle">{n_rows:,}</text>')
    words = "patients of the centre that replicates"
    parts.append(f'<text x="318" y="{floor + 46}" text-anchor="middle">{words}</text>')

    # what is estimated, for labs of one population and for new centres
    kinds = (("sample of one population", 0, "", False), ("typical new centre", 1, "6 4", True))
    for place, (name, mark, dashes, new_centre) in enumerate(kinds):
        points = []
        for n_rows in sizes:
            rate = 1 - study.disagreement(n_rows, new_centre=new_centre)
            points.append(f"{across(n_rows):.1f},{up(rate):.1f}")
        color = ("#0072b2", "#d55e00")[mark]
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" '
            f'stroke-width="2.5" stroke-dasharray="{dashes}"/>'
            f'<path d="M340 {floor - 62 + 24 * place}h30" stroke="{color}" stroke-width="2.5" '
            f'stroke-dasharray="{dashes}"/>'
            f'<text x="380" y="{floor - 57 + 24 * place}">{name}</text>'
        )

    # what was counted
    said = []
    for n_rows in sizes[:5]:
        labs = (load_readmission("Ashford", n_rows, seed=f"rows/{i}") for i in range(40))
        n_same = sum(replication(table, opened).same for table in labs)
        parts.append(dot(across(n_rows), up(n_same / 40), 2, 5))
        said.append(f"{n_same} of 40 labs of {n_rows:,}")
        print(f"  {said[-1]} agree")
    parts.append(
        dot(355, floor - 14, 2, 5) + f'<text x="380" y="{floor - 9}">counted, 40 samples</text>'
    )
    return svg(600, floor + 56, parts, f"Agreement against sample size: {'; '.join(said)} agree.")


def survival_centre(name, seed):
    """The invented centres of docs/guide/survival.md."""
    table = load_readmission(name, PATIENTS).drop(columns=TARGET)
    risk = np.exp(0.04 * (table["age"] - 72) + 0.5 * (table["nyha"] == "IV"))
    coins = np.random.default_rng(seed)
    death, end = coins.exponential(900 / risk), coins.uniform(100, 1000, PATIENTS)
    times = pd.DataFrame({"died": death <= end, "days": np.ceil(np.minimum(death, end))})
    return table, times.to_records(index=False)


def kaplan_meier(y, days):
    """The share of patients that have had the event by each day."""
    order = np.argsort(y["days"])
    at_risk = len(y) - np.searchsorted(y["days"][order], y["days"][order])
    left = np.cumprod(1 - y["died"][order] / at_risk)
    return 1 - left[np.searchsorted(y["days"][order], days, side="right") - 1]


def draw_survival():
    """One model of two centres, beside what was observed at the second."""
    (first_X, first_y), (X, y) = survival_centre("Ashford", 1), survival_centre("Birchwood", 2)
    first = rl.ReplicableSurvivalAnalysis().fit(first_X, first_y)
    second = rl.ReplicableSurvivalAnalysis(study=first.study_).fit(X, y)
    print(f"  Birchwood: same {second.replication_.same}")
    left, right, floor, top = 70, 565, 230, 40
    days = np.arange(25, 901, 25)

    def across(day):
        return left + (right - left) * day / 900

    def up(share):
        return floor - (floor - top) * share / 0.75

    parts = [f'<text x="{left - 50}" y="20">patients with the event, Birchwood</text>']
    for share in (0.0, 0.25, 0.5, 0.75):
        parts.append(
            f'<text x="{left - 10}" y="{up(share) + 5:.1f}" text-anchor="end">{share:.0%}</text>'
            f'<path d="M{left} {up(share):.1f}H{right}" stroke="currentColor" '
            'stroke-opacity="0.15"/>'
        )
    for day in range(0, 901, 150):
        x = across(day)
        parts.append(f'<text x="{x:.1f}" y="{floor + 22}" text-anchor="middle">{day}</text>')
    parts.append(f'<text x="318" y="{floor + 46}" text-anchor="middle">days</text>')

    # the model's mean risk as a line, what was observed as marks
    predicted = 1 - second.predict_survival(X, days).mean(axis=0)
    points = zip([0, *days], [0.0, *predicted], strict=True)
    path = " ".join(f"{across(day):.1f},{up(share):.1f}" for day, share in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="#0072b2" stroke-width="2.5"/>')
    observed = kaplan_meier(y, days)
    parts += [dot(across(days[i]), up(observed[i]), 1) for i in range(2, len(days), 3)]

    legend = (f'<path d="M340 {floor - 38}h30" stroke="#0072b2" stroke-width="2.5"/>', "predicted")
    marks = (dot(355, floor - 19, 1), "observed (Kaplan and Meier)")
    for place, (drawn, words) in enumerate((legend, marks)):
        parts.append(f'{drawn}<text x="380" y="{floor - 33 + 19 * place}">{words}</text>')
    gap = np.abs(predicted - observed).max()
    return svg(600, floor + 56, parts, f"Predicted and observed risk differ by {gap:.1%} at most.")


def photograph(folder):
    """The page study.html in a real browser: as it opens, after a fit, and with a question."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.contract.browser import Browser

    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_bundle(original().study_, place / "bundle")
        table = load_readmission("Birchwood", PATIENTS)
        table.to_csv(place / "birchwood.csv", index=False)
        table.assign(age=12 * table["age"]).to_csv(place / "months.csv", index=False)
        for picture, file, part in (
            ("study-page-start", None, "step-table"),
            ("study-page", "birchwood.csv", "result"),
            ("study-page-question", "months.csv", "result"),
        ):
            (place / picture).mkdir()
            with Browser(place / picture, 900) as browser:
                browser.open(place / "bundle" / "study.html")
                if file is not None:
                    browser.choose("file", place / file)
                    browser.wait("!document.getElementById('result').hidden")
                # a picture that looks as if it could be scrolled misleads
                browser.run("document.documentElement.style.overflow = 'hidden'")
                browser.run(f"document.getElementById('{part}').scrollIntoView()")
                browser.run("window.scrollBy(0, -24)")
                browser.picture(folder / f"{picture}.png")


PICTURES = {
    "sixteen-scores": draw_scores,
    "ladder": draw_ladder,
    "where-we-landed": draw_landed,
    "validate": draw_validate,
    "retrain": draw_retrain,
    "rows": draw_rows,
    "survival": draw_survival,
}


def main(folder):
    folder.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        print(name)
        opening, rest = draw().split(">", 1)
        (folder / f"{name}.svg").write_text(f"{opening}>{INK}{rest}\n", encoding="utf-8")
    if shutil.which("chromedriver"):
        photograph(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
