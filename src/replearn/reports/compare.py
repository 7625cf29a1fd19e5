"""Are these models the same? An integer comparison, and what differs if not."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from replearn.codes import Model
from replearn.errors import ReplearnError
from replearn.reports.files import load_model
from replearn.study import Evidence, Study
from replearn.words import Facts, Figure, Landed, Row, Spoken, Table, counted, where_we_landed

_CAPTION = "A box is a cell of the first model. "


@dataclass(frozen=True)
class Comparison(Spoken):
    """Models of several labs beside each other.

    Attributes
    ----------
    names : tuple of str
        Files, or what the models are called.
    one_study : bool
        Whether all models have one design: only those can be the same.
    differences : tuple of (str, tuple of int)
        Coded numbers that are not equal everywhere, and how many cells each model is away from
        the first.
    evidence : Evidence or None
        What a match proves, from the study's own numbers; None without the study.
    original : bool or None
        Whether the common model is the one that the study commits to.
    of_study : bool
        Whether the models are replications of a study, not fits of the paper's algorithms.
    renamed : tuple of str
        Columns, or the target, that the first model calls differently, or has in another place,
        where all else is equal.
    updates : tuple of (str, str, str)
        Updated models among them: name, parent, and how the slopes were changed.
    fingerprints : tuple of str
        Of the models.
    local_constants : bool
        Whether their study leaves constants to labs.

    See Also
    --------
    compare : makes one.

    Notes
    -----
    Models are compared as whole numbers, code by code; no float is.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> other = rl.datasets.load_readmission("Birchwood", 1000)
    >>> target = other.pop("readmitted")
    >>> second = rl.ReplicableLogisticClassifier(study=first.study_).fit(other, target)
    >>> found = rl.compare(first, second)
    >>> found.same, len(set(found.fingerprints))
    (True, 1)
    >>> found
    <Comparison: The same model: both are identical bit for bit.>
    """

    names: tuple[str, ...]
    fingerprints: tuple[str, ...]
    one_study: bool
    differences: tuple[tuple[str, tuple[int, ...]], ...] = ()
    evidence: Evidence | None = None
    original: bool | None = None
    of_study: bool = True
    renamed: tuple[str, ...] = ()
    # of updated models: whose fingerprint each names as its parent, and what it changed
    updates: tuple[tuple[str, str, str], ...] = ()
    local_constants: bool = False  # their study leaves constants to labs

    @property
    def same(self) -> bool:
        """Whether all are one model, bit for bit."""
        return len(set(self.fingerprints)) == 1

    def facts(self) -> Facts:
        """In words."""
        verdict, items = self._answer()
        details: list[Any] = []
        if self.same:
            items.append(f"Fingerprint {self.fingerprints[0]}")
        else:
            marks = [mark[:16] for mark in self.fingerprints]
            files = list(zip(self.names, marks, strict=True))
            details.append(Table("Files", ("file", "model"), files))

        if self.differences:
            rows = [(name, *cells[1:]) for name, cells in self.differences]
            header = ("number", *self.names[1:])
            details.append(Table("Cells from the first file", header, rows, key="differences"))

        # codes of different studies have no cells in common, and updates have left theirs
        figures = []
        if self.same or self.differences:
            ending = "All marks are inside: the same model."
            if not self.same:
                ending = "A mark outside: a different model."
            figures.append(Figure("Models and cells", self._picture, _CAPTION + ending))
        values = {"same": self.same, "fingerprints": list(self.fingerprints)}
        return Facts(verdict, items, details, figures, values=values)

    def _answer(self) -> tuple[str, list[Any]]:
        """The verdict, and what to know or to do beside it."""
        if self.same:
            return self._about_same()

        # equal codes for other columns say nothing
        if self.renamed:
            return (
                "The same numbers under other names: fingerprints cover names, so they differ.",
                [
                    Row("the first model has", ", ".join(self.renamed[:3])),
                    "Name columns and target alike: an array has x0, x1, ... and y.",
                ],
            )

        if not self.one_study:
            return "Models of different studies: they cannot be the same.", [
                "Compare models that labs made from one study file."
            ]

        # one model, recalibrated
        if self.updates and not self.differences:
            verdict = "Different models: slopes of one model, recalibrated on different rows."
            return verdict, [*self._about_updates()]

        # codes that differ, the furthest first
        n_kinds = len(set(self.fingerprints))
        items = [Row("numbers that differ", len(self.differences))]
        for name, cells in self.differences[:3]:
            apart = counted(max(map(abs, cells)), "cell")
            items.append(Row(name, f"{apart} apart from {self.names[0]}", in_json=False))
        return f"Different models: {len(self.names)} labs have {n_kinds} different models.", [
            *items
        ]

    def _about_same(self) -> tuple[str, list[Any]]:
        """What it means that all are equal."""
        which = "both" if len(self.names) == 2 else f"all {len(self.names)}"
        verdict = f"The same model: {which} are identical bit for bit."
        if self.local_constants:
            verdict = (
                f"The same slopes: those of {which} are identical bit for bit; constants are "
                "each lab's own."
            )

        items: list[Any] = []
        if self.evidence is not None:
            items.append(self.evidence.words())
        elif self.of_study:
            items.append("Pass the study to see what that proves: --study study.json.")

        # only an open commitment tells whose model it is
        if self.original:
            items.append("It is the original's model, to which the study commits.")
        elif self.original is not None:
            items.append("It is not the model to which the study commits.")
        return verdict, items

    def _about_updates(self) -> list[str]:
        """What was updated from what."""
        names = dict(zip(self.fingerprints, self.names, strict=True))
        return [
            f"{name} was updated from {names.get(parent, parent[:16])}; its slopes are {slopes}."
            for name, parent, slopes in self.updates[:4]
        ]

    def _picture(self) -> str:
        """The numbers that differ; where none does, all of them as one."""
        rows = self.differences or (("all numbers", (0,) * len(self.names)),)
        cells = np.array([cells for _, cells in rows], dtype=float)
        labs = {
            name.removesuffix(".model.json"): Landed(cells[:, place], np.zeros(len(rows)))
            for place, name in enumerate(self.names)
        }
        return where_we_landed([name for name, _ in rows], labs, reach=8.5)


def compare(*models: Any, study: Study | None = None) -> Comparison:
    """Compare models bit for bit.

    Parameters
    ----------
    *models : paths, models or fitted estimators of replearn
        At least two.
    study : Study, optional
        The study that they replicate: then the answer says what a match proves.

    Returns
    -------
    comparison : Comparison
        ``comparison.same`` is the answer.

    See Also
    --------
    check : before a fit.
    audit : counts how often labs agree.

    Notes
    -----
    Codes are whole numbers, so equality is exact: there is no tolerance. Models of different
    studies are never called the same. Fingerprints are SHA-256 [NIST15] of the canonical bytes.

    References
    ----------
    .. [NIST15] National Institute of Standards and Technology. Secure hash standard. FIPS 180-4,
       2015.

    Examples
    --------
    >>> import replearn as rl
    >>> labs = [rl.datasets.load_readmission(name, 600) for name in ("Ashford", "Dunmore")]
    >>> target = [lab.pop("readmitted") for lab in labs]
    >>> first = rl.ReplicableLogisticClassifier(replication_rows=600).fit(labs[0], target[0])
    >>> rl.compare(first, first).same
    True
    """
    if len(models) < 2:
        raise ReplearnError(
            f"compare needs at least two models, got {len(models)}. Name all of them."
        )
    given, names = _named(models)
    first = given[0]
    one_study = all(model.design == first.design for model in given)
    if study is not None and any(model.design != study.design for model in given):
        raise ReplearnError(
            "all models must be of the study that was passed, got one of a different study. "
            "Compare without it, or pass the right one."
        )

    prints = tuple(model.fingerprint for model in given)
    same = len(set(prints)) == 1
    updates = tuple(
        (name, *told) for name, model in zip(names, given, strict=True) if (told := _update(model))
    )

    # a match proves something only of models that labs fitted, and only with the study
    evidence = commits = None
    if study is not None and same and not updates:
        evidence = study.evidence(first)
        commits = study.commits_to(first.fingerprint)

    return Comparison(
        names=tuple(names),
        fingerprints=prints,
        one_study=one_study,
        differences=_differences(given),
        evidence=evidence,
        original=commits,
        of_study=first.of_study and not updates,
        renamed=_renamed(given),
        updates=updates,
        local_constants=first.design.constant is not None and not updates,
    )


def _named(models: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """The models, read where they are paths, and a different name for each."""
    given, names, paths = [], [], []
    for place, model in enumerate(models, start=1):
        if isinstance(model, str | os.PathLike):
            given.append(load_model(model))
            names.append(Path(model).name)
            paths.append(str(model))
            continue

        model = getattr(model, "model_", model)
        if not isinstance(model, Model):
            raise ReplearnError(f"compare takes models of replearn, got {type(model).__name__}.")
        given.append(model)
        names.append(f"model {place}")
        paths.append(names[-1])

    if len(set(names)) < len(names):  # files of the same name in different folders
        names = paths
    return given, names


def _renamed(models: Sequence[Any]) -> tuple[str, ...]:
    """Names of the first halfspace that others of the same codes have not, or elsewhere."""
    first, *others = models
    for other in others:
        if type(other) is not type(first):
            return ()

        # names alone: all else must be equal
        named = other.design.named_as(first.design)
        if named != first.design or not np.array_equal(other.codes, first.codes):
            return ()

    own = (*first.feature_names, first.design.target)
    return tuple(
        name
        for place, name in enumerate(own)
        if any((*model.feature_names, model.design.target)[place] != name for model in others)
    )


def _update(model: Any) -> tuple[str, str] | None:
    """The parent of an updated model, and what it did to slopes."""
    told = model.recalibration
    if told is None:
        return None
    return told.parent, "unchanged" if told.factor == "1" else f"{told.factor} times the study's"


def _differences(models: Sequence[Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Numbers that are not equal, the largest difference first; those of one study alone."""
    if any(model.design != models[0].design for model in models):
        return ()
    codes = np.stack([model.codes for model in models])
    away = codes - codes[0]
    most = np.abs(away).max(axis=0)

    names = models[0].number_names
    order = [int(i) for i in np.argsort(-most, kind="stable") if most[i]]
    return tuple((names[i], tuple(away[:, i].tolist())) for i in order)
