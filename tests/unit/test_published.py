"""What a protocol fixes, as one object."""

import pickle

import pytest
from sklearn.base import clone

import replearn as rl
from replearn.codes.encoding import Encoding, NumberColumn

ENCODING = Encoding((NumberColumn("age", "50", "12"),))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"basis": 3}, "basis must be None or a Basis, got 3"),
        ({"encoding": [ENCODING]}, "encoding must be None or a Encoding"),
        ({"unit_mean": 1}, "unit_mean must be True or False, got 1"),
        ({"classes": (0, 1, 2)}, "classes must be None or two different labels"),
        ({"classes": (0, "1")}, "classes must be None or two different labels"),
        ({"classes": (False, False)}, "classes must be None or two different labels"),
    ],
)
def test_odd_parts_are_refused_at_once(parts, words):
    with pytest.raises(rl.ReplearnError, match=words):
        rl.Published(**parts)


def test_estimators_keep_it_through_clones_and_pickles():
    published = rl.Published(ENCODING, classes=("no", "yes"))
    first = rl.ReplicableSVMClassifier(published=published)
    for other in (clone(first), pickle.loads(pickle.dumps(first))):
        assert other.get_params()["published"] == published


def test_its_short_form_tells_two_of_them_apart():
    one, other = (rl.Published(classes=pair) for pair in [(0, 1), (False, True)])
    assert repr(one) != repr(other)
    assert repr(one) == repr(rl.Published(classes=(0, 1)))
    assert "classes (0, 1)" in repr(one)
    long = rl.Published(Encoding(tuple(NumberColumn(f"x{i}", "0", "1") for i in range(1000))))
    assert len(repr(long)) < 80
