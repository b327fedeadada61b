# SPDX-License-Identifier: Apache-2.0
"""Which pages move and which end zero, against numbers worked out by hand."""

import pytest
from small_cases import attention, case, hisparse, layer, padded_tail, reverse_geometry, ring, sliding, ssm, worker

from kvproof.reference.derive import derive
from kvproof.spec.place import Place
from kvproof.spec.vocabulary import Case, Group, Table


def one_group(group: Group, source: Table, target: Table, tokens: int) -> Case:
    """A group with one layer of 10-byte pages in storages of 100 blocks, the same on both sides."""
    pages = 100 * group.pages_per_block
    layers = [layer("x", group.name, "s", 0, 10, 10)]
    storages, pools = {"s": 10 * pages}, {"device": 100}
    producer = worker("producer", storages, [group], layers, {group.name: source}, pools)
    consumer = worker("consumer", storages, [group], layers, {group.name: target}, pools)
    return case(producer, consumer, tokens)


def moved(found: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    [pairing] = derive(found).tables.pairings
    return pairing.source_pages, pairing.target_pages


def test_padded_tail_reads_the_first_pages() -> None:
    tables = derive(padded_tail()).tables
    assert tables.source_ids == (20, 21, 22, 120, 121, 122)
    assert tables.target_ids == (30, 31, 32, 140, 141, 142)
    assert derive(padded_tail()).plan.zeroes == ()


def test_padded_tail_with_a_cached_page_reads_the_ones_behind_it() -> None:
    tables = derive(padded_tail(cached_on_host=64)).tables
    assert tables.source_ids == (21, 22, 120, 121, 122)
    assert tables.target_ids == (31, 32, 140, 141, 142)


def test_reverse_geometry_zeroes_the_fourth_page_of_each_layer() -> None:
    derived = derive(reverse_geometry())
    assert derived.tables.source_ids == (10, 11, 12, 110, 111, 112)
    assert derived.tables.target_ids == (60, 61, 62, 180, 181, 182)
    assert derived.plan.zeroes == (Place("D0/host", 63 * 64, 64), Place("D0/index", 83 * 128, 128))


def test_reverse_geometry_with_a_cached_block() -> None:
    derived = derive(reverse_geometry(cached_on_host=128))
    assert derived.tables.source_ids == (12, 110, 111, 112)
    assert derived.tables.target_ids == (62, 180, 181, 182)
    assert [zero.offset for zero in derived.plan.zeroes] == [63 * 64, 83 * 128]


def test_both_sides_padded() -> None:
    derived = derive(hisparse(2, [10, 11], 2, Table((30, 31)), Table((40, 41))))
    assert derived.tables.source_ids == (20, 21, 22, 120, 121, 122)
    assert derived.tables.target_ids == (60, 61, 62, 180, 181, 182)
    assert [zero.offset for zero in derived.plan.zeroes] == [63 * 64, 83 * 128]


def test_a_full_last_block_zeroes_nothing() -> None:
    derived = derive(hisparse(2, [10, 11], 2, Table((30, 31)), Table((40, 41)), tokens=256))
    assert derived.tables.source_ids == (20, 21, 22, 23, 120, 121, 122, 123)
    assert derived.plan.zeroes == ()


def test_everything_cached_moves_and_zeroes_nothing() -> None:
    found = hisparse(2, [10, 11], 2, Table((30, 31), cached_tokens=192), Table((40, 41), cached_tokens=192), tokens=192)
    derived = derive(found)
    assert (derived.plan.copies, derived.plan.zeroes) == ((), ())
    assert [pairing.group for pairing in derived.tables.pairings] == ["host", "idx"]


@pytest.mark.parametrize(
    ("tokens", "window", "retained", "cached", "ordinals"),
    [
        (30, 9, 0, 0, [2, 3]),  # first needed token 22, in page 2 of 8 tokens
        (30, 7, 0, 0, [3]),  # first needed token 24 starts page 3
        (30, 8, 0, 0, [2, 3]),  # 23 is the last of page 2
        (30, 7, 1, 0, [2, 3]),  # a retained token more
        (30, 9, 0, 24, [3]),  # the cached prefix reaches past the window's start
        (30, 1, 0, 0, []),  # a window of one token needs none of the past
        (30, 999, 0, 0, [0, 1, 2, 3]),  # a window longer than the prompt
    ],
)
def test_a_window_moves_the_pages_it_reaches(
    tokens: int, window: int, retained: int, cached: int, ordinals: list[int]
) -> None:
    blocks = (50, 7, 23, 4)
    source, target = Table(blocks), Table(tuple(b + 1 for b in blocks), cached_tokens=cached)
    found = one_group(sliding("swa", 8, window, retained), source, target, tokens)
    expected = tuple(blocks[ordinal] for ordinal in ordinals)
    assert moved(found) == (expected, tuple(block + 1 for block in expected))


def test_tables_that_start_later_count_from_their_first_block() -> None:
    found = one_group(sliding("swa", 8, 9), Table((23, 4), first=2), Table((9, 31, 62), first=1), 30)
    assert moved(found) == ((23, 4), (31, 62))


def test_ring_and_ssm_move_the_live_block() -> None:
    for group in (ring("g"), ssm("g")):
        assert moved(one_group(group, Table((5, 6, 7), live=2), Table((9, 8), live=1), 30)) == ((7,), (8,))
        assert moved(one_group(group, Table((5,)), Table((9,)), 30)) == ((5,), (9,))
        assert moved(one_group(group, Table((5,)), Table((9,), cached_tokens=30), 30)) == ((), ())


def test_ring_and_ssm_zero_nothing() -> None:
    for group in (ring("g", 64), ssm("g")):
        assert derive(one_group(group, Table((5,)), Table((9,)), 30)).plan.zeroes == ()


def test_a_cached_prefix_leaves_the_zeroes_of_the_last_block() -> None:
    group = attention("kv", 32, 4)
    derived = derive(one_group(group, Table((3, 4)), Table((6, 5), cached_tokens=40), 41))
    [pairing] = derived.tables.pairings
    assert (pairing.source_pages, pairing.target_pages) == ((17,), (21,))
    assert derived.plan.zeroes == (Place("D0/s", 220, 10), Place("D0/s", 230, 10))


def test_layers_are_matched_by_key() -> None:
    producer = worker(
        "producer",
        {"s": 1000},
        [attention()],
        [layer("p.b", "kv", "s", 0, 10, 10, key="b"), layer("a", "kv", "s", 100, 10, 10)],
        {"kv": [3]},
    )
    consumer = worker(
        "consumer",
        {"s": 1000},
        [attention()],
        [layer("d.a", "kv", "s", 0, 10, 10, key="a"), layer("b", "kv", "s", 100, 10, 10)],
        {"kv": [5]},
    )
    derived = derive(case(producer, consumer, 64))
    assert [(copy.source.offset, copy.target.offset) for copy in derived.plan.copies] == [(130, 50), (30, 150)]
