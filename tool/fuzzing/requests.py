# SPDX-License-Identifier: Apache-2.0
"""The request: what each consumer group has cached, and block tables of both sides that reach far enough."""

from __future__ import annotations

from dataclasses import dataclass

from kvproof.fuzzing.groups import Grouped
from kvproof.fuzzing.source import Source
from kvproof.spec.cells import first_needed_token
from kvproof.spec.vocabulary import Pool, Table

HOLE = -1
"""Stands for the null block until the pool's ids are dealt."""


@dataclass(frozen=True)
class Listed:
    """A table whose blocks are still only counted: HOLE for the null block, 0 for any other."""

    blocks: tuple[int, ...]
    first: int = 0
    cached_tokens: int | None = None
    live: int | None = None


def draw_cached(source: Source, group: Grouped, tokens: int) -> int | None:
    """The cached prefix of a consumer's group: whole pages, or for a single state any number of tokens."""
    if source.chance(50):
        return source.choice([None, 0])
    if group.by_token:
        return source.integer(0, tokens // group.page_tokens) * group.page_tokens
    return source.integer(0, tokens + 1)


def first_needed(group: Grouped, cached: int | None, tokens: int) -> int:
    """First needed token of a consumer's group; ``tokens`` where none is."""
    window = group.group.window_tokens
    return min(tokens, int(first_needed_token(cached or 0, tokens, window, group.group.retained_tokens)))


def draw_table(source: Source, group: Grouped, low: int, tokens: int, holes: bool, cached: int | None) -> Listed:
    """A table that lists every token in ``[low, tokens)``, and often more on either end."""
    if not group.by_token:
        return draw_live(source, low < tokens, holes, cached)
    if low >= tokens:
        blocks = [source.rarely(30, 0, 1) for _ in range(source.integer(0, 3))]
        first = source.rarely(30, 0, 2)
        return Listed(tuple(HOLE if hole and holes else 0 for hole in blocks), first, cached)
    size = group.block_tokens
    start, last = low // size, (tokens - 1) // size
    first = source.rarely(45, 0, start)
    end = last + 1 + source.rarely(40, 0, 2)
    blocks = [
        HOLE if holes and not start <= ordinal <= last and source.chance(40) else 0 for ordinal in range(first, end)
    ]
    return Listed(tuple(blocks), first, cached)


def draw_live(source: Source, needed: bool, holes: bool, cached: int | None) -> Listed:
    """A table of a single state: its live slot, and others beside it now and then."""
    count = source.rarely(45, 1, 3)
    if not needed and source.chance(40):
        return Listed((), 0, cached)
    live = source.integer(0, count - 1)
    blocks = tuple(HOLE if holes and index != live and source.chance(40) else 0 for index in range(count))
    given = count > 1 or source.chance(40)
    return Listed(blocks, 0, cached, live if given else None)


def deal(
    source: Source, groups: tuple[Grouped, ...], listed: list[Listed | None], holes: dict[int, bool]
) -> tuple[tuple[Pool, ...], dict[str, Table]]:
    """Pools large enough, and block ids without any order for every table."""
    pools, tables = [], {}
    for number in sorted(holes):
        members = [(group, table) for group, table in zip(groups, listed, strict=True) if group.pool == number]
        wanted = sum(table.blocks.count(0) for _, table in members if table is not None)
        spare = source.integer(0, 3)
        blocks = max(1, wanted + spare + holes[number])
        ids = source.shuffled(range(blocks))
        null = None
        if holes[number]:
            null = 0 if source.chance(70) else ids[-1]
            ids.remove(null)
        pools.append(Pool(f"pool{number}", blocks, null))
        for group, table in members:
            if table is not None:
                names = tuple(ids.pop() if block == 0 else null for block in table.blocks)
                chosen = tuple(name for name in names if name is not None)
                tables[group.group.name] = Table(chosen, table.first, table.cached_tokens, table.live)
    return tuple(pools), tables
