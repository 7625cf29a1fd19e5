"""Audits: fit an original and a replication on disjoint rows, many times, and count."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from replearn.codes import Coins, seed_text
from replearn.errors import ReplearnError, probability, short, whole_number
from replearn.reports.centres import CentreAudit, leave_each_out
from replearn.reports.counts import CONFIDENCE, interval_of, verdict_of
from replearn.study import GlmReplication, GlmStudy, replicate
from replearn.tables import Column, Table, levels_of, open_table, some_rows
from replearn.types import Array, Ints
from replearn.words import (
    Facts,
    Figure,
    Row,
    Spoken,
    counted,
    followed,
    forest,
    percent,
    warned_once,
)

_MOST_TEST = 2000
_LEAST_LAB = 50


@dataclass(frozen=True)
class Audit(Spoken):
    """How often two labs got the same model.

    Attributes
    ----------
    n_rows : int
        Rows of each lab.
    claim : float
        Share of pairs that may differ.
    compared : str
        "fingerprints", or "predictions" where a classifier has none.
    churn : float or None
        Mean share of test rows that the two models of a pair label differently.
    accuracy, majority : float or None
        Mean share of test rows that are right, and that of the most frequent class.
    conditional : bool
        Whether pairs are halves of one table: the interval then speaks of these rows.
    least_rows : int
        Rows of a lab that the claim is made for.
    n_all : int
        Rows of the table that was cut into labs; 0 where none was.
    n_pairs : int
        Pairs of labs.
    n_different : int
        Pairs that got different models.

    See Also
    --------
    audit : makes one.
    replearn.reports.centres.CentreAudit : centre by centre.

    Notes
    -----
    The interval is that of Clopper and Pearson. Pairs that are halves of one table share its
    rows, so it speaks of these rows, and not of the population.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 5, margin=0.4, random_state=0)
    >>> found = rl.audit(rl.ReplicableSVMClassifier(margin=0.4, sketch_bits=3), X, y, n_pairs=3)
    >>> found.n_pairs, found.n_rows, found.verdict
    (3, 800, 'undecided')
    """

    n_pairs: int
    n_different: int
    n_rows: int
    claim: float
    compared: str = "fingerprints"
    churn: float | None = None
    accuracy: float | None = None
    majority: float | None = None
    conditional: bool = True
    least_rows: int = 0
    n_all: int = 0

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper-Pearson, 95%: of the share of pairs that differ."""
        return interval_of(self.n_different, self.n_pairs)

    @property
    def verdict(self) -> str:
        """Word for it: "within" if the claim is shown, "exceeds" if refuted, else "undecided"."""
        return verdict_of(self.n_different, self.n_pairs, self.claim)

    def facts(self) -> Facts:
        """In words."""
        n_same = self.n_pairs - self.n_different
        low, high = self.interval
        seen = f"In {n_same} of {counted(self.n_pairs, 'pair')} both labs got the same model"
        if not self.conditional:
            seen = f"{n_same} of {counted(self.n_pairs, 'lab')} got the original's model"

        # so many pairs without a difference would show the claim
        needed = math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-self.claim))
        meaning = {
            "within": f"the claimed agreement of {percent(1 - self.claim)} is shown",
            "exceeds": f"less than the claimed {percent(1 - self.claim)}",
            "undecided": f"too few to show or refute {percent(1 - self.claim)}",
        }[self.verdict]
        items: list[Any] = [
            Row("agreement", n_same / self.n_pairs, "%", (1 - high, 1 - low)),
            Row("rows of each lab", self.n_rows),
            Row("compared", self.compared),
        ]
        if self.churn is not None:
            note = "of test rows, the mean of pairs"
            items.append(Row("labels that differ", self.churn, "%", note=note))
        if self.accuracy is not None:
            note = f"the most frequent class alone {percent(self.majority or 0.0)}"
            items.append(Row("accuracy", self.accuracy, "%", note=note))

        # what the numbers do not say
        if self.verdict == "undecided":
            items.append(f"At least {needed:,} in full agreement are needed to show it.")
            items += self._sizes(needed)
        if self.n_rows < self.least_rows:
            items.append(f"The claim is made for labs with {self.least_rows:,} rows or more.")
        if self.conditional:
            items.append("Pairs are halves of one table: the interval speaks of these rows.")
        return Facts(
            f"{seen}: {meaning}.",
            items,
            figures=[Figure("Agreement rate", self._picture, "With its 95% confidence interval.")],
            values={
                "verdict_word": self.verdict,
                "pairs": self.n_pairs,
                "different": self.n_different,
                "disagreement": self.n_different / self.n_pairs,
                "interval": [low, high],
            },
        )

    def _sizes(self, needed: int) -> list[str]:
        """What to try where a table makes too few labs."""
        n_rows = self.n_all // needed
        if self.n_rows * needed <= self.n_all or not self.least_rows:
            return []
        said = f"This table makes {counted(self.n_all // self.n_rows, 'such lab')}."
        if n_rows < _LEAST_LAB:
            return [f"{said} For {needed:,} labs take a larger one."]
        return [f"{said} A study that plans for --rows {n_rows} makes {needed:,} of it."]

    def _picture(self) -> str:
        rate, (low, high) = 1 - self.n_different / self.n_pairs, self.interval
        counted = ("counted", percent(rate), rate, 1 - high, 1 - low)
        claim = 1 - self.claim
        marks = [counted, ("claimed", percent(claim), claim, claim, claim)]
        ticks = [(tenths / 10, f"{tenths}0%") for tenths in range(1, 10)]
        return forest(marks, claim, "claim", ticks=ticks)


def audit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n_pairs: int | None = None,
    n_rows: int | None = None,
    max_disagreement: float | None = None,
    seed: int | str = 0,
    by: Any = None,
) -> "Audit | CentreAudit":
    """Count how often two labs get the same model, by fitting on disjoint rows.

    Each pair has its own random split. One half is the original's, the other the replication's: a
    GLM of replearn replicates the original's study; any other classifier is fitted twice. With
    ``by`` there are no splits: each centre replicates the model of all others.

    Parameters
    ----------
    estimator : scikit-learn classifier or regressor
        Cloned for each fit, never changed.
    X : dataframe, array or sparse matrix
        Rows of all labs.
    y : array-like
        Labels or numbers.
    n_pairs : int, default=30
        Pairs of labs to fit.
    n_rows : int, optional
        Of each lab; by default half of the rows that are not kept for tests.
    max_disagreement : float, optional
        The claim; by default the estimator's, or 0.1.
    seed : int or str
        Of the splits, so that an audit can be repeated.
    by : str or array, optional
        Centres: a column of X, which is then no predictor, or a value for each row. The estimator
        must be a GLM of replearn.

    Returns
    -------
    audit : Audit or CentreAudit
        ``print`` it; ``audit.n_different`` pairs got different models.

    See Also
    --------
    plan : what the paper's algorithms promise.
    compare : models that are there already.

    Notes
    -----
    The interval is that of Clopper and Pearson. Pairs cut from one table share rows with other
    pairs, so it speaks of that table. By centre, means and prediction intervals are those of a
    random-effects summary [Higgins09].

    References
    ----------
    .. [Higgins09] Higgins, Thompson and Spiegelhalter. A re-evaluation of random-effects meta-
       analysis. JRSS A 172(1), 2009.

    Examples
    --------
    >>> import replearn as rl
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> audit(LogisticRegression(), X, y, n_pairs=3).n_different
    3
    """
    from sklearn.base import clone

    y = np.asarray(y)
    if by is not None:
        if n_pairs is not None or n_rows is not None:
            raise ReplearnError("by leaves out whole centres. Leave out n_pairs and n_rows.")
        with warned_once():
            return _by_centre(estimator, X, y, by, max_disagreement)

    # 1 sizes and the claim
    n_pairs = whole_number("n_pairs", 30 if n_pairs is None else n_pairs)
    n_rows = _rows_of_lab(n_rows, len(y))
    if max_disagreement is None:
        max_disagreement = getattr(estimator, "max_disagreement", 0.1)
    claim = probability("max_disagreement", max_disagreement, "0.05")

    # 2 pairs of labs, each of its own split
    coins = Coins(seed_text(seed, "seed"))
    pairs: list[_Pair] = []
    with warned_once():
        for place in followed(range(n_pairs), "auditing", n_pairs):
            order = coins.row_order(f"audit/{place}", len(y))
            pairs.append(_Pair.of(clone(estimator), clone(estimator), X, y, order, n_rows))

    # 3 counts; labels that differ or are right are those of classifiers
    n_different = sum(pair.different for pair in pairs)
    counts = Audit(n_pairs, n_different, n_rows, claim, pairs[0].compared)
    if not pairs[0].has_classes:
        return counts
    churns = [pair.churn for pair in pairs if pair.churn is not None]
    rights = [pair.right for pair in pairs if pair.right is not None]
    if churns:  # of one pair all test rows, of others none
        counts = replace(counts, churn=float(np.mean(churns)), accuracy=float(np.mean(rights)))
    return replace(counts, majority=float(np.unique(y, return_counts=True)[1].max()) / len(y))


def _rows_of_lab(n_rows: int | None, total: int) -> int:
    """Rows of each lab: as asked for, or half of what is not kept for tests."""
    if n_rows is None:
        # rows that neither lab sees show how often two models differ in what they say
        n_rows = (total - min(_MOST_TEST, total // 5)) // 2
    else:
        n_rows = whole_number("n_rows", n_rows)
    if not _LEAST_LAB <= n_rows <= total // 2:
        raise ReplearnError(
            f"two labs with {n_rows:,} rows each cannot be cut from {total:,} rows. A lab has at "
            f"least {_LEAST_LAB} rows; get more rows, or pass a smaller n_rows."
        )
    return n_rows


@dataclass(frozen=True)
class _Pair:
    """What two labs got from disjoint rows."""

    different: bool
    compared: str
    has_classes: bool
    churn: float | None = None
    right: float | None = None

    @classmethod
    def of(cls, first: Any, second: Any, X: Any, y: Array, order: Ints, n_rows: int) -> "_Pair":
        """Fit an original and its replication, and compare."""
        here, there = order[:n_rows], order[n_rows : 2 * n_rows]
        first.fit(some_rows(X, here), y[here])
        if getattr(first, "study_", None) is not None and "study" in first.get_params():
            second.set_params(study=first.study_)
        second.fit(some_rows(X, there), y[there])

        # any other classifier has no fingerprint, and is known by what it predicts
        compared = "fingerprints" if hasattr(first, "fingerprint_") else "predictions"
        if compared == "fingerprints":
            different = bool(first.fingerprint_ != second.fingerprint_)
        else:
            different = bool(_predicts_differently(first, second, some_rows(X, order)))

        pair = cls(different, compared, hasattr(first, "classes_"))
        test = order[2 * n_rows :][:_MOST_TEST]
        if not test.size:
            return pair
        said, also = (np.asarray(one.predict(some_rows(X, test))) for one in (first, second))
        churn, right = float(np.mean(said != also)), float(np.mean(said == y[test]))
        return replace(pair, churn=churn, right=right)


def _by_centre(
    estimator: Any, X: Any, y: Array, by: Any, max_disagreement: float | None
) -> CentreAudit:
    """Each centre replicates the study of all others."""
    from sklearn.base import clone

    # a survival model knows centres, too, but its rows are not those of one table
    takes_centres = "centres" in signature(estimator.fit).parameters
    if not takes_centres or hasattr(estimator, "predict_survival"):
        raise ReplearnError(
            "by needs a logistic, linear or Poisson model of replearn, whose studies know centres, "
            f"got {type(estimator).__name__}."
        )

    # centres, by name or by value; they are no predictor
    name, centre = "centre", by
    if isinstance(by, str):
        name = by
        X, centre = _without_column(X, by)
    centre = np.asarray(centre)
    if len(centre) != len(y):
        raise ReplearnError(
            f"by must have a value for each of the {len(y):,} rows, got {len(centre):,}."
        )

    # each fit sees all centres but one, which then replicates it
    if max_disagreement is None:
        max_disagreement = estimator.max_disagreement
    claim = probability("max_disagreement", max_disagreement)

    def replicated(here: Ints) -> GlmReplication:
        others = np.setdiff1d(np.arange(len(y)), here)
        first = clone(estimator).fit(some_rows(X, others), y[others], centres=centre[others])
        table = open_table(some_rows(X, here), target=y[here])
        return replicate(first.study_, table, opened=first.model_)[1]

    return leave_each_out(centre, replicated, claim, name)


def _without_column(X: Any, name: str) -> tuple[Any, Array]:
    """A table without a column, and that column."""
    names = list(X) if isinstance(X, dict) else list(getattr(X, "column_names", None) or X.columns)
    if name not in names:
        raise ReplearnError(f"by must be a column of X, got {name!r}. X has {short(names)}.")
    if isinstance(X, dict):
        return {key: values for key, values in X.items() if key != name}, labels_of(X[name])

    import narwhals.stable.v1 as nw

    frame = nw.from_native(X, eager_only=True)
    return frame.drop(name).to_native(), frame[name].to_numpy()


def audit_study(
    study: GlmStudy, table: Table, n_rows: int, most: int, seed: int | str = 0
) -> Audit:
    """Count how many labs, disjoint random parts of a table, get the original's model.

    No row of the table may be the original's. The claim is the study's.
    """
    n_all, replicated = _replications(study, table)
    labs = _parts(n_all, n_rows, most, seed)
    claim = float(study.max_disagreement)
    return replace(_count(replicated, labs, claim, study.n_replication), n_all=n_all)


def audit_study_by(study: GlmStudy, table: Table, centre: Array, by: str) -> CentreAudit:
    """Let each centre of a table replicate one study."""
    _, replicated = _replications(study, table)
    return leave_each_out(centre, replicated, float(study.max_disagreement), by, of_study=True)


def _replications(study: GlmStudy, table: Table) -> tuple[int, Callable[[Ints], GlmReplication]]:
    """Rows of a table, and what replicates a study with some of them."""
    # nobody can count matches with a model that the study does not tell
    if study.commitment is None or study.sealed:
        raise ReplearnError(
            "audits need a study with an open commitment, got a sealed or registered one. Compare "
            "the labs' models with each other instead."
        )

    table = table.kept()
    columns = table.columns()
    used = ("target", "weights", "offset")
    roles = {role: table.whole(role) for role in used if role in table.roles}

    def replicated(rows: Ints) -> GlmReplication:
        lab = open_table(some_rows(columns, rows), **some_rows(roles, rows))
        return replicate(study, lab)[1]

    return len(roles["target"]), replicated


def _count(
    replicated: Callable[[Ints], Any], labs: list[Ints], claim: float, least_rows: int = 0
) -> Audit:
    replications = [replicated(rows) for rows in followed(labs, "auditing", len(labs))]
    n_labs = len(replications)
    n_different = sum(not one.same for one in replications)
    n_rows = min(one.n_rows for one in replications)
    return Audit(n_labs, n_different, n_rows, claim, conditional=False, least_rows=least_rows)


def audit_replications(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n_rows: int | None = None,
    most: int = 20,
    seed: int | str = 0,
) -> Audit:
    """Count how many of several labs, random parts of these rows, get the halfspace of a study.

    The estimator has the original's ``study`` and is cloned for each lab. None of the rows may be
    the original's; a lab has by default as many as that.
    """
    from sklearn.base import clone

    study = estimator.study

    def replicated(rows: Ints) -> Any:
        return clone(estimator).fit(some_rows(X, rows), y[rows]).replication_

    labs = _parts(len(y), n_rows or study.n_original, most, seed)
    return _count(replicated, labs, float(study.plan.max_disagreement))


def labels_of(column: Column) -> Array:
    """Labels as an array: numbers, or texts."""
    if isinstance(column, np.ndarray):
        return column
    codes, texts = levels_of(column)
    return np.array([*texts, None], dtype=object)[codes]


def _parts(total: int, n_rows: int, most: int, seed: int | str) -> list[Ints]:
    """Places of disjoint random parts, so many rows each."""
    if total < n_rows:
        raise ReplearnError(
            f"a lab of {n_rows:,} rows cannot be cut from {total:,} rows. Get more rows, or ask "
            "for fewer rows of each lab."
        )
    # an audit can be repeated, and labs share no row
    order = Coins(seed_text(seed, "seed")).row_order("audit/parts", total)
    n_parts = min(most, total // n_rows)
    return [order[part * n_rows : (part + 1) * n_rows] for part in range(n_parts)]


def _predicts_differently(first: Any, second: Any, X: Any) -> bool:
    """Whether two foreign models differ: by their numbers where they show them, else by labels."""
    # the first that both have: numbers tell models apart that agree in their labels
    for name in ("coef_", "decision_function", "predict_proba", "predict"):
        mine, theirs = getattr(first, name, None), getattr(second, name, None)
        if mine is not None and theirs is not None:
            pair = (mine(X), theirs(X)) if callable(mine) else (mine, theirs)
            return not np.array_equal(np.asarray(pair[0]), np.asarray(pair[1]))
    raise ReplearnError(f"{type(first).__name__} must have predict. Pass a classifier.")
