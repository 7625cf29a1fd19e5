"""Studies on Flower: labs send exact sums, round by round, or fit for themselves and compare.

``server`` and ``client`` at the end are the two halves of the app. What travels are the files of
replearn, read as strictly as files: a lab that sends rubbish, or nothing, makes the round
fail; it never makes a different model.
"""

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replearn.documents import Document, write_json
from replearn.errors import ReplearnError, short
from replearn.glm import GlmModel
from replearn.study import GlmStudy, LabSums, State, combine, lab_sums, replicate, table_of

MODES = ("coalition", "compare")
#: Flower's codes for a node or an app that is gone, but may come back; others are final.
_GONE = (3, 4, 5, 8)


def client_app() -> Any:
    """The app of a lab, for SuperNodes.

    Returns
    -------
    flwr.clientapp.ClientApp
        Its node config has ``data`` (path of the rows), ``study`` (path of the lab's own copy) and
        ``lab`` (its name). A coordinator can choose none of them. In a simulation the labs are the
        files of the folder ``labs`` of the run config.
    """
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def query(message: Any, context: Any) -> Any:
        try:
            answer = _answered(dict(message.content["question"]), *_lab(context))
        except (ReplearnError, OSError) as problem:
            answer = {"problem": " ".join(str(problem).split())}
        return Message(RecordDict({"answer": ConfigRecord(answer)}), reply_to=message)

    app.query()(query)
    return app


def server_app() -> Any:
    """The app of the coordinator, for a SuperLink.

    Returns
    -------
    flwr.serverapp.ServerApp
        Its run config has ``study`` (path), ``mode`` ("coalition" or "compare"), ``n-labs``,
        ``out`` (folder for all that is received and made) and ``seconds`` (for a round).
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Any, context: Any) -> None:
        coordinator = _Coordinator.of(grid, context.run_config)
        found = coordinator.coalition() if coordinator.mode == MODES[0] else coordinator.compare()
        logging.getLogger("flwr").info("%s", found)

    app.main()(main)
    return app


def _lab(context: Any) -> tuple[str, Path, Path]:
    """Name, rows and study of a lab."""
    node, run = context.node_config, context.run_config
    if "data" not in node and "partition-id" in node:  # a simulated lab
        files = sorted(path for path in Path(str(run["labs"])).iterdir() if path.is_file())
        if not files:
            raise ReplearnError(f"labs must be a folder with a file for each, got {run['labs']}.")
        data = files[int(node["partition-id"]) % len(files)]
        return data.name.split(".")[0], data, Path(str(run["study"]))
    if absent := [name for name in ("data", "study", "lab") if name not in node]:
        raise ReplearnError(
            f"the node config must have data, study and lab, got no {absent[0]}. Start the "
            "SuperNode with --node-config."
        )
    return str(node["lab"]), Path(str(node["data"])), Path(str(node["study"]))


def _answered(question: Mapping[str, Any], lab: str, data: Path, path: Path) -> dict[str, Any]:
    """What a lab answers: a file, as bytes."""
    study = GlmStudy.load(path)
    if question.get("study") != study.fingerprint:
        raise ReplearnError(
            f"the study must be this lab's, {study.fingerprint}, got "
            f"{short(question.get('study'), 70)}. Send all labs one study file."
        )
    made: Document
    if _mode(question.get("mode")) == "compare":
        made = replicate(study, table_of(study.design, data))[0]
    else:
        with tempfile.TemporaryDirectory() as folder:  # what comes is read as strictly as a file
            path = Path(folder, "state.json")
            path.write_bytes(bytes(question.get("state", b"")))
            made = lab_sums(study, data, State.load(path), lab=lab)
    return {"lab": lab, "file": made.canonical_bytes()}


def _mode(given: Any) -> str:
    if given not in MODES:
        raise ReplearnError(f"mode must be one of {', '.join(MODES)}, got {short(given)}.")
    return str(given)


@dataclass(frozen=True)
class _Coordinator:
    """A run: asks the labs, and keeps what they send."""

    grid: Any  # flwr.serverapp.Grid
    study: GlmStudy
    mode: str
    n_labs: int
    out: Path
    seconds: float  # for one round, killed labs that come back included

    @classmethod
    def of(cls, grid: Any, run: Mapping[str, Any]) -> "_Coordinator":
        """Read the run config."""
        mode, n_labs, seconds = _mode(run["mode"]), run["n-labs"], run["seconds"]
        if type(n_labs) is not int or n_labs < 1:
            raise ReplearnError(f"n-labs must be a whole number of labs, got {short(n_labs)}.")
        if type(seconds) not in (int, float) or not 0 < seconds < 1e7:
            raise ReplearnError(f"seconds must be positive, got {short(seconds)}.")
        n_nodes = len(list(grid.get_node_ids()))
        if n_nodes > n_labs:  # it would be chance which of them take part
            raise ReplearnError(
                f"{n_labs} labs must be connected, got {n_nodes}. Set n-labs, or stop the "
                "SuperNodes that do not belong to the study."
            )
        out = Path(str(run["out"]))
        out.mkdir(parents=True, exist_ok=True)
        return cls(grid, GlmStudy.load(str(run["study"])), mode, n_labs, out, seconds)

    def coalition(self) -> Any:
        """All rounds; the model is in ``model.json``."""
        found: Any = self.study.begin()
        number = 0
        while isinstance(found, State):
            number += 1
            sums = self.asked(self.out / f"round{number}", LabSums, state=found.canonical_bytes())
            for lab, one in sums.items():
                if one.lab != lab:
                    raise ReplearnError(f"sums must be of {lab!r}, got those of {one.lab!r}.")
            found = combine(self.study, *sums.values(), state=found)
        found.model.save(self.out / "model.json")
        write_json(self.out / "result.json", found.facts().data())
        return found

    def compare(self) -> str:
        """Every lab fits; which fingerprints are there is in ``result.json``."""
        models = self.asked(self.out / "models", GlmModel)
        prints = {lab: model.fingerprint for lab, model in models.items()}
        n_same = max(Counter(prints.values()).values())
        n_first = sum(self.study.commits_to(one) is True for one in prints.values())
        words = f"{n_same} of {len(prints)} labs have one model; {n_first} have the original's."
        found = {"same": n_same == len(prints), "labs": prints, "verdict": words}
        write_json(self.out / "result.json", found)
        return words

    def asked(self, folder: Path, kind: type[Document], **more: Any) -> dict[str, Any]:
        """What all labs answer: every node is asked, late ones too.

        A SuperNode that was killed comes back as a different node: it is asked again, and what it
        may have answered before counts once, since it has one name.
        """
        from flwr.app import ConfigRecord, Message, MessageType, RecordDict

        folder.mkdir(exist_ok=True)
        question = {"mode": self.mode, "study": self.study.fingerprint, **more}
        end = time.monotonic() + self.seconds
        asked: set[int] = set()
        waiting: set[str] = set()
        found: dict[str, Any] = {}
        while len(found) < self.n_labs:
            if time.monotonic() > end:
                raise ReplearnError(
                    f"{self.n_labs} labs must answer within {self.seconds:g} seconds, got "
                    f"{len(found)} ({', '.join(sorted(found)) or 'none'}). Look after the missing "
                    "SuperNodes, and run again."
                )
            nodes = sorted(set(self.grid.get_node_ids()) - asked)
            asked.update(nodes)
            content = RecordDict({"question": ConfigRecord(question)})
            messages = [Message(content, node, MessageType.QUERY) for node in nodes]
            waiting.update(self.grid.push_messages(messages))
            for reply in self.grid.pull_messages(sorted(waiting)) if waiting else ():
                waiting.discard(reply.metadata.reply_to_message_id)
                node = reply.metadata.src_node_id
                if not reply.has_error():
                    lab, path = _kept(reply, node, folder)
                    made = kind.load(path)
                    if found.setdefault(lab, made).fingerprint != made.fingerprint:
                        raise ReplearnError(
                            f"there are two versions of the lab {lab!r}, the second from node "
                            f"{node}. Give each lab a name of its own."
                        )
                elif reply.error.code in _GONE:
                    asked.discard(node)
                else:
                    raise ReplearnError(f"node {node} failed: {reply.error.reason}")
            time.sleep(0.2)
        return found


def _kept(reply: Any, node: int, folder: Path) -> tuple[str, Path]:
    """The name of a lab, and the file that it sent."""
    try:
        answer = dict(reply.content["answer"])
    except (KeyError, TypeError, ValueError):
        raise ReplearnError(f"node {node} must answer the question, got none.") from None
    if "problem" in answer:
        raise ReplearnError(f"node {node} refuses: {short(answer['problem'], 500)}")
    content, lab = answer.get("file"), answer.get("lab")
    if not isinstance(content, bytes) or not isinstance(lab, str) or not 0 < len(lab) <= 200:
        raise ReplearnError(f"node {node} must send a file and a name, got something else.")
    path = folder / f"{node}.json"
    path.write_bytes(content)
    return lab, path


server = server_app()
client = client_app()
