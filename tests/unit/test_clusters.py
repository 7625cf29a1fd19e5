"""How rows are cut for workers, and what their labels say: no cluster needed."""

import socket
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replearn import ReplearnError, ReplicableSVMClassifier
from replearn.fits.clusters import connect, fit
from replearn.fits.clusters.spans import file_spans, partition_spans
from replearn.fits.connection import usable_client
from replearn.fits.label_parts import LabelPart, join_labels
from replearn.sources.labels import Labels
from replearn.stages.batches import LabelRuns

lengths = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 60)), max_size=12)
units = st.integers(1, 20)


def rows_of(spans):
    return [
        (piece.partition, row)
        for span in spans
        for piece in span.slices
        for row in range(piece.start, piece.stop)
    ]


@pytest.mark.parametrize("cut", [partition_spans, file_spans])
@given(lengths, units, st.integers(1, 50))
@example([], 4, 8)
@example([0, 0], 4, 8)
@example([1] * 40, 7, 20)
@example([1000], 3, 1)
def test_every_row_is_in_one_span_and_in_order(cut, sizes, unit, most):
    spans = cut(sizes, unit, most)
    assert rows_of(spans) == [(part, row) for part, size in enumerate(sizes) for row in range(size)]
    assert all(piece.start < piece.stop for span in spans for piece in span.slices)
    starts = np.cumsum([0, *(span.n_rows for span in spans)])
    assert [span.start for span in spans] == starts[:-1].tolist()
    assert all(span.n_rows % unit == 0 for span in spans[:-1])


@given(lengths, units, st.integers(0, 50))
def test_rows_move_only_if_their_unit_lies_across_a_border(sizes, unit, most):
    ends = np.cumsum(sizes)
    for span in partition_spans(sizes, unit, most):
        if len(span.slices) > 1:
            assert span.n_rows <= max(unit, most)
            for start in range(span.start, span.start + span.n_rows, unit):
                stop = min(start + unit, ends[-1])
                assert ((ends > start) & (ends < stop)).any()


@given(lengths, units, st.integers(1, 50))
def test_a_span_of_files_is_short_and_starts_just_behind_the_start_of_a_part(sizes, unit, rows):
    for span in file_spans(sizes, unit, rows):
        assert span.n_rows <= 2 * rows + unit
        first = span.slices[0]
        assert first.start < unit or sizes[first.partition] > 2 * rows


KINDS = {"array": Labels, "file": lambda: Labels("a.parquet", from_text=True)}


@pytest.mark.parametrize("labels", KINDS.values(), ids=KINDS)
@given(
    st.lists(st.sampled_from("xy"), min_size=2, max_size=40).filter(lambda y: len(set(y)) == 2),
    st.lists(st.integers(0, 40), max_size=5),
)
def test_labels_in_parts_say_what_all_of_them_say(labels, y, cuts):
    array = np.array(y, dtype=object)
    edges = [0, *sorted(min(cut, len(y)) for cut in cuts), len(y)]
    nothing, found = labels(), labels()
    parts = [LabelPart.of(nothing, array[a:b]) for a, b in pairwise(edges)]
    runs = join_labels(found, parts)
    assert not nothing.complete
    assert found.classes.tolist() == ["x", "y"]
    assert runs == LabelRuns.of(np.where(array == "y", 1, -1).astype(np.int8))


def test_text_that_is_a_number_stays_text_in_arrays_and_is_one_in_files():
    y = np.array(["10", "9", "9"], dtype=object)
    in_arrays, in_files = Labels(), Labels("a.parquet", from_text=True)
    for labels in (in_arrays, in_files):
        join_labels(labels, [LabelPart.of(labels, y)])
    assert in_arrays.classes.tolist() == ["10", "9"]
    assert in_files.classes.tolist() == [9, 10]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([[], []], "X must have rows, got none"),
        ([[1, 1], [], [1]], "y must hold two classes, got one class"),
        ([[1, 2], [3]], "Only binary classification is supported"),
        ([[1, 2, 3]], "Only binary classification is supported"),
    ],
    ids=["none", "one class", "three classes", "three in one part"],
)
def test_labels_that_are_not_two(parts, message):
    labels = Labels()
    with pytest.raises(ReplearnError, match=message):
        join_labels(labels, [LabelPart.of(labels, np.array(part, np.int64)) for part in parts])


def test_a_client_is_needed_and_none_is_started(tmp_path):
    with pytest.raises(ReplearnError, match=r"needs a Dask client, got none\. Start one first: fr"):
        fit(ReplicableSVMClassifier(shuffle=False), tmp_path / "rows.parquet", target="label")
    with pytest.raises(ReplearnError, match=r"must be a distributed\.Client .* got 'tcp://10"):
        usable_client("tcp://10.0.0.1:8786")


@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_address_where_somebody_else_answers(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        started = time.monotonic()

        def serve():
            door, _ = server.accept()
            with door:
                if answer is not None:
                    door.sendall(answer)
                else:
                    door.recv(1)  # until the caller goes

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ReplearnError, match="no Dask scheduler answers"), connect(address, 1.5):
            pass
        thread.join()
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "address", ["", "nonsense", "http://127.0.0.1:80", "tcp://127.0.0.1:99999"]
)
def test_an_address_that_is_none(address):
    with pytest.raises(ReplearnError, match="Pass the address that"), connect(address, 0.5):
        pass


def test_an_address_where_nobody_answers():
    message = r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1' .* Pass the address"
    with pytest.raises(ReplearnError, match=message), connect("tcp://127.0.0.1:1", 0.5):
        pass
