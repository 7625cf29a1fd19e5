"""Flower gives the model of the files and of the pooled rows, or the round fails loudly."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

import replearn as rl
from tests.engines.loopback import free_port

flwr = pytest.importorskip("flwr", reason="flwr is not installed: dev.py test --engines")

APP = Path(__file__).resolve().parents[2] / "examples/flower"
SITES = {"north": 500, "south": 700, "west": 800}
BIN = Path(sys.executable).parent
#: Waits are long, so that a busy machine is no failure; nothing sleeps as long.
PATIENCE = 240


def draw(n_rows, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    chance = 1 / (1 + np.exp(table["b"] - table["a"]))
    return table.assign(ill=(rng.random(n_rows) < chance).astype(int))


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **options)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder with a protocol of two rounds, and the rows of three sites."""
    folder = tmp_path_factory.mktemp("study")
    pilot = draw(600, seed=1)
    plan = rl.plan_from_pilot(pilot[["a", "b", "c"]], pilot["ill"], samples_per_site=2000)
    design = replace(plan.protocol.design, n_steps=2)
    replace(plan.protocol, target="ill", design=design).save(folder / "study.json")
    (folder / "sites").mkdir()
    for seed, (name, n_rows) in enumerate(SITES.items(), start=10):
        draw(n_rows, seed).to_csv(folder / f"sites/{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def expected(study):
    """The fingerprint of the pooled rows, which is that of the files."""
    protocol = rl.Protocol.load(study / "study.json")
    tables = [pd.read_csv(study / f"sites/{name}.csv") for name in SITES]
    whole = pd.concat(tables)
    pooled = quietly(protocol.estimator().fit, whole[["a", "b", "c"]], whole["ill"])

    def sums(after):
        return [rl.site_sums(protocol, study / f"sites/{name}.csv", after=after) for name in SITES]

    first = rl.combine(protocol, sums(None))
    files = quietly(rl.combine, protocol, sums(first), first)
    assert files.model.fingerprint == pooled.fingerprint_
    return pooled.fingerprint_


class Federation:
    """A SuperLink on loopback, SuperNodes, and runs; all processes end with it."""

    def __init__(self, folder, *options):
        self.folder, self.port, self._open = folder, free_port(), ExitStack()
        self.environment = os.environ | {
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": os.pathsep.join((str(BIN), os.environ["PATH"])),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        (folder / "flwr").mkdir(parents=True)
        (folder / "flwr/config.toml").write_text(
            f'[superlink]\ndefault = "loop"\n[superlink.loop]\naddress = "127.0.0.1:{self.port}"\n'
            f"insecure = true\n{'options.num-supernodes = 3' if options else ''}\n"
        )
        self.start(
            "flower-superlink", "--insecure", "--disable-runtime-dependency-installation",
            "--host", "127.0.0.1", "--port", self.port, *options,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self._open.close()
        for process in psutil.process_iter():  # apps that SuperLink and SuperNodes have started
            with suppress(psutil.Error):
                if process.environ().get("FLWR_HOME") == self.environment["FLWR_HOME"]:
                    process.kill()

    def start(self, name, *arguments):
        log = self._open.enter_context((self.folder / "log.txt").open("ab"))
        process = subprocess.Popen(
            [str(BIN / name), *map(str, arguments)],
            env=self.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._open.callback(end, process)
        return process

    def site(self, study, name, **more):
        config = {"data": str(study / f"sites/{name}.csv"), "site": name} | more
        config |= {"protocol": str(study / "study.json")}
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        return self.start(
            "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self.port}",
            "--port", free_port(), "--node-config", text,
        )  # fmt: skip

    def submit(self, study, out, app=APP, **config):
        config = {"protocol": str(study / "study.json"), "out": str(out), **config}
        config |= {"sites": str(study / "sites"), "seconds": config.get("seconds", PATIENCE)}
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        command = [str(BIN / "flwr"), "run", str(app), "loop", "--run-config", text]
        for _ in range(20):  # until the SuperLink listens
            done = subprocess.run(
                [*command, "--format", "json"], env=self.environment, capture_output=True, text=True
            )
            if done.returncode == 0 and '"success": true' in done.stdout:
                return
            time.sleep(1)
        pytest.fail(f"{done.stdout}\n{done.stderr}")

    def said(self):
        return (self.folder / "log.txt").read_text(errors="replace")

    def wait(self, *done):
        """Wait until one of these conditions holds, and say which."""
        end_of_patience = time.monotonic() + PATIENCE
        while time.monotonic() < end_of_patience:
            for number, condition in enumerate(done):
                if condition():
                    return number
            time.sleep(0.2)
        pytest.fail(f"waited {PATIENCE} s; the log ends with {self.said()[-3000:]}")


def end(process):
    """End a process and what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class LocalGrid:
    """Sites in this process: real messages and apps, without a network.

    ``sites`` maps nodes to what answers a message; a node that raises has crashed.
    """

    def __init__(self, sites):
        self.sites, self.replies, self.n_sent = dict(sites), {}, 0

    def get_node_ids(self):
        return list(self.sites)

    def push_messages(self, messages):
        numbers = []
        for message in messages:
            self.n_sent += 1
            number = str(self.n_sent)
            message.metadata.__dict__["_message_id"] = number  # as a SuperLink does
            self.replies[number] = self.sites[message.metadata.dst_node_id](message)
            numbers.append(number)
        return numbers

    def pull_messages(self, numbers):
        ready = [number for number in numbers if self.replies.get(number) is not None]
        return [self.replies.pop(number) for number in ready]


def local_site(study, name, **more):
    """The real app of a site."""
    from flwr.app import Context, RecordDict

    from replearn.flower import client_app

    node = {"data": str(study / f"sites/{name}.csv"), "site": name}
    node |= {"protocol": str(study / "study.json")} | more
    app = client_app()
    return lambda message: app(message, Context(1, 1, node, RecordDict(), {}))


def run_locally(study, out, sites, mode="coalition", **more):
    from flwr.app import Context, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    from replearn.flower import server_app

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    run = {"protocol": str(study / "study.json"), "out": str(out), "mode": mode}
    run |= {"n-sites": len(SITES), "seconds": 60} | more
    grid = sites if isinstance(sites, LocalGrid) else LocalGrid(enumerate(sites, start=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        server_app()(grid, Context(1, 0, {}, RecordDict(), run))
    return json.loads((out / "result.json").read_text())


def answering(**answer):
    """A site that answers something else."""
    from flwr.app import ConfigRecord, Message, RecordDict

    return lambda message: Message(
        RecordDict({"answer": ConfigRecord({"site": "north", **answer})}), reply_to=message
    )


def failing(code):
    from flwr.app import Error, Message

    return lambda message: Message(Error(code, "gone"), reply_to=message)


def test_the_model_of_files_and_pooled_rows(study, expected, tmp_path):
    found = run_locally(study, tmp_path, [local_site(study, name) for name in SITES])
    assert found["fingerprint"] == expected
    assert {site["site"] for site in found["sites"]} == set(SITES)
    assert rl.load(tmp_path / "model.json").fingerprint == expected


def test_compare_with_a_hint_of_the_first_site(study, tmp_path):
    protocol = rl.Protocol.load(study / "study.json")
    space = replace(protocol.design.space, hint_bits=2)
    hinted = replace(protocol, design=replace(protocol.design, space=space))
    hinted.save(tmp_path / "study.json")
    (tmp_path / "sites").symlink_to(study / "sites")
    sites = [local_site(tmp_path, name) for name in SITES]
    found = run_locally(tmp_path, tmp_path / "out", sites, mode="compare")
    for name in SITES:
        estimator = hinted.estimator(hint=found["hint"])
        alone = quietly(rl.fit_file, estimator, study / f"sites/{name}.csv", "ill")
        assert found["sites"][name] == alone.fingerprint_


def test_compare_with_a_hint_for_algorithm_1(study, tmp_path):
    pilot = draw(600, seed=1)
    plan = rl.plan_from_pilot(
        pilot[["a", "b", "c"]], pilot["ill"], samples_per_site=600, algorithm="svm", hint_bits=4
    )
    replace(plan.protocol, target="ill").save(tmp_path / "study.json")
    (tmp_path / "sites").symlink_to(study / "sites")
    sites = [local_site(tmp_path, name) for name in SITES]
    found = run_locally(tmp_path, tmp_path / "out", sites, mode="compare")
    hints = {rl.load(path).hint for path in (tmp_path / "out/models").iterdir()}
    assert hints == {found["hint"]}


def test_a_node_that_comes_back_under_another_number(study, expected, tmp_path):
    class Restarting(LocalGrid):
        def get_node_ids(self):
            if self.n_sent >= len(SITES) and 9 not in self.sites:
                self.sites[9] = local_site(study, "west")
            return super().get_node_ids()

    dead = {1: local_site(study, "north"), 2: local_site(study, "south"), 3: lambda _: None}
    assert run_locally(study, tmp_path, Restarting(dead))["fingerprint"] == expected


def test_a_crashed_app_is_asked_again_and_a_lost_site_is_told(study, expected, tmp_path):
    answers = iter([failing(8), failing(5), *[local_site(study, "west")] * 2])
    good = [local_site(study, name) for name in ("north", "south")]
    flaky = [*good, lambda message: next(answers)(message)]
    assert run_locally(study, tmp_path / "a", flaky)["fingerprint"] == expected
    with pytest.raises(rl.ReplearnError, match=r"3 sites must answer .* got 2 \(north, south\)"):
        run_locally(study, tmp_path / "b", [*good, lambda _: None], seconds=0.5)
    with pytest.raises(rl.ReplearnError, match="gone"):
        run_locally(study, tmp_path / "c", [*good, failing(2)])
    assert not (tmp_path / "b/model.json").exists()


@pytest.mark.parametrize(
    ("rubbish", "words"),
    [
        ({}, "must send a file, got NoneType"),
        ({"file": 7}, "must send a file, got int"),
        ({"file": b""}, "not valid JSON"),
        ({"file": b"{}"}, "not a valid file of sums"),
        ({"file": b"\x00" * 100}, "not valid JSON"),
        ({"file": b"{}", "site": "a\nb"}, "printable"),
        ({"file": b"{}", "site": 3}, "site"),
        ({"problem": "the disk is full"}, "refuses: the disk is full"),
    ],
)
def test_rubbish_makes_no_model(study, tmp_path, rubbish, words):
    sites = [answering(**rubbish), local_site(study, "south"), local_site(study, "west")]
    with pytest.raises(rl.ReplearnError, match=words):
        run_locally(study, tmp_path, sites)
    assert not (tmp_path / "model.json").exists()


def test_what_else_is_refused(study, tmp_path):
    good = [local_site(study, name) for name in SITES]

    def refused(words, sites=good, **more):
        with pytest.raises(rl.ReplearnError, match=words):
            run_locally(study, tmp_path, sites, **more)

    refused(
        "two versions of the site 'north'", [*good[:2], local_site(study, "west", site="north")]
    )
    refused("3 sites must be connected, got 4", [*good, local_site(study, "west", site="more")])
    refused(
        "the node config must have data", [lambda m: local_site(study, "west", site=None)(m)] * 3
    )
    refused("mode must be one of coalition, compare", mode="average")
    refused("n-sites", **{"n-sites": 0})
    protocol = rl.Protocol.load(study / "study.json")
    replace(protocol, seed="other").save(tmp_path / "other.json")
    stranger = local_site(study, "west", protocol=str(tmp_path / "other.json"))
    refused("must have this site's protocol", [*good[:2], stranger])
    assert not (tmp_path / "model.json").exists()


def fingerprint(out):
    return json.loads((out / "result.json").read_text())["fingerprint"]


def test_a_supernode_killed_in_a_round_and_restarted(study, expected, tmp_path):
    with Federation(tmp_path) as federation:
        nodes = {name: federation.site(study, name) for name in SITES}
        federation.wait(lambda: federation.said().count("Activated node_id") == 3)

        out = tmp_path / "out"
        federation.submit(study, out)
        federation.wait(lambda: (out / "round1.json").exists())
        end(nodes.pop("west"))
        nodes["west"] = federation.site(study, "west")
        federation.wait((out / "result.json").exists)
        assert fingerprint(out) == expected
        assert rl.load(out / "model.json").fingerprint == expected


def test_simulation_of_both_modes(study, expected, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: flwr[simulation]")
    with Federation(tmp_path, "--simulation") as federation:
        out = tmp_path / "coalition"
        federation.submit(study, out)
        federation.wait((out / "result.json").exists)
        assert fingerprint(out) == expected
        out = tmp_path / "compare"
        federation.submit(study, out, mode="compare")
        federation.wait((out / "result.json").exists)
        found = json.loads((out / "result.json").read_text())
        protocol = rl.Protocol.load(study / "study.json")
        for name in SITES:
            alone = quietly(rl.fit_file, protocol.estimator(), study / f"sites/{name}.csv", "ill")
            assert found["sites"][name] == alone.fingerprint_
        assert found["same"] == (len(set(found["sites"].values())) == 1)
