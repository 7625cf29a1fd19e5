"""Models of many sites: groups that are the same, and what differs between the groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.comparison import Comparison, compare
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.terminal import printable

#: Labels of the same rows by each of several models.
Classify = Callable[[Sequence[Model]], Sequence[NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class Group:
    """Sites whose models are the same.

    Attributes
    ----------
    sites : tuple of str
    model : Model
        That of the first of them.
    against : Comparison or None
        With the model of the largest group; None for that one.
    """

    sites: tuple[str, ...]
    model: Model
    against: Comparison | None


@dataclass(frozen=True, eq=False)
class Sites:
    """Models of several sites side by side.

    Attributes
    ----------
    groups : tuple of Group
        The largest first.
    n_rows : int or None
        Given rows, or None.
    changed : tuple of tuples of int, or None
        ``changed[i][j]`` of these rows get another class from group j than from group i.
    """

    groups: tuple[Group, ...]
    n_rows: int | None
    changed: tuple[tuple[int, ...], ...] | None

    @property
    def same(self) -> bool:
        """All sites have the same model."""
        return len(self.groups) == 1

    @cached_property
    def n_sites(self) -> int:
        """Number of sites."""
        return sum(len(group.sites) for group in self.groups)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "same": self.same,
            "groups": [
                {
                    "fingerprint": group.model.fingerprint,
                    "sites": list(group.sites),
                    "against_first": None if group.against is None else asdict(group.against),
                }
                for group in self.groups
            ],
            "n_rows": self.n_rows,
            "rows_changed": None if self.changed is None else [list(row) for row in self.changed],
        }

    def __str__(self) -> str:
        if self.same:
            head = f"same model at all {self.n_sites} sites: every code is equal"
        else:
            head = f"different models: {len(self.groups)} models at {self.n_sites} sites"
        lines = [head]
        for place, group in enumerate(self.groups):
            n_sites = "1 site" if len(group.sites) == 1 else f"{len(group.sites):,} sites"
            lines.append(f"{group_name(place)}  {group.model.fingerprint}  {n_sites}")
            lines += [f"     {printable(site)}" for site in group.sites]
            lines += [f"     {words}" for words in self.differences(place)]
        return "\n".join(lines)

    def differences(self, place: int) -> tuple[str, ...]:
        """How a group differs from the first one, in words; nothing for that one."""
        against = self.groups[place].against
        if against is None:
            return ()
        words = [f"unlike {group_name(0)}: {'; '.join(against.differences)}"]
        if against.angle_degrees is not None:
            words.append(f"angle between the normals: {against.angle_degrees:.3g} degrees")
        if self.changed is not None:
            words.append(f"{self.changed[0][place]:,} of {self.n_rows:,} rows get another class")
        return tuple(words)

    def share_different(self, first: int, second: int) -> float | None:
        """Share of rows with another class, or else of codes that differ; None if unknown."""
        if first == second:
            return 0.0
        if self.changed is not None:
            return self.changed[first][second] / max(1, self.n_rows or 0)
        found = compare(self.groups[first].model, self.groups[second].model)
        return found.n_codes_differing / found.n_codes if found.parts == ("codes",) else None


def group_name(place: int) -> str:
    """A, B, ..., Z, AA, AB, ... like the columns of a spreadsheet.

    Examples
    --------
    >>> [group_name(place) for place in (0, 1, 25, 26, 27, 702)]
    ['A', 'B', 'Z', 'AA', 'AB', 'AAA']
    """
    place, letter = divmod(place, 26)
    return (group_name(place - 1) if place else "") + chr(ord("A") + letter)


def compare_sites(
    models: Mapping[str, Model], rows: Any = None, classify: Classify | None = None
) -> Sites:
    """Put sites with the same model together, and say how the others differ.

    Parameters
    ----------
    models : mapping
        Of at least two sites, by name.
    rows : array, CSR or table, optional
        Rows to classify by all models, to count how many get another class.
    classify : callable, optional
        Instead of ``rows``: the labels of some rows by each of the models that it is given.

    Returns
    -------
    Sites
        Groups of sites with the same model, the largest first; it prints as sentences.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> classifier = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9)
    >>> model = classifier.fit(X, y).model_
    >>> compare_sites({"Oslo": model, "Rome": model, "Lima": model}).same
    True
    """
    if len(models) < 2:
        raise ReplearnError(f"a comparison needs at least two models, got {len(models)}.")
    members: list[list[str]] = []
    kinds: list[dict[tuple[str, ...] | None, Model]] = []  # of a group: one model per naming
    for site, model in models.items():
        place = next((i for i, known in enumerate(kinds) if _fits(model, known)), len(kinds))
        if place == len(kinds):
            members.append([])
            kinds.append({})
        members[place].append(site)
        kinds[place].setdefault(model.feature_names, model)
    order = sorted(range(len(members)), key=lambda place: -len(members[place]))
    firsts = [models[members[place][0]] for place in order]
    labels = _labels(firsts, rows, classify)
    return Sites(
        groups=tuple(
            Group(tuple(members[place]), first, None if number == 0 else compare(firsts[0], first))
            for number, (place, first) in enumerate(zip(order, firsts, strict=True))
        ),
        n_rows=None if labels is None else labels[0].size,
        changed=None if labels is None else _changed(labels),
    )


def _fits(model: Model, known: Mapping[tuple[str, ...] | None, Model]) -> bool:
    """Whether a model is the same as all of a group; names alone can differ inside one."""
    if model.fingerprint != next(iter(known.values())).fingerprint:
        return False
    return model.feature_names in known or all(
        compare(other, model).same for other in known.values()
    )


def _labels(
    models: Sequence[Model], rows: Any, classify: Classify | None
) -> Sequence[NDArray[Any]] | None:
    if classify is not None:
        return classify(models)
    return None if rows is None else [model.predict(rows) for model in models]


def _changed(labels: Sequence[NDArray[Any]]) -> tuple[tuple[int, ...], ...]:
    """For each two models, rows with different labels; 0 and False are not different."""
    values: dict[Any, int] = {}
    numbered = []
    for found in labels:
        distinct, inverse = np.unique(found, return_inverse=True)
        numbers = [values.setdefault(value, len(values)) for value in distinct.tolist()]
        numbered.append(np.array(numbers, dtype=np.int64)[inverse.ravel()])
    return tuple(
        tuple(int(np.count_nonzero(left != right)) for right in numbered) for left in numbered
    )
