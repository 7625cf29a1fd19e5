"""Seeded data to try things on: a hospital table, and the paper's populations with a margin."""

from typing import Any

import numpy as np

from replearn.codes import Coins
from replearn.errors import ReplearnError
from replearn.types import Array, Ints, Matrix, Vector

#: Centres of the hospital table.
CENTRES = ("Ashford", "Birchwood", "Castleton", "Dunmore")


def load_readmission(
    centre: str | None = None, n_rows: int = 6000, *, seed: int | str = 0, as_frame: bool = True
) -> Any:
    """Invented patients with heart failure, some of whom are readmitted within 30 days.

    Numbers, texts and gaps, as a hospital's export has them. All centres draw from one population,
    about a fifth of whose patients return. Sodium and age have effects that are no straight lines.

    Parameters
    ----------
    centre : str, optional
        "Ashford", "Birchwood", "Castleton" or "Dunmore"; by default all, with a column ``centre``.
    n_rows : int, default=6000
        Of each centre.
    seed : int or str, default=0
        Different seeds give different patients.
    as_frame : bool, default=True
        A dataframe of pandas; else a dict of columns.

    Returns
    -------
    table : DataFrame or dict
        The target is ``readmitted``.

    See Also
    --------
    make_margin : a population with a margin.

    Notes
    -----
    All centres draw from one population, whose truth is known, as simulation studies have it
    [Morris19]: a logistic model with a curve of age and of sodium. Haemoglobin has 7% gaps,
    creatinine and sodium 4%, diabetes 3%; they say nothing about the outcome. The draws are the
    same on every machine.

    References
    ----------
    .. [Morris19] Morris, White and Crowther. Using simulation studies to evaluate statistical
       methods. Statistics in Medicine 38(11), 2019.

    Examples
    --------
    >>> table = load_readmission("Ashford", 500, as_frame=False)
    >>> sorted(set(table["readmitted"].tolist())), len(table["age"])
    ([0, 1], 500)
    """
    if centre is not None and centre not in CENTRES:
        raise ReplearnError(f"centre must be one of {', '.join(CENTRES)}, got {centre!r}.")
    if n_rows < 1:
        raise ReplearnError(f"rows must be one or more, got {n_rows}. Ask for some thousands.")

    # all centres draw from one population, each with coins of its own
    names: tuple[str, ...] = (centre,) if centre is not None else CENTRES
    parts = [_patients(Coins(f"readmission/{seed}/{name}"), n_rows) for name in names]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if centre is None:
        columns = {"centre": np.repeat(np.array(CENTRES, dtype=object), n_rows)} | columns

    if not as_frame:
        return columns
    try:
        import pandas as pd
    except ImportError:
        raise ReplearnError(
            "as_frame=True needs pandas, which is not installed. Pass as_frame=False for a dict of "
            "columns."
        ) from None
    return pd.DataFrame(columns)


def _patients(coins: Coins, n_rows: int) -> dict[str, Array]:
    """Columns of invented patients, with the outcome last."""

    def normal(name: str, mean: float, spread: float, decimals: int, low: float = 0.0) -> Vector:
        drawn = mean + spread * coins.normals(name, n_rows)
        return np.asarray(np.round(np.maximum(drawn, low), decimals), dtype=np.float64)

    def level(name: str, **shares: float) -> Array:
        ends = np.cumsum(list(shares.values()))[:-1]
        places = np.searchsorted(ends, coins.uniforms(name, n_rows))
        return np.array([text.replace("_", " ") for text in shares], dtype=object)[places]

    # each column has a stream of its own, so that a new one would change no other
    age = np.minimum(normal("age", 72, 11, 0, 35), 99)
    nyha = level("nyha", I=0.12, II=0.38, III=0.36, IV=0.14)
    discharge = level("discharge", home=0.58, home_care=0.2, nursing_home=0.14, rehabilitation=0.08)
    stay = np.round(1 + 5 * np.exp(0.6 * coins.normals("stay", n_rows)))
    prior = np.floor(1.3 * coins.exponentials("prior", n_rows))
    creatinine = np.round(1.15 * np.exp(0.35 * coins.normals("creatinine", n_rows)), 2)
    sodium = normal("sodium", 138, 4, 0, 110)
    haemoglobin = normal("haemoglobin", 12.6, 1.8, 1, 5)
    systolic = normal("systolic", 128, 20, 0, 70)
    diabetes = level("diabetes", no=0.64, yes=0.36)

    # the truth, before any value is lost
    score = (
        -2.9
        + 0.0008 * (age - 66) * np.abs(age - 66)
        + np.array([{"I": -0.9, "II": -0.3, "III": 0.2, "IV": 0.9}[text] for text in nyha])
        + 0.5 * (discharge == "nursing home")
        - 0.4 * (discharge == "rehabilitation")
        + 0.05 * (stay - 6)
        + 0.5 * np.minimum(prior, 6)
        + 0.9 * (creatinine - 1.15)
        + 0.04 * np.abs(sodium - 139) ** 1.5
        - 0.15 * (haemoglobin - 12.6)
        - 0.01 * (systolic - 128)
        + 0.3 * (diabetes == "yes")
    )
    readmitted = coins.uniforms("outcome", n_rows) < 1 / (1 + np.exp(-score))

    # gaps that say nothing about the outcome
    gaps = {"creatinine": 0.04, "sodium": 0.04, "haemoglobin": 0.07}
    numbers = {"creatinine": creatinine, "sodium": sodium, "haemoglobin": haemoglobin}
    for name, share in gaps.items():
        numbers[name][coins.uniforms(f"gaps/{name}", n_rows) < share] = np.nan
    diabetes[coins.uniforms("gaps/diabetes", n_rows) < 0.03] = None

    return {
        "age": age.astype(np.int64),
        "sex": level("sex", female=0.46, male=0.54),
        "nyha": nyha,
        "admission": level("admission", emergency=0.68, planned=0.22, transfer=0.1),
        "length_of_stay": stay.astype(np.int64),
        "prior_admissions": prior.astype(np.int64),
        **numbers,
        "systolic": systolic.astype(np.int64),
        "diabetes": diabetes,
        "discharge_to": discharge,
        "readmitted": readmitted.astype(np.int64),
    }


def make_margin(
    n_samples: int,
    n_features: int,
    margin: float,
    *,
    max_margin: float | None = None,
    decoy: float = 0.0,
    label_noise: float = 0.0,
    population: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> tuple[Matrix, Ints]:
    """Draw a sample from a population of unit vectors with a margin.

    Each row is ``y t w + sqrt(1 - t^2) g`` with a fixed normal ``w``, a fair label ``y``, a
    margin ``t`` uniform on ``[margin, max_margin]`` and a direction ``g`` orthogonal to ``w``.

    Parameters
    ----------
    n_samples, n_features : int
        At least 2 features.
    margin : float in (0, 1)
        Smallest margin of the population.
    max_margin : float, optional
        Largest margin; default the smaller of ``4 * margin`` and 0.95.
    decoy : float in [0, 1)
        Length of a second direction, orthogonal to ``w``, that agrees with the label on 75%
        of the rows: learners that follow the mean of ``y x`` are drawn to it.
    label_noise : float in [0, 0.5)
        Share of labels that are flipped.
    population : int
        Which population; two labs that share it draw from the same one.
    random_state : int, Generator or None
        Which sample of it.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Rows of norm 1.
    y : array of shape (n_samples,)
        Labels -1 and +1.

    See Also
    --------
    margin_direction : the population's normal.
    load_readmission : patients.

    Notes
    -----
    Without ``label_noise`` it is a population of Definition 1.2 of [KKLVZ24]: a halfspace
    separates it with the margin.

    References
    ----------
    .. [KKLVZ24] Kalavasis, Karbasi, Larsen, Velegkas and Zhou. Replicable learning of
       large-margin halfspaces. ICML 2024. https://arxiv.org/abs/2402.13857

    Examples
    --------
    >>> X, y = make_margin(5, 3, 0.2, random_state=1)
    >>> bool((y * (X @ margin_direction(3)) >= 0.2 - 1e-12).all())
    True
    """
    top = max_margin
    if top is None:
        top = min(4 * margin, 0.95)
    if n_features < 2:
        raise ReplearnError(f"n_features must be at least 2, got {n_features}.")
    if not 0 < margin <= top < 1:
        raise ReplearnError(
            f"margins must satisfy 0 < margin <= max_margin < 1, got {margin} and {top}."
        )

    rng = np.random.default_rng(random_state)
    normal = margin_direction(n_features, population)
    labels = rng.choice(np.array([-1, 1]), size=n_samples)
    heights = rng.uniform(margin, top, size=n_samples)

    # g: unit vectors along the boundary, which the decoy bends
    side = rng.standard_normal((n_samples, n_features))
    side -= np.outer(side @ normal, normal)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    if decoy:
        agrees = np.where(rng.random(n_samples) < 0.75, labels, -labels)
        side = np.sqrt(1 - decoy**2) * side + np.outer(decoy * agrees, _decoy(n_features, normal))
        side /= np.linalg.norm(side, axis=1, keepdims=True)

    # as far from the boundary as the margin says: the length stays 1
    side *= np.sqrt(1 - heights**2)[:, None]
    side += np.outer(labels * heights, normal)
    flipped = rng.random(n_samples) < label_noise
    return side, np.where(flipped, -labels, labels)


def margin_direction(n_features: int, population: int = 0) -> Vector:
    """Normal of the boundary of a population: a unit vector that depends on its number alone.

    Parameters
    ----------
    n_features : int
        At least 2.
    population : int, default=0
        Which population.

    Returns
    -------
    normal : array of shape (n_features,)
        Of norm 1.

    See Also
    --------
    make_margin : draws a sample of the population.

    Notes
    -----
    It is ``w*`` of [KKLVZ24]: what an algorithm of the paper looks for, and never sees.

    References
    ----------
    .. [KKLVZ24] Kalavasis, Karbasi, Larsen, Velegkas and Zhou. Replicable learning of
       large-margin halfspaces. ICML 2024. https://arxiv.org/abs/2402.13857

    Examples
    --------
    >>> float(round((margin_direction(3) ** 2).sum(), 9))
    1.0
    """
    normal = np.random.default_rng([population, 7_919]).standard_normal(n_features)
    return np.asarray(normal / np.linalg.norm(normal), dtype=np.float64)


def _decoy(n_features: int, normal: Vector) -> Vector:
    """A fixed unit vector orthogonal to the normal."""
    # the axis that is least along the normal loses least
    axis = np.zeros(n_features)
    axis[np.argmin(np.abs(normal))] = 1.0
    axis -= (axis @ normal) * normal
    return np.asarray(axis / np.linalg.norm(axis), dtype=np.float64)
