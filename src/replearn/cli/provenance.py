"""What a model file says about its fit: a few numbers, no value of a row."""

from typing import TYPE_CHECKING, Any

from replearn import __version__

if TYPE_CHECKING:
    from replearn.audits.evaluation import Evaluation
    from replearn.estimators.base import ReplicableClassifier
    from replearn.study.protocol import Protocol


def signal_line(estimator: "ReplicableClassifier") -> str:
    """Whether the rows of a fit hold any signal, or why that was not tested."""
    return str(estimator.signal_ or f"not tested: {estimator.untested_}")


def facts_of(found: "Evaluation") -> dict[str, Any]:
    """What a model file says about the rows of its fit: a few numbers, no value of a row."""
    worth = found.worth
    numbers = {
        "accuracy": worth.accuracy,
        "auc": worth.auc,
        "balanced_accuracy": worth.balanced_accuracy,
        "log_loss": worth.log_loss,
    }
    return {
        "worth": {
            "base_rates": [f"{rate.value:.3f}" for rate in worth.base_rates],
            **{name: f"{m.value:.3f}" for name, m in numbers.items() if m is not None},
        }
    }


def provenance_of(
    estimator: "ReplicableClassifier", target: str | None, protocol: "Protocol | None"
) -> dict[str, Any]:
    """Facts about the run; reals as decimal strings, as everywhere in the file."""
    spent, estimate = estimator.plan_.spent, estimator.certificate_.estimated_disagreement
    signal: dict[str, Any] = {"signal_p": None, "signal_untested": estimator.untested_}
    if estimator.signal_ is not None:
        signal = {"signal_p": f"{estimator.signal_.p_value:.2g}"}
    return {
        "batches": getattr(spent, "n_batches", None),
        "columns": column_counts(estimator),
        **({} if protocol is None else {"protocol": protocol.fingerprint}),
        "estimated_disagreement": None if estimate is None else f"{estimate:.4g}",
        **signal,
        "mode": estimator.plan_.mode,
        "replearn": __version__,
        "rows": spent.n_rows,
        **({} if target is None else {"target": target}),
    }


def column_counts(estimator: "ReplicableClassifier") -> dict[str, dict[str, int]]:
    """Rows with a missing or unknown value, by column of the protocol."""
    encoding, seen = estimator.agreed.encoding, estimator.__dict__.get("seen_")
    return {} if encoding is None or seen is None else encoding.counts(seen)
