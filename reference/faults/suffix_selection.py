# SPDX-License-Identifier: Apache-2.0
"""Suffix selection: pages are paired from the end of both lists, as if equal counts meant equal tokens.

The padding that an engine allocates behind the prompt shifts every page. Nothing is zeroed.
"""

from __future__ import annotations

from kvproof.reference import arithmetic, selection
from kvproof.reference.rules import Refusal, Rules
from kvproof.reference.selection import Selected
from kvproof.reference.side import Side, holds_tokens, tokens_per_page
from kvproof.spec.logic import Int
from kvproof.spec.place import Place
from kvproof.spec.vocabulary import Group


def source_index(listed: Int, wanted: Int, index: Int) -> Int:
    """Which of the producer's ``listed`` pages is read for the consumer's page ``index`` of ``wanted``."""
    return listed - wanted + index


def select(source: Side, source_group: Group, target: Side, target_group: Group, tokens: int) -> Selected:
    """Every uncached page that the consumer lists, from as many at the end of the producer's pages."""
    if not holds_tokens(target_group):
        return selection.select(source, source_group, target, target_group, tokens)
    sources, targets = listed_pages(source, source_group), uncached_pages(target, target_group)
    if len(sources) < len(targets):
        raise Refusal(
            f"group {target_group.name!r} lists {len(targets)} uncached pages on {target.worker.name!r}, "
            f"{source.worker.name!r} only {len(sources)}"
        )
    chosen = (sources[source_index(len(sources), len(targets), index)] for index in range(len(targets)))
    return Selected(tuple(chosen), targets)


def listed_pages(side: Side, group: Group) -> tuple[int, ...]:
    """Pages of all blocks that the group lists, null ones included."""
    return tuple(
        arithmetic.expand(block, group.pages_per_block, page)
        for block in side.table_of(group).blocks
        for page in range(group.pages_per_block)
    )


def uncached_pages(side: Side, group: Group) -> tuple[int, ...]:
    """Pages that start at or past the cached prefix, in blocks that are not null: no window, padding included."""
    table, null = side.table_of(group), side.pools[group.pool].null
    return tuple(
        arithmetic.expand(block, group.pages_per_block, page)
        for ordinal, block in enumerate(table.blocks, table.first)
        for page in range(group.pages_per_block)
        if block != null and page_start(group, ordinal, page) >= (table.cached_tokens or 0)
    )


def page_start(group: Group, ordinal: int, page: int) -> Int:
    """First token of page number ``page`` of the block at a block ordinal."""
    return arithmetic.expand(ordinal, group.pages_per_block, page) * tokens_per_page(group)


def zero_nothing(target: Side, tokens: int) -> tuple[Place, ...]:
    """Leave the padding as it is."""
    del target, tokens
    return ()


RULES = Rules(select=select, zero=zero_nothing)
