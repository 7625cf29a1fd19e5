"""The same rows on an engine: the same bytes as in memory; troubles in one line, soon."""

import json
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import replearn
from replearn.engines import dask as dask_engine
from replearn.engines import replication
from replearn.errors import ReplearnError
from replearn.glm import GlmModel
from replearn.study import GlmStudy, Request, publish, replicate
from replearn.tables import open_table


def patients(n_rows, seed, weighted=False):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": np.round(rng.normal(60, 12, n_rows)),
            "dose.mg": np.where(rng.random(n_rows) < 0.1, np.nan, rng.gamma(2, 5, n_rows)),
            "ward": rng.choice(["A", "B", "C"], n_rows),
        }
    )
    score = (table.age - 60) / 12 + (table.ward == "B")
    table["died"] = np.where(score + rng.logistic(size=n_rows) > 0.5, "yes", "no")
    if weighted:
        table["w"] = rng.choice([0.0, 0.7, 2.0], n_rows)
    return table


def study_of(weighted):
    """A study whose cells are so narrow that any bit of the sums shows in the model."""
    weights = "w" if weighted else None
    table = open_table(patients(3000, 1, weighted), target="died", weights=weights)
    study = publish(table, Request(target="died", ridge=0.01, weights=weights)).study
    widths = tuple("0.00000001" for _ in study.design.widths)
    return replace(study, design=replace(study.design, widths=widths))


def saved_study(folder):
    table = open_table(patients(3000, 1), target="died")
    study = publish(table, Request(target="died", ridge=0.01)).study
    study.save(folder / "study.json")
    return study


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "weights"])
def case(request):
    """A study, a lab's rows, and the model of these rows in memory."""
    study = study_of(request.param)
    rows = patients(4000, 2, request.param)
    weights = "w" if request.param else None
    model, _ = replicate(study, open_table(rows, target="died", weights=weights))
    fewer, _ = replicate(study, open_table(rows[:-3], target="died", weights=weights))
    assert fewer.fingerprint != model.fingerprint  # few rows show
    return study, rows, model.fingerprint


def cut(rows, n_parts):
    """Parts of different sizes; some may be empty."""
    ends = np.linspace(0, 1, n_parts + 1) ** 2 * len(rows)
    return [rows[int(a) : int(b)] for a, b in pairwise(ends)]


# --- the contract ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_parts", [1, 16])
def test_any_partitions_of_arrow_batches(case, n_parts):
    study, rows, expected = case
    parts = [pa.Table.from_pandas(part, preserve_index=False) for part in cut(rows, n_parts)]

    def pass_over(state):
        work = replication.work(study, state)
        return [work(part.to_batches(max_chunksize=333)) for part in reversed(parts)]

    model, found = replication.replicate(study, pass_over)
    assert model.fingerprint == expected
    assert found.n_rows <= len(rows)


def test_polars_frames_and_duckdb_batches(case):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    study, rows, expected = case

    def with_polars(state):
        frame = polars.from_pandas(rows)
        return [replication.work(study, state)(frame.iter_slices(700))]

    def with_duckdb(state):
        table = pa.Table.from_pandas(rows, preserve_index=False)
        relation = duckdb.from_arrow(table)
        found = getattr(relation, "to_arrow_reader", relation.fetch_arrow_reader)(500)
        return [replication.work(study, state)(found)]

    for pass_over in (with_polars, with_duckdb):
        assert replication.replicate(study, pass_over)[0].fingerprint == expected


def test_a_lab_on_an_engine_is_told_about_other_units():
    study, rows = study_of(False), patients(4000, 2)
    wrong = rows.assign(age=rows.age * 12)

    def pass_over(state):
        return [replication.work(study, state)([part]) for part in cut(wrong, 3)]

    _, found = replication.replicate(study, pass_over)
    assert [finding.column for finding in found.findings] == ["age"]
    assert "different unit" in found.findings[0].sentence


def test_a_lab_on_an_engine_is_told_about_other_spreads():
    table = open_table(patients(3000, 1), target="died")
    study, rows = publish(table, Request(target="died", ridge=0.01)).study, patients(4000, 2)
    other = replace(study, spreads=tuple(f"{10 * float(one):.3g}" for one in study.spreads))

    def pass_over(state):
        return [replication.work(other, state)([part]) for part in cut(rows, 3)]

    found = [replication.replicate(other, pass_over)[1]]
    found.append(replicate(other, open_table(rows, target="died"))[1])
    for one in found:
        assert "count nothing" in one.findings[-1].sentence
    assert (
        replication.replicate(
            study, lambda state: [replication.work(study, state)([part]) for part in cut(rows, 3)]
        )[1].findings
        == ()
    )


def test_what_comes_back_does_not_grow_with_the_rows():
    import pickle

    study = study_of(False)
    state = study.begin()
    sizes = [
        len(pickle.dumps(replication.work(study, state)([patients(n, 3)]))) for n in (3000, 60_000)
    ]
    assert sizes[1] < 1.5 * sizes[0]
    assert sizes[1] < 100_000


# --- Dask -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("distributed")
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as found,
    ):
        yield found


def write_parquet(rows, path, group_rows):
    pq.write_table(
        pa.Table.from_pandas(rows, preserve_index=False), path, row_group_size=group_rows
    )


@pytest.mark.parametrize("task_rows", [1, 1500, 10**6])
def test_dask_reads_files_by_row_groups(case, client, tmp_path, monkeypatch, task_rows):
    study, rows, expected = case
    monkeypatch.setattr(dask_engine, "TASK_ROWS", task_rows)
    write_parquet(rows[:2500], tmp_path / "a.parquet", 700)
    write_parquet(rows[2500:], tmp_path / "b.parquet", 900)
    model, _ = dask_engine.replicate(study, tmp_path / "*.parquet", client)
    assert model.fingerprint == expected
    rows[:1000].to_csv(tmp_path / "c.csv", index=False)
    write_parquet(rows[1000:], tmp_path / "d.pq", 900)
    both = [tmp_path / "c.csv", tmp_path / "d.pq"]
    assert dask_engine.replicate(study, both, client)[0].fingerprint == expected


@pytest.mark.parametrize("n_parts", [1, 8])
def test_dask_takes_dataframes_by_partitions(case, client, n_parts):
    study, rows, expected = case
    dataframe = pytest.importorskip("dask.dataframe")
    frame = dataframe.from_pandas(rows.assign(other=1), npartitions=n_parts)
    assert dask_engine.replicate(study, frame, client)[0].fingerprint == expected


def test_dask_refuses_as_in_memory(case, client, tmp_path):
    study, rows, _ = case
    path = tmp_path / "a.parquet"
    for wrong, words in [
        (rows.drop(columns="ward"), "has no column 'ward'"),
        (rows.assign(ward="Z"), "coded differently"),
        (rows.assign(died="maybe"), "must hold the labels of the study"),
    ]:
        write_parquet(wrong, path, 500)
        with pytest.raises(ReplearnError, match=words):
            dask_engine.replicate(study, path, client)
    with pytest.raises(ReplearnError, match="must be partitions with rows, got none"):
        dask_engine.replicate(study, [], client)


def halves(n_rows=9000):
    """Rows for the paper's estimators."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5))
    y = np.where(X[:, 0] + 0.1 * rng.normal(size=n_rows) > 0, "yes", "no")
    return X, y, pd.DataFrame(X, columns=list("abcde")).assign(label=y)


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")  # noisy labels
@pytest.mark.parametrize("name", ["ReplicableSVMClassifier", "ReplicableSGDClassifier"])
def test_dask_fits_algorithms_1_and_2(client, tmp_path, name):
    X, y, table = halves()
    estimator = getattr(replearn, name)
    rows = table.drop(columns="label")
    expected = estimator(margin=0.3, shuffle=False).fit(rows, table["label"])
    assert estimator(margin=0.3, shuffle=False).fit(X[:-900], y[:-900]).counts_ != expected.counts_
    for n_parts in (1, 16):
        folder = tmp_path / str(n_parts)
        folder.mkdir()
        for number, part in enumerate(cut(table, n_parts)):
            write_parquet(part, folder / f"{number:02}.parquet", 700)
        found = dask_engine.fit(
            estimator(margin=0.3), folder / "*.parquet", "label", ["no", "yes"], client
        )
        assert found.fingerprint_ == expected.fingerprint_
        assert found.counts_ == expected.counts_
    table.loc[7, "c"] = np.nan
    write_parquet(table, tmp_path / "3.parquet", 700)
    with pytest.raises(ReplearnError, match="must hold a number in every row"):
        dask_engine.fit(found, tmp_path / "3.parquet", "label", ["no", "yes"], client)


def during_passes(client, *happen):
    """Let something happen in each of the first passes, when tasks are on their way."""
    left, plain = list(happen), client.nthreads

    def looked():
        if left:
            time.sleep(0.1)  # some of the tasks are done, others not
            left.pop(0)()
        return plain()

    client.nthreads = looked
    return left


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")  # noisy labels
def test_dask_workers_that_die(tmp_path):
    """Processes are killed in the middle: the rows are encoded again, with the same bytes."""
    from distributed import Client, LocalCluster

    study, rows = study_of(False), patients(4000, 2)
    expected = replicate(study, open_table(rows, target="died"))[0].fingerprint
    write_parquet(rows, tmp_path / "a.parquet", 250)
    _, _, table = halves()
    write_parquet(table, tmp_path / "b.parquet", 700)
    estimator = replearn.ReplicableSGDClassifier(margin=0.3, shuffle=False)
    in_memory = estimator.fit(table.drop(columns="label"), table["label"]).fingerprint_
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        alive = list(client.run(os.getpid).values())  # one of them is left, if none comes back
        left = during_passes(client, lambda: os.kill(alive.pop(), 9))
        model, _ = dask_engine.replicate(study, tmp_path / "a.parquet", client)
        assert model.fingerprint == expected
        left.append(lambda: os.kill(alive.pop(), 9))
        found = dask_engine.fit(estimator, tmp_path / "b.parquet", "label", ["no", "yes"], client)
        assert found.fingerprint_ == in_memory
        assert not left
    assert len(alive) == 1


@pytest.mark.slow
def test_dask_troubles_are_one_line_and_soon(tmp_path):
    from distributed import Client, LocalCluster

    started = time.monotonic()
    with (
        pytest.raises(ReplearnError, match=r"no Dask scheduler answers at .tcp://127.0.0.1:1."),
        dask_engine.connect("tcp://127.0.0.1:1"),
    ):
        pass
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with (
            pytest.raises(ReplearnError, match="no Dask scheduler answers"),
            dask_engine.connect(address),
        ):
            pass
    with pytest.raises(ReplearnError, match="needs a Dask client, got none"):
        dask_engine.replicate(study_of(False), "a.parquet")
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(ReplearnError, match="must have a worker"),
    ):
        dask_engine.replicate(study_of(False), "a.parquet", client)
    assert time.monotonic() - started < 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("sys.modules['replearn'] = None", r"all workers must have replearn .*, got none"),
        ("import replearn; replearn.__version__ = '0.2.9'", r"must have replearn .*, got 0.2.9"),
        ("", "no worker is left"),
        ("", "the scheduler is gone"),
    ],
)
def test_dask_workers_of_their_own(tmp_path, first, words):
    """Real workers: one without the package, an old one, one that dies, one without scheduler."""
    from distributed import Client, LocalCluster

    write_parquet(patients(4000, 2), tmp_path / "a.parquet", 250)
    script = f"import sys; {first}\nfrom distributed.cli.dask_worker import main; main()"
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster.scheduler_address, timeout=8, set_as_default=False) as client,
        subprocess.Popen(
            [sys.executable, "-c", script, cluster.scheduler_address, "--no-nanny"],
            stderr=subprocess.DEVNULL,
        ) as worker,
    ):
        client.wait_for_workers(1)
        since = [time.monotonic()]

        def end():
            since.append(time.monotonic())
            if "scheduler" in words:
                cluster.close()
            else:
                worker.kill()

        try:
            during_passes(client, end)
            with pytest.raises(ReplearnError, match=words):
                dask_engine.replicate(study_of(False), tmp_path / "a.parquet", client)
            assert time.monotonic() - since[-1] < 20
        finally:
            worker.kill()


# --- Spark ----------------------------------------------------------------------------------------


def java_trouble():
    """Why Spark cannot run here; None if it can."""
    java = shutil.which("java")
    if java is None:
        return "Spark needs Java 17 or later, and there is none (Debian: openjdk-17-jre-headless)"
    said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        return f"Spark needs Java 17 or later, got {said.splitlines()[:1]}"
    return None


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark", reason="pyspark is not installed: dev.py test --engines")
    if trouble := java_trouble():
        pytest.skip(trouble)
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.log.level": "OFF",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "700",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pyspark about newer packages, and about its sockets
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2,4]").appName("replearn")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


def spark_frame(spark, rows, path):
    rows.to_parquet(path, index=False)
    return spark.read.parquet(str(path))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("case", "n_parts"), [(False, 1), (True, 3), (False, 8), (False, 16)], indirect=["case"]
)
def test_spark_gives_the_same_bytes(case, spark, tmp_path, n_parts):
    from replearn.engines import spark as engine

    study, rows, expected = case
    frame = spark_frame(spark, rows, tmp_path / "a.parquet")
    model, found = engine.replicate(study, frame.repartition(n_parts))
    assert model.fingerprint == expected
    assert found.n_rows > 0


def die_once(marker, batches):
    """Kill the process of the executor that comes here first."""
    if not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), 9)
    yield from batches


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_workers_that_die(spark, tmp_path):
    from replearn.engines import spark as engine

    study, rows = study_of(False), patients(4000, 2)
    expected = replicate(study, open_table(rows, target="died"))[0].fingerprint
    frame = spark_frame(spark, rows, tmp_path / "a.parquet").repartition(4)
    marker = tmp_path / "killed"
    names, frame = frame.columns, frame.toDF(*"abcd")  # mapInArrow cannot have dots in names
    frame = frame.mapInArrow(partial(die_once, str(marker)), frame.schema).toDF(*names)
    assert engine.replicate(study, frame)[0].fingerprint == expected
    assert marker.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_connect_gives_the_same_bytes(tmp_path, spark):
    """The same through Spark Connect: a server of its own, and no Java in this process."""
    pytest.importorskip("grpc")
    script = """
import sys
from pyspark.sql import SparkSession
from replearn.engines import spark as engine
from replearn.study.study import GlmStudy
session = SparkSession.builder.remote("local[2]").getOrCreate()
study = GlmStudy.load(sys.argv[1])
frame = session.read.parquet(sys.argv[2])
print("connect" in type(frame).__module__, engine.replicate(study, frame)[0].fingerprint)
session.stop()
"""
    rows = patients(4000, 2)
    study = saved_study(tmp_path)
    rows.to_parquet(tmp_path / "a.parquet", index=False)
    expected = replicate(study, open_table(rows, target="died"))[0].fingerprint
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "study.json", tmp_path / "a.parquet"],
        capture_output=True,
        text=True,
        timeout=1500,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
    )
    assert done.stdout.split()[-2:] == ["True", expected], done.stderr[-2000:]


def test_spark_connect_without_a_server(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed: dev.py test --engines")
    script = """
import sys, time
from pyspark.sql import SparkSession
from replearn.engines import spark as engine
from replearn.study.study import GlmStudy
frame = SparkSession.builder.remote("sc://127.0.0.1:1").getOrCreate().read.parquet("a.parquet")
start = time.monotonic()
try:
    engine.replicate(GlmStudy.load(sys.argv[1]), frame)
except engine.ReplearnError as problem:
    print(time.monotonic() - start < 20, problem)
"""
    saved_study(tmp_path)
    command = [sys.executable, "-W", "ignore", "-c", script, tmp_path / "study.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.stdout.startswith("True no Spark Connect server answers ("), done.stderr[-2000:]
    assert done.stdout.count("\n") == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [False], indirect=True)
def test_spark_refuses_as_in_memory(case, spark, tmp_path):
    from replearn.engines import spark as engine

    study, rows, _ = case
    gone = spark_frame(spark, rows, tmp_path / "d")
    (tmp_path / "d").unlink()
    wrong = [
        (spark_frame(spark, rows.drop(columns="ward"), tmp_path / "a"), "no column 'ward'"),
        (spark_frame(spark, rows.assign(ward="Z"), tmp_path / "b"), "coded differently"),
        (spark_frame(spark, rows.assign(died="maybe"), tmp_path / "c"), "labels of the study"),
        (rows, "must be a Spark dataframe, got DataFrame"),
        (gone, "FileNotFoundException: .*/d"),
        (spark.readStream.format("rate").load(), "must have an end"),
    ]
    for frame, words in wrong:
        with pytest.raises(ReplearnError, match=words):
            engine.replicate(study, frame)


# --- Flower ---------------------------------------------------------------------------------------


LABS = {"north": 500, "south": 700, "west": 800}
FLOWER = Path(__file__).parents[2] / "examples" / "flower"


def flower_app(half):
    """One half of the example app; a new one for each lab."""
    return runpy.run_path(str(FLOWER / "labs" / "apps.py"))[half]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A folder with a study and the rows of three labs, and the model of all rows."""
    pytest.importorskip("flwr", reason="flwr is not installed: dev.py test --engines")
    folder = tmp_path_factory.mktemp("federation")
    study = saved_study(folder)
    (folder / "labs").mkdir()
    tables = []
    for seed, (name, n_rows) in enumerate(LABS.items(), start=10):
        tables.append(patients(n_rows, seed))
        tables[-1].to_csv(folder / f"labs/{name}.csv", index=False)
    pooled = replicate(study, open_table(pd.concat(tables), target="died"))[0]
    return folder, pooled.fingerprint


class LocalGrid:
    """Labs in this process: real messages and apps, without a network."""

    def __init__(self, labs):
        self.labs, self.replies, self.n_sent = dict(enumerate(labs, start=1)), {}, 0

    def get_node_ids(self):
        return list(self.labs)

    def push_messages(self, messages):
        numbers = []
        for message in messages:
            self.n_sent += 1
            number = str(self.n_sent)
            message.metadata.__dict__["_message_id"] = number  # as a SuperLink does
            self.replies[number] = self.labs[message.metadata.dst_node_id](message)
            numbers.append(number)
        return numbers

    def pull_messages(self, numbers):
        ready = [number for number in numbers if self.replies.get(number) is not None]
        return [self.replies.pop(number) for number in ready]


def lab(folder, name, **more):
    """The real app of a lab; of a simulated one, if its name is a number."""
    from flwr.app import Context, RecordDict

    study = {"study": str(folder / "study.json")}
    node = {"data": str(folder / f"labs/{name}.csv"), "lab": name} | study | more
    run = {"labs": str(folder / "labs")} | study
    app, node = flower_app("client"), {"partition-id": name} if isinstance(name, int) else node
    return lambda message: app(message, Context(1, 1, node, RecordDict(), run))


def run(folder, out, labs, mode="coalition", **more):
    from flwr.app import Context, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    config = {"study": str(folder / "study.json"), "out": str(out), "mode": mode}
    config |= {"n-labs": len(LABS), "seconds": 60} | more
    grid = labs if isinstance(labs, LocalGrid) else LocalGrid(labs)
    flower_app("server")(grid, Context(1, 0, {}, RecordDict(), config))
    return json.loads((out / "result.json").read_text())


def answering(**answer):
    """A lab that answers something else."""
    from flwr.app import ConfigRecord, Message, RecordDict

    return lambda message: Message(
        RecordDict({"answer": ConfigRecord({"lab": "north", **answer})}), reply_to=message
    )


def failing(code):
    from flwr.app import Error, Message

    return lambda message: Message(Error(code, "gone"), reply_to=message)


def appears(path, seconds):
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)
    return path.exists()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.fixture
def flower(federation, tmp_path):
    """Starts programs of Flower, and ends them after the test."""
    folder, started = tmp_path / "flower", []
    shutil.copytree(FLOWER, folder / "app")
    settings_of_app = folder / "app/pyproject.toml"
    text = settings_of_app.read_text().replace(
        'study = ""', f'study = "{federation[0]}/study.json"'
    )
    # the SuperLink is told not to install anything: both are here
    needs = 'dependencies = ["replearn", "flwr[simulation]>=1.20"]'
    settings_of_app.write_text(text.replace(needs, "dependencies = []"))
    tools = os.path.dirname(sys.executable)
    settings = {"FLWR_HOME": str(folder), "FLWR_TELEMETRY_ENABLED": "0"}
    settings["PATH"] = os.pathsep.join((tools, os.environ["PATH"]))

    def start(*command):
        log = folder / f"{len(started)}.log"
        with log.open("wb") as said:
            started.append(
                subprocess.Popen(
                    command, env=os.environ | settings, stdout=said, stderr=said,
                    start_new_session=True,
                )
            )  # fmt: skip
        return started[-1]

    yield start, folder
    for one in started:
        with suppress(ProcessLookupError):
            os.killpg(one.pid, 9)
        one.wait()


@pytest.mark.slow
def test_a_superlink_and_supernodes(federation, flower):
    """Flower as labs run it, in both modes: one of the SuperNodes is killed and comes back."""
    labs, (start, folder), link = federation[0] / "labs", flower, f"127.0.0.1:{free_port()}"
    words = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{link}"\ninsecure = true'
    (folder / "config.toml").write_text(words)
    server = ("flower-superlink", "--insecure", "--disable-runtime-dependency-installation")
    start(*server, "--port", link.split(":")[1])

    def node(name):
        config = f'lab="{name}" data="{labs / name}.csv" study="{labs.parent}/study.json"'
        options = ("--superlink", link, "--port", str(free_port()), "--node-config", config)
        return start("flower-supernode", "--insecure", *options)

    def begun(mode):
        """A run; Flower gives up when a server app takes more than 30 seconds to start."""
        for number in range(10):
            out = folder / f"{mode}{number}"
            if start("flwr", "run", folder / "app", "-c", f'mode="{mode}" out="{out}"').wait():
                time.sleep(2)  # the SuperLink is not there yet
            elif appears(out, seconds=90):
                return out
        raise AssertionError([log.read_text()[-2000:] for log in folder.glob("*.log")])

    nodes = {name: node(name) for name in LABS}
    study = GlmStudy.load(labs.parent / "study.json")
    tables = {name: pd.read_csv(labs / f"{name}.csv") for name in LABS}
    model = {
        name: replicate(study, open_table(table, target="died"))[0].fingerprint
        for name, table in (tables | {"all": pd.concat(tables.values())}).items()
    }
    out = begun("compare")
    assert appears(out / "result.json", seconds=600)
    found = json.loads((out / "result.json").read_text())["labs"]
    assert found == {name: model[name] for name in tables}
    out = begun("coalition")
    assert appears(out / "round2", seconds=600)
    os.killpg(nodes["south"].pid, 9)
    node("south")
    assert appears(out / "model.json", seconds=1200)
    assert GlmModel.load(out / "model.json").fingerprint == model["all"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestFlower:
    def test_the_model_of_all_rows(self, federation, tmp_path):
        folder, expected = federation
        found = run(folder, tmp_path, [lab(folder, name) for name in LABS])
        assert found["fingerprint"] == expected
        assert GlmModel.load(tmp_path / "model.json").fingerprint == expected

    def test_compare(self, federation, tmp_path):
        folder, _ = federation
        found = run(folder, tmp_path, [lab(folder, i) for i in range(3)], mode="compare")
        assert set(found["labs"]) == set(LABS)
        study = GlmStudy.load(folder / "study.json")
        for name, fingerprint in found["labs"].items():
            rows = open_table(folder / f"labs/{name}.csv", target="died")
            assert replicate(study, rows)[0].fingerprint == fingerprint

    def test_nodes_that_die_and_come_back(self, federation, tmp_path):
        folder, expected = federation
        good = [lab(folder, name) for name in ("north", "south")]
        answers = iter([failing(8), failing(5)])
        west = lab(folder, "west")

        def flaky(message):
            return next(answers, west)(message)

        assert run(folder, tmp_path / "a", [*good, flaky])["fingerprint"] == expected
        with pytest.raises(ReplearnError, match=r"3 labs must answer .* got 2 \(north, south\)"):
            run(folder, tmp_path / "b", [*good, lambda _: None], seconds=0.5)
        with pytest.raises(ReplearnError, match="gone"):
            run(folder, tmp_path / "c", [*good, failing(2)])
        assert not (tmp_path / "b/model.json").exists()

    @pytest.mark.parametrize(
        ("rubbish", "words"),
        [
            ({}, "must send a file and a name"),
            ({"file": 7}, "must send a file and a name"),
            ({"file": b"", "lab": "north"}, "JSON"),
            ({"file": b"{}"}, "format must be 'replearn/sums'"),
            ({"file": b"{}", "lab": 3}, "must send a file and a name"),
            ({"problem": "the disk is full"}, "refuses: 'the disk is full'"),
        ],
    )
    def test_rubbish_makes_no_model(self, federation, tmp_path, rubbish, words):
        folder, _ = federation
        labs = [answering(**rubbish), lab(folder, "south"), lab(folder, "west")]
        with pytest.raises(ReplearnError, match=words):
            run(folder, tmp_path, labs)
        assert not (tmp_path / "model.json").exists()

    def test_what_else_is_refused(self, federation, tmp_path):
        folder, _ = federation
        good = [lab(folder, name) for name in LABS]

        def refused(words, labs=good, **more):
            with pytest.raises(ReplearnError, match=words):
                run(folder, tmp_path, labs, **more)

        refused("two versions of the lab 'north'", [*good[:2], lab(folder, "west", lab="north")])
        refused("3 labs must be connected, got 4", [*good, lab(folder, "west", lab="more")])
        refused("mode must be one of coalition, compare", mode="average")
        refused("n-labs", **{"n-labs": 0})
        study = GlmStudy.load(folder / "study.json")
        replace(study, n_original=study.n_original + 1).save(tmp_path / "other.json")
        stranger = lab(folder, "west", study=str(tmp_path / "other.json"))
        refused("the study must be this lab's", [*good[:2], stranger])


@pytest.mark.parametrize("how", ["as it is", "other labels", "more deaths"])
def test_patients_on_an_engine_say_what_they_say_in_memory(how):
    table = open_table(patients(3000, 1), target="died")
    original, rows = publish(table, Request(target="died", ridge=0.01)), patients(4000, 2)
    if how == "other labels":
        rows["died"] = rows["died"].sample(frac=1, random_state=0).to_numpy()
    if how == "more deaths":
        rows.loc[rows.index % 3 == 0, "died"] = "yes"

    def pass_over(state):
        work = replication.work(original.study, state)
        return [work([part]) for part in cut(rows, 5)]

    model, here = replication.replicate(original.study, pass_over, original.model)
    expected_model, there = replicate(
        original.study, open_table(rows, target="died"), original.model
    )
    assert model.content() == expected_model.content()
    assert here.verdict == there.verdict
    assert (here.verdict == "confirmed") == (how == "as it is")
    assert here.support.p_value == pytest.approx(there.support.p_value, rel=1e-6)
    assert here.facts().text(details=True) == there.facts().text(details=True)


def test_of_more_rows_some_are_asked(monkeypatch):
    table, rows = open_table(patients(3000, 1), target="died"), patients(4000, 2)
    original = publish(table, Request(target="died", ridge=0.01))
    asked = []

    def pass_over(state):
        parts = [replication.work(original.study, state)([part]) for part in cut(rows, 5)]
        if isinstance(state, replication.RowsAsked):
            asked.append(sum(part.n_rows for part in parts))
        return parts

    monkeypatch.setattr(replication, "MOST_HELD", 1000)
    _, found = replication.replicate(original.study, pass_over, original.model)
    assert 800 < asked[0] < 1200
    assert found.n_rows == len(rows)
    assert found.support.beats_base_rate
    assert found.support.n_tested == asked[0]
    assert f"{asked[0]:,}, a sample" in found.facts().text(details=True)

    # nobody asks for rows whose answer tells nothing
    sealed = publish(table, Request(target="died", ridge=0.01, sealed=True)).study
    original = replace(original, study=sealed)
    replication.replicate(sealed, pass_over)
    assert asked[1] == 0
