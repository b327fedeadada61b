# SPDX-License-Identifier: Apache-2.0
"""Sets of spans, and the sweep, against sets of bytes."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.spec.judge import spans as module
from kvproof.spec.judge.spans import BudgetExceeded, Spans, overlapping
from kvproof.spec.place import Place, overlaps

PLACE = st.builds(Place, st.sampled_from("AB"), st.integers(0, 25), st.integers(0, 8))
PLACES = st.lists(PLACE, max_size=8)


def bytes_of(*places: Place) -> set[tuple[str, int]]:
    return {(place.storage, place.offset + index) for place in places for index in range(place.bytes)}


@given(PLACES)
def test_a_set_holds_the_bytes_of_its_places_in_disjoint_spans(places: list[Place]) -> None:
    merged = list(Spans(places))
    assert bytes_of(*merged) == bytes_of(*places)
    assert Spans(places).total() == sum(place.bytes for place in merged) == len(bytes_of(*places))
    assert all(place.bytes > 0 for place in merged)
    for storage in "AB":
        row = [place for place in merged if place.storage == storage]
        assert all(first.offset + first.bytes < second.offset for first, second in pairwise(row))


@settings(max_examples=300)
@given(PLACES, PLACE)
def test_within_and_without_split_a_place(places: list[Place], place: Place) -> None:
    held = Spans(places)
    inside, outside = list(held.within(place)), list(held.without(place))
    assert bytes_of(*inside) == bytes_of(*places) & bytes_of(place)
    assert bytes_of(*outside) == bytes_of(place) - bytes_of(*places)
    assert sum(piece.bytes for piece in (*inside, *outside)) == place.bytes
    for pieces in (inside, outside):
        assert all(piece.bytes > 0 for piece in pieces)
        assert [piece.offset for piece in pieces] == sorted(piece.offset for piece in pieces)


@settings(max_examples=300)
@given(PLACES, PLACES)
def test_the_sweep_finds_each_overlap_once(first: list[Place], second: list[Place]) -> None:
    expected = [
        (i, j)
        for i, one in enumerate(first)
        for j, other in enumerate(second)
        if one.bytes > 0 and other.bytes > 0 and overlaps(one, other)
    ]
    assert sorted(overlapping(first, second)) == expected


def test_adjacent_spans_merge_and_others_do_not() -> None:
    assert list(Spans([Place("A", 4, 4), Place("A", 0, 4), Place("A", 9, 1), Place("B", 8, 1)])) == [
        Place("A", 0, 8),
        Place("A", 9, 1),
        Place("B", 8, 1),
    ]


def test_the_sweep_keeps_to_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS_LIMIT", 4)
    two = [Place("A", 0, 5), Place("A", 1, 5)]
    assert len(list(overlapping(two, two))) == 4
    with pytest.raises(BudgetExceeded, match="more than 4 overlaps"):
        list(overlapping(two, [*two, Place("A", 2, 1)]))
