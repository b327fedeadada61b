# SPDX-License-Identifier: Apache-2.0
"""Cells on examples worked by hand: who holds one, where it lies, whether it is required."""

import pytest
from spec_worlds import built, changed, two_workers

from kvproof.spec.cells import (
    BlockTable,
    Cell,
    PageView,
    PartView,
    block_cached,
    block_listed,
    block_needed,
    first_needed_token,
    holds,
    live_required,
    locate,
    opaque_required,
    page_needed,
    page_of,
    page_ordinal,
    page_place,
    state_in_page,
    state_required,
)
from kvproof.spec.place import Place
from kvproof.spec.vocabulary import Group, Layer, Part, Pool, Table
from kvproof.spec.world import NOWHERE, block_table, page_view, part_views, resolve

POOL = Pool("device", 9)
ATTENTION = Group("kv", "attention", "device", block_tokens=16, pages_per_block=2)
SSM = Group("ssm", "ssm", "device")
RING = Group("ring", "ring", "device", block_tokens=12)
K = Part("k", unit_bytes=3, units=6, first=2, count=4)
V = Part("v", unit_bytes=2, units=6, first=2, count=4, order="state-major")


def layer(*parts: Part, tokens_per_state: int = 1, group: str = "kv") -> Layer:
    return Layer("a", group, "main", 10, 200, 256, tokens_per_state=tokens_per_state, parts=parts)


def tables(group: Group, table: Table, null: int | None = None) -> BlockTable:
    return block_table(table, group, Pool("device", 9, null))


# Pages of 8 tokens; K: 4 units x 8 states x 3 bytes = 96; V from byte 96 on: 8 states x 4 units x 2 bytes = 64.
BOTH = layer(K, V)
PAGE = page_view("P0", BOTH, ATTENTION, POOL)
PARTS = part_views(BOTH, PAGE)
# Blocks 7 and 3 at block ordinals 2 and 3: pages 14, 15, 6, 7 at page ordinals 4 to 7, tokens 32 to 63.
TABLE = tables(ATTENTION, Table((7, 3), first=2))


def test_a_layer_s_pages() -> None:
    expected = PageView("P0/main", 10, 200, 256, pages=18, pages_per_block=2, states_per_page=8, tokens_per_state=1)
    assert expected == PAGE
    assert PAGE.page_tokens == 8
    assert PARTS == (PartView(0, 2, 4, 3, "unit-major"), PartView(96, 2, 4, 2, "state-major"))
    assert page_place(PAGE, 6) == Place("P0/main", 10 + 6 * 256, 200)


def test_pages_of_a_table() -> None:
    assert [page_of(PAGE, TABLE, ordinal) for ordinal in (4, 5, 6, 7)] == [14, 15, 6, 7]
    assert (TABLE.block(1), TABLE.block(2), TABLE.block(3), TABLE.block(4)) == (NOWHERE, 7, 3, NOWHERE)
    assert [block_listed(TABLE, ordinal) for ordinal in (1, 2, 3, 4)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("unit", "state", "offset"),
    [
        (2, 32, 10 + 14 * 256),
        (2, 33, 10 + 14 * 256 + 3),
        (3, 32, 10 + 14 * 256 + 8 * 3),
        (5, 39, 10 + 14 * 256 + (3 * 8 + 7) * 3),
        (2, 40, 10 + 15 * 256),
        (4, 50, 10 + 6 * 256 + (2 * 8 + 2) * 3),
        (5, 63, 10 + 7 * 256 + 93),
    ],
)
def test_a_unit_major_part(unit: int, state: int, offset: int) -> None:
    assert holds(PAGE, PARTS[0], TABLE, Cell(unit, state))
    assert locate(PAGE, PARTS[0], TABLE, Cell(unit, state)) == Place("P0/main", offset, 3)


@pytest.mark.parametrize(
    ("unit", "state", "offset"),
    [
        (2, 32, 10 + 14 * 256 + 96),
        (3, 32, 10 + 14 * 256 + 96 + 2),
        (2, 33, 10 + 14 * 256 + 96 + 4 * 2),
        (4, 50, 10 + 6 * 256 + 96 + (2 * 4 + 2) * 2),
        (5, 63, 10 + 7 * 256 + 96 + 62),
    ],
)
def test_a_state_major_part_after_another(unit: int, state: int, offset: int) -> None:
    assert locate(PAGE, PARTS[1], TABLE, Cell(unit, state)) == Place("P0/main", offset, 2)


def test_cells_outside_the_shard_or_the_table_are_not_held() -> None:
    held = {
        (unit, state)
        for unit in range(-1, 8)
        for state in range(-9, 80)
        if holds(PAGE, PARTS[0], TABLE, Cell(unit, state))
    }
    assert held == {(unit, state) for unit in (2, 3, 4, 5) for state in range(32, 64)}


def test_negative_states_are_never_held() -> None:
    far = BlockTable(lambda ordinal: 0, first=-5, count=10)
    assert not holds(PAGE, PARTS[0], far, Cell(2, -1))
    assert holds(PAGE, PARTS[0], far, Cell(2, 0))


def test_states_of_several_tokens() -> None:
    compressed = layer(K, tokens_per_state=4)
    page = page_view("P0", compressed, ATTENTION, POOL)
    part = part_views(compressed, page)[0]
    assert (page.states_per_page, page.tokens_per_state, page.page_tokens) == (2, 4, 8)
    # State 11 holds tokens 44 to 47: page ordinal 5 (page 15), the second state of its page.
    assert (page_ordinal(page, 11), state_in_page(page, 11)) == (5, 1)
    assert locate(page, part, TABLE, Cell(3, 11)) == Place("P0/main", 10 + 15 * 256 + (1 * 2 + 1) * 3, 3)
    assert [holds(page, part, TABLE, Cell(2, state)) for state in (7, 8, 15, 16)] == [False, True, True, False]


def test_an_opaque_page_is_one_cell() -> None:
    opaque = layer()
    page = page_view("P0", opaque, ATTENTION, POOL)
    [part] = part_views(opaque, page)
    assert (page.states_per_page, page.tokens_per_state, page.page_tokens) == (1, 8, 8)
    assert part == PartView(0, 0, 1, 200, "unit-major")
    assert locate(page, part, TABLE, Cell(0, 6)) == Place("P0/main", 10 + 6 * 256, 200)
    assert [holds(page, part, TABLE, Cell(0, ordinal)) for ordinal in (3, 4, 7, 8)] == [False, True, True, False]
    assert not holds(page, part, TABLE, Cell(1, 4))


def test_an_opaque_page_ignores_tokens_per_state() -> None:
    assert page_view("P0", layer(tokens_per_state=4), ATTENTION, POOL).states_per_page == 1


def test_an_ssm_page_with_parts() -> None:
    state = layer(Part("conv", 5, units=3, count=3), Part("temporal", 7, units=4, first=1, count=2), group="ssm")
    page = page_view("P0", state, SSM, POOL)
    parts = part_views(state, page)
    table = tables(SSM, Table((4, 8, 2), live=1))
    assert (page.pages, page.pages_per_block, page.page_tokens) == (9, 1, 1)
    assert [part.start for part in parts] == [0, 15]
    assert locate(page, parts[0], table, Cell(2, 0)) == Place("P0/main", 10 + 8 * 256 + 10, 5)
    assert locate(page, parts[1], table, Cell(2, 0)) == Place("P0/main", 10 + 8 * 256 + 15 + 7, 7)
    assert not holds(page, parts[1], table, Cell(0, 0))
    assert not holds(page, parts[1], table, Cell(1, 1))


def test_a_ring_page_is_one_state_of_the_live_block() -> None:
    ring = layer(group="ring")
    page = page_view("P0", ring, RING, POOL)
    assert (page.pages, page.states_per_page, page.tokens_per_state) == (9, 1, 1)
    assert locate(page, part_views(ring, page)[0], tables(RING, Table((6,))), Cell(0, 0)).offset == 10 + 6 * 256


def test_the_null_block_holds_nothing() -> None:
    table = tables(ATTENTION, Table((7, 0, 3)), null=0)
    assert [block_listed(table, ordinal) for ordinal in (0, 1, 2)] == [True, False, True]
    assert [holds(PAGE, PARTS[0], table, Cell(2, state)) for state in (15, 16, 31, 32)] == [True, False, False, True]


@pytest.mark.parametrize(
    ("cached", "tokens", "window", "retained", "first"),
    [
        (0, 160, None, 0, 0),
        (64, 160, None, 0, 64),
        (0, 160, 64, 0, 97),  # the next token, 160, sees 97 to 160
        (0, 160, 1, 0, 160),  # it sees itself alone: nothing is needed
        (0, 160, 2, 0, 159),
        (0, 160, 64, 5, 92),
        (96, 160, 64, 0, 97),
        (97, 160, 64, 0, 97),
        (98, 160, 64, 0, 98),
        (0, 160, 161, 0, 0),
        (0, 160, 500, 0, 0),
        (160, 160, 64, 0, 160),
        (0, 160, 64, 97, 0),
        (0, 160, 64, 98, 0),
    ],
)
def test_the_first_needed_token(cached: int, tokens: int, window: int | None, retained: int, first: int) -> None:
    assert first_needed_token(cached, tokens, window, retained) == first


def test_required_states() -> None:
    page = page_view("P0", layer(K, tokens_per_state=4), ATTENTION, POOL)
    # Needed are tokens 6 to 21. State 1 holds 4 to 7: its last token, 7, is needed; state 5 (20 to 23) is incomplete.
    assert [state for state in range(-1, 9) if state_required(page, state, 6, 22)] == [1, 2, 3, 4]
    assert [state for state in range(-1, 9) if state_required(page, state, 7, 24)] == [1, 2, 3, 4, 5]
    assert [state for state in range(-1, 9) if state_required(page, state, 8, 23)] == [2, 3, 4]
    assert [state for state in range(-1, 9) if state_required(page, state, 24, 24)] == []


def test_required_opaque_pages() -> None:
    page = page_view("P0", layer(), ATTENTION, POOL)
    assert [g for g in range(-1, 6) if opaque_required(page, g, 15, 25)] == [1, 2, 3]
    assert [g for g in range(-1, 6) if opaque_required(page, g, 16, 24)] == [2]
    assert [g for g in range(-1, 6) if opaque_required(page, g, 17, 18)] == [2]
    assert [g for g in range(-1, 6) if opaque_required(page, g, 17, 17)] == []


def test_needed_pages_and_blocks() -> None:
    page = page_view("P0", layer(K, tokens_per_state=4), ATTENTION, POOL)
    # One token, 16, is needed: it makes no complete state, but its page and block are needed.
    assert [g for g in range(-1, 6) if page_needed(page, g, 16, 17)] == [2]
    assert [b for b in range(-1, 6) if block_needed(page, b, 16, 17)] == [1]
    assert [b for b in range(-1, 6) if block_needed(page, b, 15, 33)] == [0, 1, 2]
    assert [b for b in range(-1, 6) if block_needed(page, b, 15, 16)] == [0]
    assert [b for b in range(-1, 6) if block_needed(page, b, 16, 16)] == []


def test_cached_blocks() -> None:
    assert [b for b in range(4) if block_cached(16, b, 31)] == [0]
    assert [b for b in range(4) if block_cached(16, b, 32)] == [0, 1]
    assert [b for b in range(4) if block_cached(16, b, 15)] == []


def test_a_live_block_is_required_until_the_whole_prompt_is_cached() -> None:
    assert [live_required(cached, 5) for cached in (0, 4, 5, 6)] == [True, True, False, False]


ROW = {"page_bytes": 8, "page_stride": 16}


@pytest.mark.parametrize(
    ("changes", "outer"),
    [
        ({}, {"main", "state"}),
        ({"worker.0.storages.0.bytes": 159, "worker.0.layers.1.page_bytes": 7}, {"state"}),
        ({"worker.0.layers.2.page_bytes": 7}, {"main", "state"}),
        ({"worker.0.storages.0.bytes": 168, "worker.0.layers.1.offset": 16}, {"state"}),
        ({"worker.0.storages.1.bytes": 39, "worker.0.layers.2.page_bytes": 7}, {"main"}),
        (
            {
                "worker.0.layers.2": {"name": "s", "group": "ssm", "storage": "main", "offset": 0} | ROW,
            },
            set(),
        ),
    ],
)
def test_block_outer_storages(changes: dict[str, object], outer: set[str]) -> None:
    case = built(changed(two_workers(), changes))
    assert resolve(case, case.worker[0]).block_outer == outer
