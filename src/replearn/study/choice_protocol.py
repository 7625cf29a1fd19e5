"""Protocols of choices: which finished models, how they are scored, and with how much noise."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.choice import Candidate, Choice
from replearn.codes.encoding import names_of
from replearn.codes.model import Label
from replearn.codes.randomness import seed_text
from replearn.errors import InvalidFile, ReplearnError
from replearn.estimators.candidates import Contender, n_rows_of
from replearn.estimators.choice import (
    ReplicableChoiceClassifier,
    check_share,
    class_numbers,
    labels_of,
    read_scoring,
    score_candidates,
)
from replearn.files.choicefile import (
    MAX_CLASSES,
    read_candidates,
    read_features,
    read_scoring_content,
)
from replearn.files.jsonfile import (
    Unfit,
    read_classes,
    read_decimal,
    read_format,
    read_integer,
    read_json,
    read_object,
    read_text,
    read_width,
)
from replearn.files.modelfile import load as load_model
from replearn.files.onnx_model import OnnxLimits, OnnxModel
from replearn.plans.plan_choice import ChoicePlan, plan_from_scores, rows_of_sites
from replearn.sources.labels import label_values
from replearn.stages.model_scores import Scoring, check_scoring
from replearn.study.registration import Registrable, check_seed

FORMAT = "replearn-choice-protocol"
FORMAT_VERSION = 1
_MOST_SITES = 10_000


@dataclass(frozen=True)
class ChoiceProtocol(Registrable):
    """What every site fixes before it scores finished models on its own rows.

    Attributes
    ----------
    candidates : tuple of Candidate
        Each with the name of its file and its SHA-256 (of a replearn model: its fingerprint).
    scoring : Scoring
    classes : tuple of labels
    features : tuple of str or None
        Columns, in the order in which candidates take them as one matrix.
    target : str or None
        Name of the label column.
    noise_scale, max_disagreement : str
        Decimals.
    rows_per_site : tuple of int
    seed : str
        The published seed.
    notes : dict
        What the plan predicted; for people, part of the hash like everything else.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     names = [Path(folder, f"{seed}.model.json") for seed in (1, 2)]
    ...     for seed, path in enumerate(names):
    ...         classifier = rl.ReplicableSVMClassifier(
    ...             margin=0.3, max_disagreement=0.9, shared_seed=seed
    ...         )
    ...         rl.save(classifier.fit(X, y).model_, path)
    ...     new_X, new_y = rl.datasets.make_margin(500, 3, margin=0.3, random_state=1)
    ...     protocol, plan = rl.publish_choice(names, new_X, new_y, samples_per_site=5000)
    >>> protocol.scoring, protocol.max_disagreement
    (Scoring(name='accuracy', prevalence=None, costs=None), '0.1')
    """

    candidates: tuple[Candidate, ...]
    scoring: Scoring
    classes: tuple[Label, ...]
    features: tuple[str, ...] | None
    target: str | None
    noise_scale: str
    max_disagreement: str
    rows_per_site: tuple[int, ...]
    seed: str
    notes: dict[str, Any]

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "candidates": [candidate.content() for candidate in self.candidates],
            "classes": list(self.classes),
            "features": None if self.features is None else list(self.features),
            "format": FORMAT,
            "max_disagreement": self.max_disagreement,
            "noise_scale": self.noise_scale,
            "notes": self.notes,
            "rows_per_site": list(self.rows_per_site),
            "scoring": self.scoring.content(),
            "seed": self.seed,
            "target": self.target,
            "version": FORMAT_VERSION,
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str], expect: str | None = None) -> "ChoiceProtocol":
        """Read and check a protocol file; ``expect`` is the fingerprint that was agreed on."""
        try:
            protocol = _protocol(read_json(path))
        except (Unfit, ReplearnError) as problem:
            if isinstance(problem, InvalidFile):
                raise
            raise InvalidFile(
                f"{path} is not a valid protocol of a choice: {str(problem).rstrip('.')}."
            ) from None
        protocol.require(expect, path)
        return protocol

    def estimator(
        self, folder: str | os.PathLike[str], limits: OnnxLimits | None = None
    ) -> ReplicableChoiceClassifier:
        """The estimator that every site fits.

        Parameters
        ----------
        folder : path
            Where the files of the candidates are. Each is checked against its published hash, and
            refused by name if it has another one.
        limits : OnnxLimits, optional
            What an ONNX model may cost.

        Returns
        -------
        ReplicableChoiceClassifier
        """
        if not self.seed:
            raise ReplearnError(
                f"the protocol has no seed: {self.seed_policy}. Complete it with the public value."
            )
        fields = [
            open_candidate(one, folder, self.classes, self.features, limits)
            for one in self.candidates
        ]
        return ReplicableChoiceClassifier(
            fields,
            scoring=self.scoring,
            max_disagreement=float(self.max_disagreement),
            shared_seed=self.seed,
            noise_scale=float(self.noise_scale),
            samples_per_site=list(self.rows_per_site),
            classes=list(self.classes),
            features=self.features,
        )


def open_candidate(
    candidate: Candidate,
    folder: str | os.PathLike[str],
    classes: Sequence[Any],
    features: Sequence[str] | None,
    limits: OnnxLimits | None = None,
) -> Contender:
    """The model in a candidate's file, if the file is the published one."""
    if candidate.file is None or candidate.sha256 is None:
        raise ReplearnError(
            f"candidate {candidate.name!r} has no file. A choice from files needs one for each."
        )
    path = Path(folder) / candidate.file
    try:
        if not _is_onnx(candidate.file):
            model = load_model(path)
            if model.fingerprint != candidate.sha256:
                raise InvalidFile(
                    f"{path} must have the fingerprint {candidate.sha256}, got "
                    f"{model.fingerprint}. It is not the published candidate: get it again from "
                    "its source."
                )
            return Contender(model, candidate)
        found = OnnxModel(
            path, sha256=candidate.sha256, classes=classes, features=features, limits=limits
        )
    except InvalidFile as problem:
        raise InvalidFile(f"candidate {candidate.name!r}: {problem}") from None
    except FileNotFoundError:
        raise ReplearnError(
            f"candidate {candidate.name!r}: {path} does not exist. Name the folder of the "
            "candidates' files."
        ) from None
    return Contender(found, candidate)


class ChosenModel:
    """A choice with its model, whose file is in a folder: what it chose, ready to predict."""

    def __init__(
        self, choice: Choice, folder: str | os.PathLike[str], limits: OnnxLimits | None = None
    ) -> None:
        self.choice = choice
        self.classes_ = np.array(choice.classes)
        self.fingerprint_ = choice.fingerprint
        self._one = open_candidate(choice.chosen, folder, choice.classes, choice.features, limits)

    def labels_and_scores(self, X: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Labels, and probabilities by class, or scores of the second of two classes, or None."""
        numbers = self._one.labels(X, self.classes_)
        if (numbers < 0).any():
            raise ReplearnError(
                f"candidate {self._one.name!r} gives a label that is none of the classes, in row "
                f"{int(np.argmax(numbers < 0))}."
            )
        for read in (self._one.probabilities, self._one.scores):
            with contextlib.suppress(ReplearnError):
                return self.classes_[numbers], np.asarray(read(X, self.classes_))
        return self.classes_[numbers], None

    def predictions(self, X: Any) -> "Predictions":
        """What it predicts for these rows, with the methods of a fitted classifier."""
        labels, scores = self.labels_and_scores(X)
        found = Predictions(self.classes_, self.fingerprint_, labels)
        if scores is not None:
            name = "predict_proba" if scores.ndim == 2 else "decision_function"
            setattr(found, name, lambda _: scores)
        return found


class Predictions:
    """What a model predicts for some rows; it knows no others."""

    def __init__(self, classes: NDArray[Any], fingerprint: str, labels: NDArray[Any]) -> None:
        self.classes_ = classes
        self.fingerprint_ = fingerprint
        self._labels = labels

    def predict(self, X: Any) -> NDArray[Any]:
        """The labels of those rows."""
        return self._labels


# --- how a protocol is made ---------------------------------------------------------------------


def publish_choice(
    paths: Sequence[str | os.PathLike[str]],
    X: Any,
    y: Any,
    *,
    samples_per_site: int | Sequence[int],
    n_sites: int = 2,
    scoring: Any = "accuracy",
    prevalence: Sequence[float] | None = None,
    max_disagreement: float = 0.1,
    shared_seed: int | str = 0,
    classes: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    target: str | None = None,
    limits: OnnxLimits | None = None,
) -> tuple[ChoiceProtocol, ChoicePlan]:
    """Score finished models on a pilot, plan the noise, and make the protocol of their choice.

    Parameters
    ----------
    paths : sequence of paths
        ONNX files and model files of replearn, each with another name.
    X, y : rows of a pilot and their labels
        No site's own rows, and none that a candidate has seen.
    samples_per_site : int or sequence of int
        Rows that each site will have.
    n_sites : int, default=2
        Number of sites, if ``samples_per_site`` is not a sequence.
    scoring : str or array, default="accuracy"
        As for `ReplicableChoiceClassifier`.
    prevalence : sequence of float, optional
        With "balanced_accuracy"; default: the shares of the pilot, which are published.
    max_disagreement : float, default=0.1
        Probability that not all sites choose the same candidate.
    shared_seed : int or str, default=0
        The published seed.
    classes : sequence of labels, optional
        Default: those of ``y``.
    features : sequence of str, optional
        For ONNX files that take one matrix. Default: all columns of a table, in their order.
    target : str, optional
        Name of the label column, for the sites.
    limits : OnnxLimits, optional
        Time and memory for ONNX files, which run in a process of their own.

    Returns
    -------
    protocol : ChoiceProtocol
        For the sites.
    plan : ChoicePlan
        What the noise costs.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     names = [Path(folder, f"{seed}.model.json") for seed in (1, 2)]
    ...     for seed, path in enumerate(names):
    ...         classifier = rl.ReplicableSVMClassifier(
    ...             margin=0.3, max_disagreement=0.9, shared_seed=seed
    ...         )
    ...         rl.save(classifier.fit(X, y).model_, path)
    ...     new_X, new_y = rl.datasets.make_margin(500, 3, margin=0.3, random_state=1)
    ...     protocol, plan = rl.publish_choice(names, new_X, new_y, samples_per_site=5000)
    >>> [candidate.name for candidate in protocol.candidates]
    ['1', '2']
    """
    check_share(max_disagreement, "max_disagreement")
    labels = labels_of(y, n_rows_of(X))
    known = np.unique(labels) if classes is None else np.asarray(classes)
    truth = class_numbers(known, labels)
    found_names = names_of(X) if features is None else features
    names = None if found_names is None else tuple(found_names)
    if scoring == "balanced_accuracy" and prevalence is None:
        shares = np.bincount(truth, minlength=known.size) / truth.size
        prevalence = [float(f"{share:.3g}") for share in shares]
    found = read_scoring(scoring, prevalence, known.size)
    plain = label_values(known)
    candidates = tuple(_published(path, limits) for path in paths)
    if len({one.name for one in candidates}) != len(candidates):
        raise ReplearnError("candidates must have different file names. Rename one.")
    by_name = {one.name: Path(path).parent for one, path in zip(candidates, paths, strict=True)}
    fields = [open_candidate(one, by_name[one.name], plain, names, limits) for one in candidates]
    sums = score_candidates(fields, found, X, truth, known)
    rows = rows_of_sites(samples_per_site, n_sites)
    plan = plan_from_scores(sums.scores, sums.covariance, sums.n_rows, rows, max_disagreement)
    notes = {
        "given_up": f"{plan.given_up:.3g}",
        "pilot_rows": sums.n_rows,
        "pilot_scores": {
            one.name: f"{score:.4g}" for one, score in zip(candidates, sums.scores, strict=True)
        },
    }
    protocol = ChoiceProtocol(
        candidates=candidates,
        scoring=found,
        classes=tuple(plain),
        features=names,
        target=target,
        noise_scale=plan.noise_scale,
        max_disagreement=f"{max_disagreement:g}",
        rows_per_site=rows,
        seed=seed_text(shared_seed, "shared_seed"),
        notes=notes,
    )
    return protocol, plan


def _published(path: str | os.PathLike[str], limits: OnnxLimits | None) -> Candidate:
    name = Path(path).name
    if _is_onnx(name):
        return Candidate(name[: -len(".onnx")], OnnxModel(path, limits=limits).sha256, name)
    short = name.removesuffix(".json").removesuffix(".model")
    return Candidate(short, load_model(path).fingerprint, name)


def _is_onnx(name: str) -> bool:
    return name.lower().endswith(".onnx")


def _protocol(document: dict[str, Any]) -> ChoiceProtocol:
    keys = {
        "candidates", "classes", "features", "format", "max_disagreement", "noise_scale", "notes",
        "rows_per_site", "scoring", "seed", "target", "version",
    }  # fmt: skip
    read_object(document, "it", keys)
    read_format(document, FORMAT, FORMAT_VERSION)
    if not isinstance(document["notes"], dict):
        raise Unfit("notes must be an object")
    classes = read_classes(document["classes"], MAX_CLASSES)
    scoring = _scoring(document["scoring"], len(classes))
    share = read_decimal(document["max_disagreement"], "max_disagreement", 0)
    if not float(share) < 1:
        raise Unfit("max_disagreement must be less than 1")
    rows = document["rows_per_site"]
    if not isinstance(rows, list) or not 2 <= len(rows) <= _MOST_SITES:
        raise Unfit(f"rows_per_site must be a list of 2 to {_MOST_SITES:,} numbers of rows")
    target = document["target"]
    candidates = read_candidates(document["candidates"])
    if any(one.file is None for one in candidates):
        raise Unfit("every candidate must have a file")
    protocol = ChoiceProtocol(
        candidates=candidates,
        scoring=scoring,
        classes=classes,
        features=read_features(document["features"]),
        target=None if target is None else read_text(target, "target"),
        noise_scale=read_width(document["noise_scale"], "noise_scale"),
        max_disagreement=share,
        rows_per_site=tuple(read_integer(n, "rows_per_site", 1, 1 << 40) for n in rows),
        seed=read_text(document["seed"], "seed"),
        notes=document["notes"],
    )
    check_seed(document)
    return protocol


def _scoring(value: Any, n_classes: int) -> Scoring:
    content = read_scoring_content(value, n_classes)
    shares, costs = content.get("prevalence"), content.get("costs")
    scoring = Scoring(
        content["name"],
        None if shares is None else tuple(shares),
        None if costs is None else tuple(tuple(row) for row in costs),
    )
    check_scoring(scoring, n_classes)
    return scoring
