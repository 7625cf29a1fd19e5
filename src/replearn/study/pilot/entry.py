"""The one function that plans a study from a pilot."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from replearn.codes.decimals import Decimals
from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.published import Published
from replearn.errors import ReplearnError
from replearn.estimators.checks import check_whole, class_factors
from replearn.plans.sizes import decimal
from replearn.sources.labels import Labels, label_values
from replearn.study.pilot.many_classes import plan_many_classes
from replearn.study.pilot.net_plan import NetPilotPlan, plan_net_study
from replearn.study.pilot.pilot_plan import PilotPlan
from replearn.study.pilot.request import Request
from replearn.study.pilot.safe_columns import RARE, Remark, publishable
from replearn.study.pilot.scores import PublishedScore
from replearn.study.pilot.svm_plan import SvmPilotPlan, plan_svm_study
from replearn.study.pilot.two_classes import plan_logistic_study
from replearn.types import IntegerArray, Signs

#: Recipes that can be planned from a pilot, and the numbers of the paper's algorithms.
ALGORITHMS = ("logistic", "svm", "sgd", "net", "auto")
_NUMBERS = {"svm": 1, "sgd": 2, "net": 3}

MIN_ROWS, MIN_OF_CLASS = 100, 5

#: Settings of Algorithm 1 that are tried: its accuracy changes little between them.
_FEW = (0.03, 0.3)


def plan_from_pilot(
    X: Any,
    y: Any = None,
    *,
    samples_per_site: int,
    max_disagreement: float = 0.1,
    shared_seed: int | str = 0,
    algorithm: str = "logistic",
    study: str = "updating",
    hint_bits: int = 0,
    sites: int = 2,
    scores: Sequence[PublishedScore] = (),
    categories: Sequence[str] = (),
    numeric: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    rare: int = RARE,
    threshold: float | str = "share",
    target: str | None = None,
    classes: tuple[Any, ...] | None = None,
    share: float | None = None,
    failure_prob: float = 0.05,
    class_weight: dict[Any, float] | str | None = None,
    **svm: Any,
) -> PilotPlan | SvmPilotPlan | NetPilotPlan:
    """Choose everything that sites must share from a pilot sample, and say what it is worth.

    Parameters
    ----------
    X : dataframe, mapping of columns, array or CSR matrix of shape (n_pilot, n_columns)
        At least 100 rows; 1,000 are good. Text columns are categories.
    y : array of labels, or None
        Without labels the study is a discovery, and needs ``classes`` and ``share``.
    samples_per_site : int
        Rows that each site will have.
    max_disagreement : float, default=0.1
        Wanted probability that not all sites get the same model; the plan aims at 80 % of it,
        since a pilot errs too.
    shared_seed : int or str, default=0
        The published seed. If the pilot's labels say that the model may rank the wrong way round
        under it, the protocol has the next one ("seed/2"), and the plan says so.
    algorithm : {"logistic", "svm", "sgd", "net", "auto"}, default="logistic"
        Logistic regression in a few published directions, or Algorithm 1, 2 or 3 of the paper, the
        last with a net over 2 to 6 published directions. "auto" takes logistic regression or
        Algorithm 1, by balanced accuracy on held-out rows, and says what the other would give.
    study : {"updating", "discovery"}, default="updating"
        Whether the published directions may know the pilot's labels.
    hint_bits : int, default=0
        The first site publishes this many bits about where its estimate lies, and cells can be far
        narrower. 0 is the paper's notion of replicability.
    sites : int, default=2
        All of them agree, except with probability ``max_disagreement``.
    scores : sequence of mappings or models
        Published scores, as weights of columns: they become the first directions. They know
        labels, so the study is an updating one.
    categories : sequence of str
        Columns of numbers that are categories.
    numeric : sequence of str
        Columns of numbers that look like something else: text, dates, identifiers.
    columns : sequence of str, optional
        Columns to use, in this order; default all.
    drop : sequence of str
        Columns to leave out.
    rare : int, default=10
        Categories in fewer rows of the pilot are not published, but folded into "(other)".
    threshold : float, "share", "half" or a ratio of costs, default="share"
        Probability from which on a row gets the second label. "share" is the pilot's share of it;
        "5:1" says that to miss one costs as much as five false alarms.
    target : str, optional
        Name of the label column, kept in the protocol.
    classes : tuple of two labels, optional
        Without labels: those of the sites, negative first.
    share : float, optional
        Without labels: the expected share of the second one.
    failure_prob : float, default=0.05
        Probability that a certificate's bound is wrong.
    class_weight : dict from labels to numbers, "balanced" or None, default=None
        How much the loss of a class's rows counts. "balanced" is one over the pilot's share of the
        class; the numbers are published in the protocol, so all sites use the same.
    **svm
        For Algorithms 1 and 2: ``margin, max_error, fit_intercept, projections``, for Algorithm 1
        also ``estimates``; for Algorithm 3 ``margin, fit_intercept``.

    Returns
    -------
    PilotPlan, SvmPilotPlan or NetPilotPlan
        With ``protocol``, and printable: what the protocol is worth next to the base rate, the
        pilot's own model and one site's rows; what 0, 2, 4 and 8 hint bits would give; cautions.

    Notes
    -----
    Everything is judged by rows that it has not seen: five folds, with scaling chosen by held-out
    log-loss, directions made on four folds, information, variance and signal taken from the
    fifth. The family of directions and their number then follow from a formula (expected gain
    after rounding, `replearn.study.pilot.allotment`), not from a search over noisy scores.
    Tested in tests/theory/test_pilot.py.

    Examples
    --------
    >>> from replearn.datasets import make_margin
    >>> X, y = make_margin(1000, 5, margin=0.05, random_state=0)
    >>> plan = plan_from_pilot(X, y, samples_per_site=20_000, hint_bits=4)
    >>> plan.table[2].auc > 0.9
    True
    """
    if algorithm not in ALGORITHMS:
        raise ReplearnError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}.")
    if y is not None and (classes is not None or share is not None):
        raise ReplearnError(
            f"classes and share are for a pilot without labels, got {classes!r} and {share!r} with "
            "labels. Leave them out."
        )
    if classes is not None:
        classes = Published(classes=tuple(classes)).classes  # checked before any work
    numbers, classes = (None, classes) if y is None else _read_labels(y)
    signs: Signs | None = None
    if numbers is not None:
        signs = np.where(numbers > 0, 1, -1).astype(np.int8)
    choice = {"columns": columns, "drop": drop, "categories": categories, "numeric": numeric}
    X, remarks = publishable(X, signs, choice, rare)
    request = Request(
        samples_per_site=samples_per_site,
        max_disagreement=max_disagreement,
        failure_prob=failure_prob,
        shared_seed=shared_seed,
        study=study,
        hint_bits=hint_bits,
        sites=sites,
        scores=scores,
        categories=categories,
        rare=rare,
        threshold=threshold,
        target=target,
        share=share,
    )
    many = classes is not None and len(classes) > 2
    if algorithm not in ("logistic", "auto"):
        number = _NUMBERS[algorithm]
        if many:
            raise ReplearnError(
                f"Algorithm {number} is planned for two classes, got {classes!r:.80}. Use "
                'algorithm="logistic", or merge classes.'
            )
        if signs is None or classes is None or request.needs_logistic:
            raise ReplearnError(
                f"Algorithm {number} is planned from labels, for two sites, without scores and "
                'threshold, got others. Leave them out, or use algorithm="logistic".'
            )
        check_whole(hint_bits, "hint_bits", 0, MAX_HINT_BITS)
        if algorithm == "net":
            _refuse_for_nets(hint_bits, class_weight, svm)
            return plan_net_study(X, signs, classes, remarks, request, **svm)
        weights = _class_weights(class_weight, (signs > 0).astype(np.int64), classes)
        return plan_svm_study(
            X, signs, classes, remarks, request, weights, algorithm=algorithm, **svm
        )
    if svm:
        raise ReplearnError(
            f'{sorted(svm)[0]} belongs to algorithm="svm" or "sgd", got algorithm="{algorithm}". '
            "Leave it out."
        )
    weights = ()
    if class_weight is not None:
        if numbers is None or classes is None:
            raise ReplearnError("class_weight needs labels in the pilot, got none. Leave it out.")
        weights = _class_weights(class_weight, numbers, classes)
    if many or weights:
        if numbers is None or classes is None:
            raise ReplearnError(
                f"a pilot without labels is for two classes, got {classes!r:.80}. Label the pilot."
            )
        if many and threshold != "share":
            raise ReplearnError(
                f"threshold is for two classes, got {threshold!r} and {len(classes)} classes: the "
                "most probable one is taken. Leave it out."
            )
        return plan_many_classes(X, numbers, classes, weights, remarks, request)
    plan = plan_logistic_study(X, signs, classes, remarks, request)
    if algorithm == "logistic":
        return plan
    balanced: Decimals = ()
    if numbers is not None and classes is not None:
        balanced = _class_weights("balanced", numbers, classes)
    return better_recipe(plan, X, signs, classes, balanced, remarks, request)


def _refuse_for_nets(hint_bits: int, class_weight: Any, others: dict[str, Any]) -> None:
    """What a choice from a net cannot use."""
    if hint_bits:
        raise ReplearnError(
            f"hint_bits must be 0 for a net, got {hint_bits}: hints move a grid, and a choice from "
            'a list has none. Leave them out, or use algorithm="svm", "sgd" or "logistic".'
        )
    if class_weight is not None:
        raise ReplearnError(
            f"class_weight must be None for a net, got {class_weight!r}: it counts errors, all the "
            'same. Leave it out, or use algorithm="logistic".'
        )
    for name in ("max_error", "projections", "estimates"):
        if name in others:
            raise ReplearnError(
                f"{name} follows from the rows of a site for a net, got {others[name]!r}. Leave it "
                "out."
            )


def _class_weights(
    class_weight: dict[Any, float] | str | None, numbers: IntegerArray, classes: tuple[Any, ...]
) -> Decimals:
    """Published weights of the classes; "balanced" is resolved by the pilot's counts."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        _, counts = np.unique(numbers, return_counts=True)
        balanced = dict(zip(classes, (counts.min() / counts).tolist(), strict=True))
        return tuple(decimal(float(weight)) for weight in class_factors(balanced, classes))
    return class_factors(class_weight, classes)


def _read_labels(y: Any) -> tuple[IntegerArray, tuple[Any, ...]]:
    """Numbers of the rows' classes, and the labels."""
    labels = Labels(many=True)
    numbers = labels.targets(y).astype(np.int64)
    counts = np.bincount(numbers, minlength=labels.classes.size)
    if numbers.size < MIN_ROWS or counts.min() < MIN_OF_CLASS:
        rare = label_values(labels.classes)[int(np.argmin(counts))]
        raise ReplearnError(
            f"a pilot needs at least {MIN_ROWS} rows and {MIN_OF_CLASS} of each class, got "
            f"{numbers.size} rows, {counts.min()} of class {rare!r}. A thousand rows are good; "
            "merge rare classes."
        )
    return numbers, label_values(labels.classes)


def better_recipe(
    logistic: PilotPlan,
    X: Any,
    signs: Signs | None,
    classes: tuple[Any, ...] | None,
    balanced: Decimals,
    remarks: tuple[Remark, ...],
    request: Request,
) -> PilotPlan | SvmPilotPlan:
    """The plan to take, which says what the other recipe would have given.

    Both are judged by balanced accuracy on held-out rows, with the rounding noise drawn;
    ``balanced`` are the weights of the classes that make an accuracy such a one. Algorithm 1 is the
    best of several settings, has no probabilities, and a pilot errs: it is taken if it is better by
    more than the standard error of such a score.
    """
    if signs is None or classes is None or request.needs_logistic:
        return replace(
            logistic,
            other="Algorithm 1 was not tried: it is planned from labels, for two sites, without "
            "scores, thresholds and discovery",
        )
    first = plan_svm_study(X, signs, classes, remarks, request, balanced, regularizations=_FEW)
    ours, theirs = logistic.table[2].balanced_accuracy, first.chosen.accuracy
    if theirs > ours + _standard_error(ours, logistic.n_positive, logistic.n_pilot):
        return replace(
            first,
            other=f"a logistic study would have balanced accuracy {ours:.3f}, not {theirs:.3f}",
        )
    return replace(
        logistic,
        other=f"Algorithm 1 ({first.chosen.projection}, balanced classes) would have balanced "
        f"accuracy {theirs:.3f}, and no probabilities",
    )


def _standard_error(accuracy: float, n_positive: int, n_pilot: int) -> float:
    """Of a balanced accuracy: half the sum of two shares of independent rows."""
    spread = accuracy * (1 - accuracy)
    return 0.5 * math.sqrt(spread / max(n_positive, 1) + spread / max(n_pilot - n_positive, 1))
