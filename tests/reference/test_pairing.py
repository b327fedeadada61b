# SPDX-License-Identifier: Apache-2.0
"""Which regions pair, how rows are split, and the descriptor ids that follow."""

from small_cases import aliased_groups, attention, case, layer, replicated_ssm, ssm, worker

from kvproof.reference.derive import derive
from kvproof.reference.faults import FAULTS
from kvproof.spec.tables import Region
from kvproof.spec.vocabulary import Case, Part, Role, Table, Worker

Rows = list[tuple[str, int, int, int, int]]


def rows(regions: tuple[Region, ...]) -> Rows:
    return [(r.storage, r.offset, r.bytes, r.stride, r.pages) for r in regions]


def members(regions: tuple[Region, ...]) -> list[list[str]]:
    return [[m.layer for m in r.members] for r in regions]


def test_aliased_groups_move_each_row_once() -> None:
    tables = derive(case(aliased_groups("producer", 1, 3, 2), aliased_groups("consumer", 2, 1, 3), 200)).tables
    assert (tables.source_ids, tables.target_ids) == ((1, 3, 2), (2, 1, 3))


def test_aliased_groups_under_the_fold_faults() -> None:
    found = case(aliased_groups("producer", 1, 3, 2), aliased_groups("consumer", 2, 1, 3), 200)

    def ids(fault: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        tables = derive(found, FAULTS[fault].rules).tables
        return tables.source_ids, tables.target_ids

    assert ids("fold-by-base") == ((1, 5, 3, 7, 2, 6), (2, 6, 1, 5, 3, 7))
    # The ring group moves its row, and its second page again; keyed by length too, both its pages again.
    assert ids("row-fold-by-base") == ((1, 3, 2, 6), (2, 1, 3, 7))
    assert ids("row-fold-by-base-and-length") == ((1, 3, 2, 6, 10), (2, 1, 3, 7, 11))


def packed_and_layered() -> Case:
    """D packs both layers of two groups into rows of 96 bytes; P packs only the first group's so, as row 96 too."""
    groups = [attention("g", 16), attention("h", 16)]
    producer = worker(
        "producer",
        {"s": 960, "t": 1000},
        groups,
        [
            layer("g.0", "g", "s", 0, 32, 96),
            layer("g.1", "g", "s", 32, 64, 96),
            layer("h.1", "h", "t", 0, 64, 64),
            layer("h.0", "h", "t", 640, 32, 32),
        ],
        {"g": [4, 5], "h": [6, 7]},
    )
    consumer = worker(
        "consumer",
        {"u": 672},
        groups,
        [
            layer("h.1", "h", "u", 32, 64, 96),
            layer("g.0", "g", "u", 0, 32, 96),
            layer("g.1", "g", "u", 32, 64, 96),
            layer("h.0", "h", "u", 0, 32, 96),
        ],
        {"g": [0, 1], "h": [2, 3]},
        {"device": 7},
    )
    return case(producer, consumer, 30)


def test_a_row_is_split_for_one_group_and_kept_for_the_other() -> None:
    tables = derive(packed_and_layered()).tables
    assert rows(tables.registered["D0"]) == [("D0/u", 0, 96, 96, 7)]
    assert rows(tables.target) == [("D0/u", 0, 96, 96, 7), ("D0/u", 32, 64, 96, 7), ("D0/u", 0, 32, 96, 7)]
    assert members(tables.target) == [["g.0", "g.1"], ["h.1"], ["h.0"]]
    assert rows(tables.source) == [("P0/s", 0, 96, 96, 10), ("P0/t", 0, 64, 64, 10), ("P0/t", 640, 32, 32, 10)]
    assert [(p.group, p.source, p.target) for p in tables.pairings] == [("g", 0, 0), ("h", 1, 1), ("h", 2, 2)]
    assert tables.target_ids == (0, 1, 7 + 2, 7 + 3, 14 + 2, 14 + 3)
    assert tables.source_ids == (4, 5, 10 + 6, 10 + 7, 20 + 6, 20 + 7)


def test_a_row_that_every_group_splits_is_gone_and_its_pages_fold_again() -> None:
    groups = [attention("g", 16), attention("h", 16)]
    producer = worker(
        "producer",
        {"a": 320, "b": 640, "c": 320},
        groups,
        [
            layer("g.0", "g", "a", 0, 32, 32),
            layer("g.1", "g", "b", 0, 64, 64),
            layer("h.0", "h", "c", 0, 32, 32),
        ],
        {"g": [4], "h": [6]},
    )
    consumer = worker(
        "consumer",
        {"u": 960, "v": 320},
        [*groups, attention("alone", 16)],
        [
            layer("g.0", "g", "u", 0, 32, 96),
            layer("g.1", "g", "u", 32, 64, 96),
            layer("h.0", "h", "u", 0, 32, 96),
        ],
        {"g": [1], "h": [2]},
    )
    tables = derive(case(producer, consumer, 16)).tables
    assert rows(tables.target) == [("D0/u", 0, 32, 96, 10), ("D0/u", 32, 64, 96, 10)]
    assert members(tables.target) == [["g.0", "h.0"], ["g.1"]]
    assert tables.target_ids == (1, 11, 2)
    assert tables.source_ids == (4, 14, 26)


def test_a_producers_row_is_split_for_a_layered_consumer() -> None:
    layered = worker(
        "consumer",
        {"a": 320, "b": 640},
        [attention("g", 16)],
        [layer("g.1", "g", "b", 0, 64, 64), layer("g.0", "g", "a", 0, 32, 32)],
        {"g": [3]},
    )
    packed = worker(
        "producer",
        {"u": 960},
        [attention("g", 16), attention("unmoved", 16)],
        [
            layer("g.0", "g", "u", 0, 32, 96),
            layer("other", "unmoved", "u", 0, 8, 96),
            layer("g.1", "g", "u", 32, 64, 96),
        ],
        {"g": [5], "unmoved": [6]},
    )
    tables = derive(case(packed, layered, 16)).tables
    assert rows(tables.source) == [("P0/u", 0, 32, 96, 10), ("P0/u", 32, 64, 96, 10)]
    assert (tables.source_ids, tables.target_ids) == ((15, 5), (3, 13))


def test_members_at_other_offsets_split_rows_of_equal_length() -> None:
    def side(role: Role, first: int, second: int) -> Worker:
        return worker(
            role,
            {"u": 960},
            [attention("g", 16)],
            [layer("g.0", "g", "u", first, 32, 96), layer("g.1", "g", "u", second, 32, 96)],
            {"g": [5]},
        )

    tables = derive(case(side("producer", 0, 32), side("consumer", 0, 64), 16)).tables
    assert rows(tables.source) == [("P0/u", 0, 32, 96, 10), ("P0/u", 32, 32, 96, 10)]
    assert rows(tables.target) == [("D0/u", 0, 32, 96, 10), ("D0/u", 64, 32, 96, 10)]
    same = derive(case(side("producer", 0, 64), side("consumer", 0, 64), 16)).tables
    assert rows(same.target) == [("D0/u", 0, 96, 96, 10)]


def hybrid(tokens: int | None) -> Case:
    """Attention with two pages a block on P and one on D (20 and 7 pages), ssm with two parts, a replicated page."""
    parts = Part("conv", 4), Part("state", 8)

    layers = [
        layer("mamba", "ssm", "m", 0, 16, 16, *parts),
        layer("ple", "ple", "p", 0, 24, 24),
        layer("attn", "kv", "a", 0, 32, 32),
    ]
    theirs: dict[str, list[int] | Table] = {"ssm": [3], "ple": [4], "kv": [1, 2]}
    ours: dict[str, list[int] | Table] = {"kv": [5, 1, 6], "ssm": [2], "ple": [0]}
    producer = worker(
        "producer",
        {"m": 160, "p": 240, "a": 640},
        [ssm(), replicated_ssm(), attention("kv", 32, 2)],
        layers,
        None if tokens is None else theirs,
    )
    consumer = worker(
        "consumer",
        {"m": 160, "p": 240, "a": 640},
        [attention("kv", 16), ssm(), replicated_ssm()],
        layers,
        None if tokens is None else ours,
        {"device": 7},
    )
    return case(producer, consumer, tokens)


def test_sections_count_each_by_their_own_sides_pages() -> None:
    tables = derive(hybrid(40)).tables
    assert [r.pages for r in tables.source] == [20, 10, 10, 10]
    assert [r.pages for r in tables.target] == [7, 7, 7, 7]
    assert tables.source_ids == (2, 3, 4, 20 + 3, 30 + 3, 40 + 4)
    assert tables.target_ids == (5, 1, 6, 7 + 2, 14 + 2, 21 + 0)
    copies = [
        (c.source.storage, c.source.offset, c.target.offset, c.target.bytes) for c in derive(hybrid(40)).plan.copies
    ]
    assert copies == [
        ("P0/a", 64, 160, 32),
        ("P0/a", 96, 32, 32),
        ("P0/a", 128, 192, 32),
        ("P0/m", 48, 32, 4),
        ("P0/m", 52, 36, 8),
        ("P0/p", 96, 0, 24),
    ]


def test_without_a_request_there_are_tables_and_no_plan() -> None:
    derived = derive(hybrid(None))
    assert derived.tables.registered == derive(hybrid(40)).tables.registered
    assert [(p.source, p.target) for p in derived.tables.pairings] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert (derived.tables.source_ids, derived.tables.target_ids) == ((), ())
    assert (derived.plan.copies, derived.plan.zeroes) == ((), ())


def test_a_row_is_split_where_its_twins_lie_in_two_rows_just_like_it() -> None:
    groups = [attention("g", 16), attention("h", 16)]
    producer = worker(
        "producer",
        {"s": 640, "t": 640},
        groups,
        [
            layer("g.0", "g", "s", 0, 32, 64),
            layer("h.0", "h", "s", 32, 32, 64),
            layer("h.1", "h", "t", 0, 32, 64),
            layer("g.1", "g", "t", 32, 32, 64),
        ],
        {"g": [4], "h": [5]},
    )
    consumer = worker(
        "consumer",
        {"u": 640},
        groups[:1],
        [layer("g.0", "g", "u", 0, 32, 64), layer("g.1", "g", "u", 32, 32, 64)],
        {"g": [1]},
    )
    derived = derive(case(producer, consumer, 16))
    assert [(c.source.storage, c.source.offset, c.target.offset) for c in derived.plan.copies] == [
        ("P0/s", 256, 64),
        ("P0/t", 256 + 32, 64 + 32),
    ]
    assert rows(derived.tables.source) == [("P0/s", 0, 32, 64, 10), ("P0/t", 32, 32, 64, 10)]


def test_a_region_of_one_page_is_not_split() -> None:
    groups = [attention("g", 16), attention("h", 16)]
    producer = worker(
        "producer",
        {"s": 640, "t": 320},
        groups,
        [
            layer("g.0", "g", "s", 0, 32, 64),
            layer("g.1", "g", "s", 32, 16, 64),
            layer("h.0", "h", "t", 0, 32, 32),
        ],
        {"g": [4], "h": [5]},
    )
    consumer = worker(
        "consumer",
        {"u": 320, "v": 160},
        groups,
        [
            layer("h.0", "h", "u", 0, 32, 32),
            layer("g.0", "g", "u", 0, 32, 32),
            layer("g.1", "g", "v", 0, 16, 16),
        ],
        {"g": [1], "h": [2]},
    )
    tables = derive(case(producer, consumer, 16)).tables
    # g reads half of P's row into the region that it shares with h, and h a page just like it.
    assert rows(tables.target) == [("D0/u", 0, 32, 32, 10), ("D0/v", 0, 16, 16, 10)]
    assert members(tables.target) == [["h.0", "g.0"], ["g.1"]]
    assert rows(tables.source) == [("P0/s", 0, 32, 64, 10), ("P0/s", 32, 16, 64, 10), ("P0/t", 0, 32, 32, 10)]
    assert tables.target_ids == (1, 11, 2)
    assert tables.source_ids == (4, 14, 25)


def test_ids_run_by_region_even_where_split_pages_folded_out_of_layer_order() -> None:
    groups = [attention("g", 16), attention("h", 16)]
    layered = [
        layer("g.1", "g", "a", 0, 32, 32),
        layer("h.0", "h", "b", 0, 32, 32),
        layer("h.1", "h", "c", 0, 32, 32),
    ]
    packed = [
        layer("g.1", "g", "u", 32, 32, 64),
        layer("h.0", "h", "u", 0, 32, 64),
        layer("h.1", "h", "u", 32, 32, 64),
    ]
    producer = worker("producer", {"a": 320, "b": 320, "c": 320}, groups, layered, {"g": [4], "h": [5]})
    consumer = worker("consumer", {"u": 640}, groups, packed, {"g": [1], "h": [2]})
    tables = derive(case(producer, consumer, 16)).tables
    assert members(tables.target) == [["g.1", "h.1"], ["h.0"]]
    assert tables.target_ids == (1, 2, 12)
    assert tables.source_ids == (4, 25, 15)
