"""The estimator that the options of ``fit`` and ``audit`` ask for."""

import argparse
from typing import TYPE_CHECKING, Any

from replearn.cli.options import given_promise
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.estimators.base import ReplicableClassifier


def make_estimator(options: argparse.Namespace, **more: Any) -> "ReplicableClassifier":
    """The estimator, not fitted, from the options or from the protocol."""
    from replearn.progress import on_terminal

    check_training(options)
    settings = {
        "shuffle": options.shuffle,
        "n_jobs": options.jobs,
        "verbose": int(on_terminal()),
        **more,
    }
    if options.protocol is not None:
        from replearn.study.protocol import Protocol

        return Protocol.load(options.protocol, options.lock).estimator(**settings)
    make, fixed = _estimators()[options.algorithm or "svm"]
    return make(
        **given_promise(options),
        **fixed,
        **settings,
        shared_seed="0" if options.seed is None else options.seed,
        mode=options.mode,
        fit_intercept=options.intercept,
    )


def algorithm_of(estimator: "ReplicableClassifier") -> str:
    """The name by which ``--algorithm`` knows it."""
    return next(
        name
        for name, (kind, fixed) in _estimators().items()
        if type(estimator) is kind
        and all(getattr(estimator, key) == value for key, value in fixed.items())
    )


def check_training(options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if options.protocol is not None:
        _refuse_what_is_fixed(options)
    elif options.margin == "auto" and options.algorithm not in (None, "svm"):
        raise ReplearnError(
            f"--margin auto needs --algorithm svm, got {options.algorithm}. Pass the margin as a "
            "number."
        )


def _refuse_what_is_fixed(options: argparse.Namespace) -> None:
    given = [*given_promise(options)]
    given += [name for name in ("seed", "algorithm") if getattr(options, name) is not None]
    given += ["mode"] if options.mode != "practical" else []
    given += [] if options.intercept else ["no-intercept"]
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ReplearnError(
            "--protocol fixes the promise, the mode, the intercept and the seed, as well as the "
            f"algorithm, got {names} too. Leave that out."
        )


def _estimators() -> dict[str, tuple[type[Any], dict[str, str]]]:
    """Class and parameters of each row of Table 1."""
    from replearn import estimators

    return {
        "svm": (estimators.ReplicableSVMClassifier, {}),
        "sgd": (estimators.ReplicableSGDClassifier, {}),
        "net": (estimators.ReplicableNetClassifier, {}),
        "dp": (estimators.ReplicableDPClassifier, {}),
        "boost-box": (estimators.ReplicableBoostingClassifier, {"rounding": "box"}),
        "boost-foam": (estimators.ReplicableBoostingClassifier, {"rounding": "foam"}),
    }
