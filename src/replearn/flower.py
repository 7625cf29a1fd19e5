"""Studies on Flower: sites fit and compare, or send exact sums, round by round.

``server_app()`` and ``client_app()`` are the two halves of a Flower app; ``examples/flower`` is one
that runs. What travels are the files of this library, read as strictly as files: a site that sends
rubbish, or none of what was asked, makes the round fail; it never makes another model. See
``docs/flower.md``.
"""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replearn.coalitions.combining import Coalition, combine
from replearn.coalitions.engines import site_sums
from replearn.coalitions.rounds import CoalitionRound
from replearn.coalitions.site_sums import SiteSums, read_name
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.files.jsonfile import Unfit
from replearn.files.modelfile import load, save
from replearn.fits.file_fit import fit_file
from replearn.study.protocol import Protocol

MODES = ("coalition", "compare")

_QUESTION, _ANSWER = "question", "answer"
_SECONDS_BETWEEN_LOOKS = 0.2

#: Flower's codes for a node or an app that is gone, but may come back; others are final.
_GONE = (3, 4, 5, 8)


def client_app() -> Any:
    """The app of a site, for SuperNodes.

    Returns
    -------
    flwr.clientapp.ClientApp
        Its node config has ``data`` (path of the rows), ``protocol`` (path of the site's own copy)
        and ``site`` (its name); ``target``, ``few-rows`` and ``allow-unknown`` if needed. A
        coordinator can choose none of them. In a simulation the sites are the files of the folder
        ``sites`` of the run config.
    """
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def query(message: Any, context: Any) -> Any:
        try:
            answer = _answered(dict(message.content[_QUESTION]), _site(context))
        except (ReplearnError, OSError) as problem:
            answer = {"problem": " ".join(str(problem).split())}
        return Message(RecordDict({_ANSWER: ConfigRecord(answer)}), reply_to=message)

    app.query()(query)
    return app


def server_app() -> Any:
    """The app of the coordinator, for a SuperLink.

    Returns
    -------
    flwr.serverapp.ServerApp
        Its run config has ``protocol`` (path), ``mode`` ("coalition" or "compare"), ``n-sites``,
        ``out`` (folder for all that is received and made) and ``seconds`` (for a round).
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Any, context: Any) -> None:
        study = _Study.of(grid, context.run_config)
        study.refuse_others()
        found = study.coalition() if study.mode == "coalition" else study.compare()
        logging.getLogger("flwr").info("%s", found)

    app.main()(main)
    return app


# --- a site -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Site:
    """Where the rows of a site are, and what it allows."""

    name: str
    data: Path
    protocol: Path
    target: str | None
    few_rows: bool
    allow_unknown: bool


def _site(context: Any) -> _Site:
    node, run = context.node_config, context.run_config
    if "data" in node:
        data, name, protocol = node["data"], node.get("site"), node.get("protocol")
    elif "partition-id" in node:  # a simulated site
        files = sorted(path for path in Path(str(run["sites"])).iterdir() if path.is_file())
        if not files:
            raise ReplearnError(f"sites must be a folder with a file for each, got {run['sites']}.")
        data = files[int(node["partition-id"]) % len(files)]
        name, protocol = data.stem, run["protocol"]
    else:
        raise ReplearnError("the node config must have data, protocol and site, got no data.")
    if name is None or protocol is None:
        raise ReplearnError(
            "the node config must have data, protocol and site, got no "
            f"{'site' if name is None else 'protocol'}. Start the SuperNode with --node-config."
        )
    target = node.get("target")
    return _Site(
        name=_checked_name(name),
        data=Path(str(data)),
        protocol=Path(str(protocol)),
        target=None if target is None else str(target),
        few_rows=node.get("few-rows", False) is True,
        allow_unknown=node.get("allow-unknown", False) is True,
    )


def _answered(question: Mapping[str, Any], site: _Site) -> dict[str, Any]:
    """What a site answers: a file, as bytes."""
    protocol = Protocol.load(site.protocol)
    if question.get("protocol") != protocol.fingerprint:
        raise ReplearnError(
            f"the study must have this site's protocol, {protocol.fingerprint}, got "
            f"{str(question.get('protocol'))[:80]}. Send all sites one protocol file."
        )
    mode = question.get("mode")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.json"
        if mode == "coalition":
            state = Path(folder) / "state.json"
            state.write_bytes(question["after"])
            sums = site_sums(
                protocol,
                site.data,
                site.target,
                after=CoalitionRound.load(state, protocol) if question["after"] else None,
                site=site.name,
                few_rows=site.few_rows,
                allow_unknown=site.allow_unknown,
            )
            sums.save(made)
            return {"site": site.name, "file": made.read_bytes()}
        if mode != "compare":
            raise ReplearnError(f"mode must be one of {', '.join(MODES)}, got {str(mode)[:80]}.")
        hint = question.get("hint", -1)
        fitted = fit_file(
            protocol.estimator(**({} if hint < 0 else {"hint": hint})),
            site.data,
            site.target or protocol.target,
            allow_unknown=site.allow_unknown,
        )
        save(fitted.model_, made)
        hint = fitted.hint_ if protocol.hint_bits else -1
        return {"site": site.name, "file": made.read_bytes(), "hint": hint}


def _checked_name(name: Any) -> str:
    try:
        return read_name(name)
    except Unfit as problem:
        raise ReplearnError(f"{problem}, got {str(name)[:80]!r}.") from None


# --- the coordinator --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Study:
    """A run of the coordinator: asks the sites, and keeps what they send."""

    grid: Any  # flwr.serverapp.Grid
    protocol: Protocol
    mode: str
    n_sites: int
    out: Path
    seconds: float  # for one round, killed sites that come back included

    @classmethod
    def of(cls, grid: Any, run: Mapping[str, Any]) -> "_Study":
        """Read the run config."""
        mode, n_sites, seconds = run["mode"], run["n-sites"], run["seconds"]
        if mode not in MODES:
            raise ReplearnError(f"mode must be one of {', '.join(MODES)}, got {mode!r}.")
        if type(n_sites) is not int or n_sites < 1:
            raise ReplearnError(f"n-sites must be a whole number of sites, got {n_sites!r}.")
        if type(seconds) not in (int, float) or not 0 < seconds < 1e7:
            raise ReplearnError(f"seconds must be positive, got {seconds!r}.")
        out = Path(str(run["out"]))
        out.mkdir(parents=True, exist_ok=True)
        return cls(grid, Protocol.load(str(run["protocol"])), mode, n_sites, out, seconds)

    def refuse_others(self) -> None:
        """Refuse to start if it would be chance which sites take part.

        Not later: a SuperNode that was killed stays connected for a while, beside its next life.
        """
        n_nodes = len(list(self.grid.get_node_ids()))
        if n_nodes > self.n_sites:
            raise ReplearnError(
                f"{self.n_sites} sites must be connected, got {n_nodes}. Set n-sites, or stop the "
                "SuperNodes that do not belong to the study."
            )

    def coalition(self) -> Coalition:
        """All rounds; the model is in ``model.json``."""
        after: CoalitionRound | None = None
        state = b""
        while True:
            number = 1 if after is None else after.round + 1
            folder = self.out / f"round{number}"
            answers = self._ask({"after": state}, self.n_sites, folder, self._read_sums)
            found = combine(self.protocol, [sums for sums, _ in answers], after)
            if isinstance(found, Coalition):
                save(found.model, self.out / "model.json", {"sites": len(found.sites)})
                self._write("result.json", found.data())
                return found
            after = found
            after.save(self.out / f"round{number}.json")
            state = (self.out / f"round{number}.json").read_bytes()

    def compare(self) -> str:
        """Every site fits; which fingerprints are there is in ``result.json``."""
        folder, bits = self.out / "models", self.protocol.hint_bits
        question: dict[str, Any] = {"hint": -1}
        answers: list[tuple[Model, dict[str, Any]]] = []
        if bits:  # the first site chooses the hint, the others take it
            answers = self._ask(question, 1, folder, lambda path, _: load(path), only_one=True)
            hint = answers[0][1].get("hint")
            if type(hint) is not int or not 0 <= hint < 1 << bits:
                raise ReplearnError(f"a hint must have {bits} bits, got {str(hint)[:80]}.")
            question = {"hint": hint}
        if len(answers) < self.n_sites:
            answers = self._ask(question, self.n_sites, folder, lambda path, _: load(path))
        sites = {about["site"]: model.fingerprint for model, about in answers}
        counts = {text: list(sites.values()).count(text) for text in sites.values()}
        same = len(counts) == 1
        self._write(
            "result.json", {"same": same, "sites": sites, **({} if bits == 0 else question)}
        )
        most = max(counts.values())
        words = "all sites have one model" if same else f"at most {most} sites have one model"
        return f"{len(sites)} sites, {words}: {max(counts, key=lambda text: counts[text])}"

    def _read_sums(self, path: Path, about: dict[str, Any]) -> SiteSums:
        sums = SiteSums.load(path, self.protocol)
        if sums.site != about["site"]:
            raise ReplearnError(f"sums must be of {about['site']!r}, got those of {sums.site!r}.")
        return sums

    def _write(self, name: str, content: dict[str, Any]) -> None:
        text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False)
        (self.out / name).write_text(text + "\n", encoding="utf-8")

    def _ask(
        self,
        question: dict[str, Any],
        n_answers: int,
        folder: Path,
        read: Callable[[Path, dict[str, Any]], Any],
        only_one: bool = False,
    ) -> list[tuple[Any, dict[str, Any]]]:
        """Ask every node, late ones too, until enough sites have answered.

        A SuperNode that was killed comes back as another node: it is asked again, and what it may
        have answered before counts once, since it has one name.
        """
        folder.mkdir(exist_ok=True)
        question = {"mode": self.mode, "protocol": self.protocol.fingerprint, **question}
        end = time.monotonic() + self.seconds
        asked: set[int] = set()
        waiting: set[str] = set()
        found: dict[str, tuple[bytes, Any, dict[str, Any]]] = {}
        lost: list[str] = []
        while len(found) < n_answers:
            if time.monotonic() > end:
                raise ReplearnError(
                    f"{n_answers} sites must answer within {self.seconds:g} seconds, got "
                    f"{len(found)} ({', '.join(sorted(found)) or 'none'})"
                    f"{''.join(f'; {words}' for words in lost[-3:])}. Look after the missing "
                    "SuperNodes, and run again."
                )
            nodes = sorted(set(self.grid.get_node_ids()) - asked)
            if only_one:
                nodes = nodes[: 1 - len(asked)]
            asked.update(nodes)
            waiting.update(self.grid.push_messages(self._messages(question, nodes)))
            for reply in self.grid.pull_messages(sorted(waiting)) if waiting else ():
                waiting.discard(reply.metadata.reply_to_message_id)
                node = reply.metadata.src_node_id
                if not reply.has_error():
                    self._take(reply, folder, read, found)
                elif reply.error.code in _GONE:
                    lost.append(f"node {node}: {reply.error.reason}")
                    asked.discard(node)
                else:
                    raise ReplearnError(f"node {node} failed: {reply.error.reason}")
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return [(made, about) for _, made, about in found.values()]

    def _messages(self, question: dict[str, Any], nodes: Iterable[int]) -> list[Any]:
        from flwr.app import ConfigRecord, Message, MessageType, RecordDict

        content = {_QUESTION: ConfigRecord(dict(question))}
        return [
            Message(RecordDict(content), dst_node_id=node, message_type=MessageType.QUERY)
            for node in nodes
        ]

    def _take(
        self,
        reply: Any,
        folder: Path,
        read: Callable[[Path, dict[str, Any]], Any],
        found: dict[str, tuple[bytes, Any, dict[str, Any]]],
    ) -> None:
        """Read an answer as strictly as a file; keep the file."""
        node = reply.metadata.src_node_id
        try:
            about = dict(reply.content[_ANSWER])
        except (KeyError, TypeError, ValueError):
            raise ReplearnError(f"node {node} must answer the question, got none.") from None
        if "problem" in about:
            raise ReplearnError(f"node {node} refuses: {str(about['problem'])[:500]}")
        content = about.pop("file", None)
        if not isinstance(content, bytes):
            raise ReplearnError(f"node {node} must send a file, got {type(content).__name__}.")
        name = _checked_name(about.get("site"))
        known = found.get(name)
        if known is not None and known[0] != content:
            raise ReplearnError(
                f"there are two versions of the site {name!r}, the second from node {node}. Give "
                "each site a name of its own."
            )
        path = folder / f"{node}.json"
        path.write_bytes(content)
        found[name] = (content, read(path, about), about)
