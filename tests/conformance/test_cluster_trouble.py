"""Clusters that are not what they should be: one clear line, soon; and one behind TLS."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import dask.array as da
import pytest
from distributed import Client, LocalCluster
from distributed.security import Security

import replearn as rl
from replearn import ReplearnError
from replearn.datasets import make_margin
from replearn.fits import clusters, connection
from replearn.fits.clusters import tasks

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, about what we break on purpose

X, Y = make_margin(2000, 3, margin=0.3, random_state=1)

#: Starts a worker after some lines that change what it can import.
WORKER = """
import sys
from distributed.cli.dask_worker import main
main([sys.argv[1], "--no-nanny", "--nthreads", "1", "--no-dashboard"])
"""

WITHOUT_REPLEARN = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "replearn":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""

OTHER_VERSION = "import replearn; replearn.__version__ = '9.9'"

SCHEDULER = """
import sys
from distributed.cli.dask_scheduler import main
main(["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", sys.argv[1]])
"""


def fitted(client, n=1):
    estimator = rl.ReplicableSVMClassifier(margin=0.3, shuffle=False, max_disagreement=0.99)
    chunks = len(X) // n
    return clusters.fit(
        estimator, da.from_array(X, chunks=(chunks, 3)), da.from_array(Y, chunks), client=client
    )


def refusal(client):
    """The line that a fit ends with, and how long it took."""
    start = time.monotonic()
    with pytest.raises(ReplearnError) as caught:
        fitted(client)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 20
    return str(caught.value)


@contextmanager
def process(code, *arguments):
    """A process that is ended afterwards."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(command, **quiet)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@pytest.fixture
def empty():
    """A scheduler without workers, and a client of it."""
    with (
        LocalCluster(
            n_workers=0,
            processes=False,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address=":0",
            silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_no_worker_is_told_soon(empty, monkeypatch):
    monkeypatch.setattr(connection, "_PATIENCE", 1.0)
    message = refusal(empty)
    assert "must have a worker, and none did anything within 1 s" in message


@pytest.mark.parametrize(
    ("before", "got"), [(WITHOUT_REPLEARN, "got none on"), (OTHER_VERSION, "got 9.9 on")]
)
def test_a_worker_that_is_not_like_here_is_told(empty, before, got):
    with process(before + WORKER, empty.scheduler.address):
        empty.wait_for_workers(1, timeout=60)
        message = refusal(empty)
    assert f"all workers must have replearn {rl.__version__}, as here, {got}" in message


def test_a_worker_that_comes_later_is_told_by_its_task(monkeypatch):
    task = tasks._Guarded(len)
    monkeypatch.setattr(tasks, "__version__", "9.9")
    assert "got 9.9 on one" in str(task([1, 2]))


def test_a_scheduler_that_dies_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_PATIENCE", 3.0)
    place = tmp_path / "scheduler.json"
    with (
        process(SCHEDULER, place) as scheduler,
        Client(scheduler_file=str(place), set_as_default=False, timeout=60) as client,
        process(WORKER, client.scheduler.address),
    ):
        client.wait_for_workers(1, timeout=60)
        fitted(client)
        threading.Timer(0.3, os.kill, (scheduler.pid, signal.SIGKILL)).start()
        start = time.monotonic()
        with pytest.raises(ReplearnError, match="is gone") as caught:
            _fit_again_and_again(client, start)
        assert time.monotonic() - start < 20
        assert "\n" not in str(caught.value)


def _fit_again_and_again(client, start):
    while time.monotonic() - start < 20:  # one fit may be done before the scheduler dies
        fitted(client, n=20)


NOT_THERE = """
import sys
from replearn.cli import main
code = main(["fit", "x.parquet", "--target", "y", "--assume-shuffled", "--cluster", sys.argv[1]])
sys.exit(f"slow to import: {sys.modules.keys() & {'sklearn', 'numba'}}, exit code {code}")
"""


def test_a_cluster_that_is_not_there_is_told_before_anything_slow_is_imported():
    command = [sys.executable, "-c", NOT_THERE, "tcp://127.0.0.1:9"]
    said = subprocess.run(command, capture_output=True, text=True).stderr.splitlines()
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in said[0]
    assert said[1:] == ["slow to import: set(), exit code 2"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate that signs itself, for scheduler, workers and clients."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*command.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    sides = ("client", "scheduler", "worker")
    return Security(
        tls_ca_file=str(certificate),
        require_encryption=True,
        **{f"tls_{side}_cert": str(certificate) for side in sides},
        **{f"tls_{side}_key": str(key) for side in sides},
    )


def test_a_cluster_behind_tls(certificate):
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address=":0",
        protocol="tls",
        security=certificate,
        silence_logs="CRITICAL",
    ) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with clusters.connect(address, security=certificate) as client:
            estimator = rl.ReplicableSVMClassifier(margin=0.3, shuffle=False, max_disagreement=0.99)
            assert fitted(client).fingerprint_ == estimator.fit(X, Y).fingerprint_
        start = time.monotonic()
        for wrong in (address, address.replace("tls://", "tcp://")):
            with (
                pytest.raises(ReplearnError, match="no Dask scheduler answers") as caught,
                clusters.connect(wrong, timeout=6),
            ):
                pass
            assert "\n" not in str(caught.value)
        assert time.monotonic() - start < 20
