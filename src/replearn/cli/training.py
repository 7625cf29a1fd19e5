"""The estimator that the options of ``fit`` and ``audit`` ask for."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from replearn.cli.files import terminal_progress
from replearn.cli.options import PROMISE, given, given_promise
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.audits.evaluation import Evaluation
    from replearn.estimators.base import ReplicableClassifier
    from replearn.study.protocol import Protocol


def read_protocol(options: argparse.Namespace) -> "Protocol | None":
    """The protocol of the study, if there is one; options that it fixes are refused."""
    if options.protocol is not None:
        if fixed := given(options, *PROMISE, "seed", "algorithm", "mode", "intercept"):
            raise ReplearnError(
                "--protocol fixes the promise, the mode, the intercept and the seed, as well as "
                f"the algorithm, got {', '.join(fixed)} too. Leave that out."
            )
    elif options.margin == "auto" and options.algorithm not in (None, "svm"):
        raise ReplearnError(
            f"--margin auto needs --algorithm svm, got {options.algorithm}. Pass the margin as a "
            "number."
        )
    if options.protocol is None and options.allow_unknown:
        raise ReplearnError(
            "--allow-unknown is about values that a protocol does not know, got none. Leave it "
            "out, or add --protocol FILE."
        )
    if not options.shuffle and getattr(options, "random_state", None) is not None:
        raise ReplearnError(
            "--random-state is the key of a shuffle, got --assume-shuffled too. Leave one out."
        )
    if options.protocol is None:
        if options.lock is not None:
            raise ReplearnError("--lock is the hash of a protocol, got none. Add --protocol FILE.")
        return None
    from replearn.study.protocol import Protocol

    return Protocol.load(options.protocol, options.lock)


def make_estimator(
    options: argparse.Namespace, protocol: "Protocol | None", **more: Any
) -> "ReplicableClassifier":
    """The estimator, not fitted, from the options or from the protocol."""
    from replearn.progress import on_terminal

    settings = {"n_jobs": options.jobs, "verbose": int(on_terminal()), **more}
    if protocol is not None and protocol.design is not None:
        of_order = ("random_state", "memory", "scratch", "checkpoint", "checkpoint_every")
        if idle := given(options, *of_order, "shuffle"):
            raise ReplearnError(
                f"a logistic study adds up its rows in any order, piece by piece, got {idle[0]}. "
                "Leave it out."
            )
    else:
        settings["shuffle"] = options.shuffle
        if getattr(options, "random_state", None) is not None:
            settings["random_state"] = options.random_state
    if protocol is not None:
        return cast("ReplicableClassifier", protocol.estimator(**settings))
    make, fixed = _estimators()[options.algorithm or "svm"]
    return make(
        **given_promise(options),
        **fixed,
        **settings,
        shared_seed="0" if options.seed is None else options.seed,
        mode=options.mode,
        fit_intercept=options.intercept,
    )


def label_column(options: argparse.Namespace, protocol: "Protocol | None") -> str | None:
    """The label column: as given, or that of the protocol."""
    if options.target is not None or protocol is None or protocol.target is None:
        return cast("str | None", options.target)
    from replearn.sources import open_source

    found = open_source(options.data, raw=True)
    return None if found.labelled else protocol.target  # a format that says which they are


def own_worth(
    estimator: "ReplicableClassifier", options: argparse.Namespace, protocol: "Protocol | None"
) -> "Evaluation":
    """What a model is worth on the rows that it was fitted on.

    The p-value is that of the rows, not of the model, which has seen them.
    """
    from replearn.audits.evaluation import evaluate_file
    from replearn.stages.planned import Planned

    with terminal_progress(f"evaluating {Path(options.data).name}") as watch:
        return evaluate_file(
            estimator.model_,
            options.data,
            options.target,
            planned=None if protocol is None else Planned.of(protocol.notes),
            watch=watch,
            signal=estimator.signal_,
        )


def algorithm_of(estimator: "ReplicableClassifier") -> str:
    """The name by which ``--algorithm`` knows it."""
    return next(
        name
        for name, (kind, fixed) in _estimators().items()
        if type(estimator) is kind
        and all(getattr(estimator, key) == value for key, value in fixed.items())
    )


def _estimators() -> dict[str, tuple[type[Any], dict[str, str]]]:
    """Class and parameters of each row of Table 1, and of logistic studies."""
    from replearn import estimators

    return {
        "svm": (estimators.ReplicableSVMClassifier, {}),
        "logistic": (estimators.ReplicableLogisticClassifier, {}),
        "linear": (estimators.ReplicableLinearRegressor, {}),
        "sgd": (estimators.ReplicableSGDClassifier, {}),
        "net": (estimators.ReplicableNetClassifier, {}),
        "dp": (estimators.ReplicableDPClassifier, {}),
        "boost-box": (estimators.ReplicableBoostingClassifier, {"rounding": "box"}),
        "boost-foam": (estimators.ReplicableBoostingClassifier, {"rounding": "foam"}),
    }
