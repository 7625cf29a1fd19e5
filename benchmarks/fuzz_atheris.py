"""Coverage-guided fuzzing of the loaders with atheris: it keeps what reaches new lines of code.

    pip install "replearn[fuzz]"
    python benchmarks/fuzz_atheris.py [--target model] [libFuzzer's options, as -runs=20000]

Targets: model, protocol, commitment, sums, hint, choice, choice-protocol, state, csv, svmlight,
npz. Only modules of replearn in plain Python are instrumented; what numba has compiled cannot be.
The seeds are valid files; changed documents get a fingerprint that fits, so that the search goes
beyond it. Ends with a traceback at
the first case that gives neither a result nor a documented error, or takes over 10 s or 2 GiB
(libFuzzer's -timeout and -rss_limit_mb), and leaves the input in a file ``crash-...``.
"""

import argparse
import importlib
import json
import pkgutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

sys.path.insert(0, str(Path(__file__).parent.parent))

import replearn.kernels
import replearn.stages

for package in (replearn.kernels, replearn.stages):  # what is compiled must be loaded as it is
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)

with atheris.instrument_imports(include=["replearn"]):
    import replearn.coalitions.site_sums
    import replearn.codes.encoding
    import replearn.files.choicefile
    import replearn.files.jsonfile
    import replearn.files.modelfile
    import replearn.files.statefile
    import replearn.sources
    import replearn.study.choice_protocol
    import replearn.study.commitments
    import replearn.study.hints
    import replearn.study.protocol
    from replearn.errors import ReplearnError
    from tests.fuzzing import (
        choices,
        coalitions,
        commitments,
        hints,
        models,
        protocols,
        states,
        tables,
    )
    from tests.fuzzing.garbling import hashed, json_text, sealed
    from tests.fuzzing.judging import require
    from tests.fuzzing.samples import TABLE

JSON_TARGETS = ("model", "protocol", "commitment", "sums", "hint", "choice", "choice-protocol")
TARGETS = (*JSON_TARGETS, "state", "csv", "svmlight", "npz")
FOLDER = Path(tempfile.mkdtemp(prefix="replearn-atheris-"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=TARGETS, default="model")
    options, rest = parser.parse_known_args()
    use, seeds = target(options.target)
    corpus = FOLDER / "corpus"
    corpus.mkdir()
    for number, content in enumerate(seeds):
        (corpus / str(number)).write_bytes(content)
    warnings.simplefilter("ignore")

    def one(data: bytes) -> None:
        try:
            use(data)
        except ReplearnError as problem:
            require(len(str(problem)) < 20_000, "a message must be short")

    defaults = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=20000"]
    given = {option.split("=")[0] for option in rest}
    arguments = [sys.argv[0], *(d for d in defaults if d.split("=")[0] not in given), *rest]
    atheris.Setup([*arguments, str(corpus)], one)
    atheris.Fuzz()


def target(name: str) -> tuple[Callable[[bytes], Any], list[bytes]]:
    """What uses some bytes, and valid ones."""
    if name in JSON_TARGETS:
        use, documents = {
            "model": (model, models.model_documents),
            "protocol": (protocol, protocols.protocol_documents),
            "commitment": (commitment, commitments.commitment_documents),
            "sums": (sums, lambda: coalitions.sum_documents()["alone"]),
            "hint": (hint, lambda: hints.hint_documents()[0]),
            "choice": (choice, lambda: choices.choice_documents()[1]),
            "choice-protocol": (choice_protocol, lambda: choices.choice_documents()[0]),
        }[name]
        return use, [json_text(document).encode() for document in documents()]
    if name == "state":
        return state, [states.saved_stream()]
    if name == "csv":
        return table(".csv", "label"), [TABLE, b'a,"b",label\n1,"2",0\r\n3,4,1\n']
    if name == "svmlight":
        return table(".svm", None), [b"1 1:.5 3:2 # note\n-1 2:1\n"]
    return table(".npz", None), list(tables.archives())


def written(data: bytes, name: str) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def with_hash(data: bytes, seal: Callable[[Any], Any]) -> bytes:
    """A document whose hash fits, if it is one; else as it is."""
    try:
        return json.dumps(seal(json.loads(data))).encode()
    except (ValueError, RecursionError):
        return data


def model(data: bytes) -> None:
    loaded = replearn.files.modelfile.load(written(with_hash(data, sealed), "a.json"))
    if loaded.n_features < 10_000 and loaded.codes.size < 10_000:
        models.use_model(loaded, FOLDER)


def protocol(data: bytes) -> None:
    loaded = replearn.study.protocol.Protocol.load(written(data, "a.json"))
    assert len(loaded.fingerprint) == 64
    loaded.estimator()


def commitment(data: bytes) -> None:
    item = replearn.study.commitments.load_commitment(written(data, "a.json"))
    if isinstance(item, replearn.study.commitments.Opening):
        item.commitment()


def sums(data: bytes) -> None:
    study = coalitions.study_of("alone")
    path = written(with_hash(data, hashed), "a.json")
    coalitions.use_sums(study, [replearn.SiteSums.load(path, study)], None, FOLDER)


def hint(data: bytes) -> None:
    replearn.study.hints.Hint.load(written(data, "a.json"))


def choice(data: bytes) -> None:
    path = written(with_hash(data, choices.sealed_choice), "a.json")
    choices.use_choice(replearn.load_choice(path), FOLDER)


def choice_protocol(data: bytes) -> None:
    loaded = replearn.ChoiceProtocol.load(written(data, "a.json"))
    assert len(loaded.fingerprint) == 64
    assert loaded.seed_policy


def state(data: bytes) -> None:
    states.small_stream().load_state(written(data, "a.npz"))


def table(suffix: str, label: str | None) -> Callable[[bytes], None]:
    def use(data: bytes) -> None:
        path = written(data, f"a{suffix}")
        for _ in replearn.sources.open_source(path, label).pieces():
            pass

    return use


if __name__ == "__main__":
    main()
