# SPDX-License-Identifier: Apache-2.0
"""Selection: the pages of both sides that move, paired by token position."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvproof.reference import arithmetic
from kvproof.reference.side import Side, holds_tokens, tokens_per_page
from kvproof.spec.vocabulary import Group, Table


class Selected(NamedTuple):
    """Page ids: ``source[i]`` goes to ``target[i]``."""

    source: tuple[int, ...]
    target: tuple[int, ...]


Select = Callable[[Side, Group, Side, Group, int], Selected]
"""Producer and its group, consumer and its group, tokens of the request: the pages that move."""

NOTHING = Selected((), ())


def select(source: Side, source_group: Group, target: Side, target_group: Group, tokens: int) -> Selected:
    """The page of an ordinal goes to the page of the same ordinal; of a ssm or ring group, live block to live block."""
    table = target.table_of(target_group)
    first, end = ordinals(target_group, table, tokens)
    sources, targets = source.table_of(source_group), table
    if not holds_tokens(target_group):
        return Selected(live_page(sources), live_page(targets)) if first < end else NOTHING
    return Selected(
        tuple(page(source_group, sources, ordinal) for ordinal in range(first, end)),
        tuple(page(target_group, targets, ordinal) for ordinal in range(first, end)),
    )


def ordinals(group: Group, table: Table, tokens: int) -> tuple[int, int]:
    """Ordinals ``[first, end)`` of the consumer's pages that hold a needed token; a single state has ordinal 0."""
    cached = table.cached_tokens or 0
    first = arithmetic.first_token(cached, tokens, group.window_tokens, group.retained_tokens)
    if first >= tokens:
        return 0, 0
    if not holds_tokens(group):
        return 0, 1
    page_tokens = tokens_per_page(group)
    return arithmetic.first_page(first, page_tokens), arithmetic.end_page(tokens, page_tokens)


def page(group: Group, table: Table, ordinal: int) -> int:
    """Page id at a page ordinal, through the table."""
    return int(arithmetic.page_at(ordinal, group.pages_per_block, table.first, table.blocks.__getitem__))


def live_page(table: Table) -> tuple[int, ...]:
    """The page of the block that holds the state: its page id is the block's."""
    return (table.blocks[table.live or 0],)
