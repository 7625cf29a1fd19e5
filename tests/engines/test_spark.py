"""A fit on Spark is the fit on one machine, to the byte, whatever dies on the way."""

import os
import random
import signal
import subprocess
import threading
import time
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.datasets import make_margin
from replearn.fits import spark_jobs

N = 6000
pytestmark = [pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")]
NAMES = ["a", "b.c", "d"]


@cache
def table(n=N, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=NAMES)
    frame["d"] = frame["d"].astype(np.float32)
    frame["colour"] = rng.choice(["red", "green", "blue"], n)
    odds = np.exp(frame["a"] - frame["b.c"] + (frame["colour"] == "red") - 0.5)
    frame["ill"] = np.where(rng.random(n) < odds / (1 + odds), "yes", "no")
    return frame


@cache
def protocol(n_steps=1):
    pilot = table(900, seed=2)
    columns = ["a", "b.c", "d", "colour"]
    plan = rl.plan_from_pilot(pilot[columns], pilot["ill"], samples_per_site=N)
    return replace(plan.protocol, design=replace(plan.protocol.design, n_steps=n_steps))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The rows as Parquet, which executors read."""
    folder = tmp_path_factory.mktemp("rows")
    table().to_parquet(folder / "rows.parquet")
    return str(folder / "rows.parquet")


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **options)


def local(estimator, columns=(*NAMES, "colour")):
    return quietly(estimator.fit, table()[list(columns)], table()["ill"])


@pytest.mark.parametrize(
    ("kind", "n_steps", "partitions"), [("spark", 1, (1, 3, 8, 16)), ("connect", 2, (3,))]
)
def test_the_same_bytes_in_any_partitions(kind, n_steps, partitions, path, request):
    rows = request.getfixturevalue(kind).read.parquet(path)
    study = protocol(n_steps)
    expected = local(study.estimator())
    for n_partitions in partitions:
        found = quietly(
            rl.spark.fit, study.estimator(), rows.repartition(n_partitions), target="ill"
        )
        assert found.fingerprint_ == expected.fingerprint_
        assert found.certificate_ == expected.certificate_  # all sums enter, not only the codes
        assert found.classes_.tolist() == expected.classes_.tolist()
    assert found.seen_.unknown == expected.seen_.unknown


def test_the_same_bytes_as_dask_without_a_protocol(spark, path):
    import dask.dataframe as dd
    from distributed import Client

    plain = rl.ReplicableLogisticClassifier(samples_per_site=N, max_disagreement=0.99)
    expected = local(plain, NAMES)
    rows = spark.read.parquet(path).repartition(5)
    found = rl.spark.fit(plain, rows, target="ill", columns=NAMES)
    assert found.fingerprint_ == expected.fingerprint_
    assert found.feature_names_in_.tolist() == NAMES
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as dask:
        on_dask = rl.clusters.fit(
            plain,
            dd.from_pandas(table(), npartitions=3),
            target="ill",
            columns=NAMES,
            client=dask,
        )
    assert on_dask.fingerprint_ == expected.fingerprint_


def test_evaluate_is_that_of_the_rows_in_memory(connect, path):
    rows = connect.read.parquet(path).repartition(3)
    model = local(protocol().estimator()).model_
    found = rl.spark.evaluate(model, rows, target="ill", by="colour")
    expected = rl.evaluate(model, table(), table()["ill"], by="colour")
    assert found.worth.n_rows == N
    assert found.worth.auc == expected.worth.auc
    assert found.worth.accuracy == expected.worth.accuracy
    assert [name for name, _ in found.groups] == ["blue", "green", "red"]
    assert found.groups[2][1].n_rows == expected.groups[2][1].n_rows


def test_audit_is_that_of_one_machine(connect):
    X, y = make_margin(1200, 2, margin=0.3, random_state=1)
    classifier = rl.ReplicableLogisticClassifier(samples_per_site=600)
    options = {"n_pairs": 3, "question": "halves"}
    expected = quietly(rl.audit, classifier, X, y, **options)
    found = quietly(rl.audit, classifier, X, y, client=connect, **options)
    assert found.main.fresh == expected.main.fresh


def executors(spark):
    """Processes of the executors that this session started: their JVMs."""
    listed = subprocess.run(
        ["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True
    )
    processes = [line.split(None, 2) for line in listed.stdout.splitlines()]
    driver = str(spark.sparkContext._gateway.proc.pid)
    return [
        int(number)
        for number, parent, command in processes
        if parent == driver and "CoarseGrainedExecutorBackend" in command
    ]


def test_an_executor_killed_in_the_middle_changes_nothing(spark, path):
    from pyspark.sql.functions import udf

    expected = local(protocol().estimator())

    @udf("double")
    def slowly(value):
        time.sleep(2e-4)
        return value

    rows = spark.read.parquet(path).repartition(16).withColumn("a", slowly("a"))
    before = executors(spark)
    assert before
    killer = threading.Timer(1.5, os.kill, (before[0], signal.SIGKILL))
    start = time.monotonic()
    killer.start()
    found = quietly(rl.spark.fit, protocol().estimator(), rows, target="ill")
    assert time.monotonic() - start > 1.5  # it was still at work
    killer.join()
    assert found.fingerprint_ == expected.fingerprint_
    assert found.certificate_ == expected.certificate_
    assert before[0] not in executors(spark)


def test_what_is_wrong_is_said_in_one_line(spark, path):
    from pyspark.sql import functions as f

    rows = spark.read.parquet(path)

    def refused(words, estimator=None, rows=rows, target="ill", **options):
        with pytest.raises(rl.ReplearnError, match=words) as caught:
            rl.spark.fit(estimator or protocol().estimator(), rows, target=target, **options)
        assert "\n" not in str(caught.value)

    refused("has no column 'nose'", target="nose")
    refused("no order, got ReplicableSVMClassifier", rl.ReplicableSVMClassifier())
    refused("must be a Spark dataframe, got DataFrame", rows=table())
    refused("must hold the labels of the protocol", target="colour")
    refused(
        "must hold a label in every row", rows=rows.withColumn("ill", f.lit(None).cast("string"))
    )
    refused("streaming", rows=rows.sparkSession.readStream.format("rate").load(), target="value")
    plain = rl.ReplicableLogisticClassifier()
    refused("column 'colour' must hold numbers", plain)
    refused("column 'a' must be", plain, rows.withColumn("a", f.lit(float("nan"))), columns=NAMES)
    refused("a job failed on Spark: .*DIVIDE_BY_ZERO", rows=rows.withColumn("a", f.expr("1/(a-a)")))
    refused("coded differently|unknown", rows=rows.withColumn("colour", f.lit("pink")))
    chance = f.udf(lambda: random.random(), "double").asNondeterministic()
    changing = rows.withColumn("chance", chance()).filter("chance < 0.5")
    refused("the same rows whenever it is computed", plain, changing, columns=NAMES)


def test_results_keep_the_order_of_partitions_and_empty_ones(spark):
    found = spark_jobs.results(spark.range(0, 3, 1, 5), _count)
    assert len(found) == 5
    assert sum(found) == 3
    assert dict(spark_jobs.spread(spark, abs, [-1, 2, -3])) == {0: 1, 1: 2, 2: 3}


def _count(batches):
    return sum(batch.num_rows for batch in batches)
