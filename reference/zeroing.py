# SPDX-License-Identifier: Apache-2.0
"""Zeroing: the consumer's pages past the prompt, in the block that holds its last token."""

from __future__ import annotations

from collections.abc import Callable

from kvproof.reference import arithmetic
from kvproof.reference.registration import own_page
from kvproof.reference.selection import ordinals, page
from kvproof.reference.side import Side, holds_tokens, tokens_per_page
from kvproof.spec.place import Place
from kvproof.spec.tables import descriptor
from kvproof.spec.vocabulary import Group

Zero = Callable[[Side, int], tuple[Place, ...]]
"""Consumer and tokens of the request: the places that end zero."""


def zero(target: Side, tokens: int) -> tuple[Place, ...]:
    """The zero pages of each attention and sliding layer, in its own view only."""
    used = {
        layer.group for layer in target.worker.layers
    }  # the table of a group without layers need not reach anywhere
    pages = {
        group.name: zero_pages(target, group, tokens)
        for group in target.worker.groups
        if holds_tokens(group) and group.name in used
    }
    return tuple(
        descriptor(own_page(target, layer), number)
        for layer in target.worker.layers
        for number in pages.get(layer.group, ())
    )


def zero_pages(target: Side, group: Group, tokens: int) -> tuple[int, ...]:
    """Page ids that start at or past ``tokens``, in the block of the last token; none if no token is needed."""
    table = target.table_of(group)
    first, end = ordinals(group, table, tokens)
    if first == end or group.block_tokens is None:
        return ()
    start = arithmetic.end_page(tokens, tokens_per_page(group))
    stop = arithmetic.end_of_blocks(tokens, group.block_tokens, group.pages_per_block)
    return tuple(page(group, table, ordinal) for ordinal in range(start, stop))
