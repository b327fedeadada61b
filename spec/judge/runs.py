# SPDX-License-Identifier: Apache-2.0
"""The cells of a pair as runs: maximal stretches of cells that lie side by side on both sides.

Where a run begins is asked of ``locate``, cell by cell on each side; that the cells of a run follow each other is the
part's order. Tests compare runs with cells by enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from kvproof.spec.cells import (
    Cell,
    PartView,
    block_listed,
    holds,
    live_required,
    locate,
    opaque_required,
    page_of,
)
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.logic import floor_div
from kvproof.spec.place import Place
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.world import LayerView, first_token_of

RUNS_LIMIT = 1_000_000
"""Most runs the judge looks at in one case."""

Standing = Literal["required", "cached"]


class Run(msgspec.Struct, frozen=True):
    """Cells of one part of one page, side by side: units and states are half-open ranges.

    ``source`` is where the producer holds them, None where it does not.
    """

    pair: LayerPair
    part: int
    ordinal: int
    units: tuple[int, int]
    states: tuple[int, int]
    standing: Standing
    target: Place
    source: Place | None


def cell_runs(covered: Covered) -> list[Run]:
    """All required and all cached cells of the consumer."""
    runs: list[Run] = []
    if covered.tokens is None:
        return runs
    for pair in covered.pairs:
        for run in _runs_of(pair, covered.tokens):
            runs.append(run)
            if len(runs) > RUNS_LIMIT:
                raise BudgetExceeded(f"more than {RUNS_LIMIT} runs of cells")
    return runs


def listed_ordinals(view: LayerView) -> Iterator[int]:
    """Ordinals of the pages in listed blocks that are not null, ascending."""
    table, per_block = view.block_table, view.page.pages_per_block
    for block in range(table.first, table.first + table.count):
        if block_listed(table, block):
            yield from range(block * per_block, (block + 1) * per_block)


def _runs_of(pair: LayerPair, tokens: int) -> Iterator[Run]:
    view = pair.target
    if not view.by_token:
        standing: Standing = "required" if live_required(view.block_table.cached_tokens, tokens) else "cached"
        for ordinal in listed_ordinals(view):
            yield from _page_runs(pair, ordinal, (0, 1), standing)
        return
    first = first_token_of(view, tokens)
    for ordinal in listed_ordinals(view):
        cached = _states_cached(view, ordinal)
        if cached[0] < cached[1]:
            yield from _page_runs(pair, ordinal, cached, "cached")
        required = _states_required(view, ordinal, first, tokens)
        if required[0] < required[1]:
            yield from _page_runs(pair, ordinal, required, "required")


def _states_cached(view: LayerView, ordinal: int) -> tuple[int, int]:
    """States of the page all of whose tokens are cached."""
    start = ordinal * view.page.states_per_page
    end = min(start + view.page.states_per_page, view.block_table.cached_tokens // view.page.tokens_per_state)
    return start, max(start, end)


def _states_required(view: LayerView, ordinal: int, first: int, tokens: int) -> tuple[int, int]:
    """States of the page that are required: a run, since ``cells.state_required`` holds between two bounds."""
    page = view.page
    start, end = ordinal * page.states_per_page, (ordinal + 1) * page.states_per_page
    if view.opaque:
        return (start, end) if opaque_required(page, ordinal, first, tokens) else (start, start)
    low = max(start, first // page.tokens_per_state)
    high = min(end, tokens // page.tokens_per_state)
    return low, max(low, high)


def _page_runs(pair: LayerPair, ordinal: int, states: tuple[int, int], standing: Standing) -> Iterator[Run]:
    whole = states[1] - states[0] == pair.target.page.states_per_page
    for index, part in enumerate(pair.target.parts):
        units = (part.first, part.first + part.count)
        if whole or part.order == "state-major":
            yield _run(pair, index, ordinal, units, states, standing)
        else:
            for unit in range(*units):
                yield _run(pair, index, ordinal, (unit, unit + 1), states, standing)


def _run(
    pair: LayerPair, index: int, ordinal: int, units: tuple[int, int], states: tuple[int, int], standing: Standing
) -> Run:
    source, target = pair.source, pair.target
    cell = Cell(units[0], states[0])
    cells = (units[1] - units[0]) * (states[1] - states[0])
    place = _stretch(target, target.parts[index], cell, cells)
    origin = None
    if holds(source.page, source.parts[index], source.block_table, cell):
        origin = _stretch(source, source.parts[index], cell, cells)
    return Run(pair, index, ordinal, units, states, standing, place, origin)


def _stretch(view: LayerView, part: PartView, cell: Cell, cells: int) -> Place:
    first = locate(view.page, part, view.block_table, cell)
    return Place(first.storage, first.offset, cells * first.bytes)


def page_id(view: LayerView, ordinal: int) -> int:
    """The page id at an ordinal of a listed block."""
    return int(page_of(view.page, view.block_table, ordinal))


def block_id(view: LayerView, ordinal: int) -> int:
    """The logical block id that a page ordinal lies in."""
    return int(view.block_table.block(floor_div(ordinal, view.page.pages_per_block)))
