# SPDX-License-Identifier: Apache-2.0
"""Which pages of a request move, which are zeroed, and the flat descriptor ids of the former."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvproof.gpu_impl.pairing import Paired
from kvproof.gpu_impl.views import Ints, OutOfScope, page_tokens
from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Group, Table, Worker


@dataclass(frozen=True, slots=True)
class Selection:
    """The pages that move, one pair of arrays a pairing, and the flat ids of all of them in order."""

    source_pages: tuple[Ints, ...]
    target_pages: tuple[Ints, ...]
    source_ids: Ints
    target_ids: Ints


def select(case: Case, paired: Paired) -> Selection:
    """Page ids and descriptor ids for the case's request; empty without one."""
    source_pages, target_pages = [], []
    source, target = paired.source.views.worker, paired.target.views.worker
    chosen: dict[tuple[int, int], tuple[Ints, Ints]] = {}
    for target_group, _, _, source_group in paired.pairs.tolist():
        key = (target_group, source_group)
        if key not in chosen:
            chosen[key] = _moved(case, source, source.groups[source_group], target, target.groups[target_group])
        source_pages.append(chosen[key][0])
        target_pages.append(chosen[key][1])
    return Selection(
        tuple(source_pages),
        tuple(target_pages),
        _flat(paired.source.expanded.start, paired.pairs[:, 2], source_pages),
        _flat(paired.target.expanded.start, paired.pairs[:, 1], target_pages),
    )


def zero_pages(case: Case, worker: Worker) -> Ints:
    """Pages of the consumer that end zero: shape ``[layers with some, 3]``, layer index, first page id, count."""
    if case.request is None:
        return np.empty((0, 3), dtype=np.int64)
    tokens = case.request.tokens
    owed: dict[str, tuple[int, int]] = {}
    used = {layer.group for layer in worker.layers}  # a table that no layer uses need not reach the prompt's end
    for group in worker.groups:
        if (
            group.name not in used
            or group.kind not in TOKEN_KINDS
            or _low(group, worker.tables[group.name], tokens) >= tokens
        ):
            continue
        first = -(-tokens // page_tokens(group))
        end = -(-tokens // (page_tokens(group) * group.pages_per_block)) * group.pages_per_block
        if first < end:  # all in the block that holds the last token
            page = _pages(group, worker.tables[group.name], np.arange(first, end))
            owed[group.name] = (int(page[0]), end - first)
    lines = [(index, *owed[layer.group]) for index, layer in enumerate(worker.layers) if layer.group in owed]
    return np.array(lines, dtype=np.int64).reshape(len(lines), 3)


def _moved(case: Case, source: Worker, source_group: Group, target: Worker, target_group: Group) -> tuple[Ints, Ints]:
    """The page ids of both sides that hold a needed token, or the live block, by ordinal."""
    none = np.empty(0, dtype=np.int64)
    if case.request is None:
        return none, none
    tokens = case.request.tokens
    source_table, target_table = source.tables[source_group.name], target.tables[target_group.name]
    low = _low(target_group, target_table, tokens)
    if low >= tokens:
        return none, none
    if target_group.kind not in TOKEN_KINDS:
        return _live(source_table), _live(target_table)
    tokens_each = page_tokens(target_group)
    ordinals = np.arange(low // tokens_each, -(-tokens // tokens_each), dtype=np.int64)
    return _pages(source_group, source_table, ordinals), _pages(target_group, target_table, ordinals)


def _low(group: Group, table: Table, tokens: int) -> int:
    """The first needed token."""
    cached = table.cached_tokens or 0
    if group.window_tokens is None:
        return cached
    return max(cached, tokens - group.window_tokens + 1 - group.retained_tokens)


def _pages(group: Group, table: Table, ordinals: Ints) -> Ints:
    """Page ids at page ordinals, through the table."""
    block, inner = np.divmod(ordinals, group.pages_per_block)
    block -= table.first
    if len(block) and (int(block.min()) < 0 or int(block.max()) >= len(table.blocks)):
        raise OutOfScope(f"the table of group {group.name} does not list every needed block")
    return np.array(table.blocks, dtype=np.int64)[block] * group.pages_per_block + inner


def _live(table: Table) -> Ints:
    """The page id of the live ssm or ring block."""
    if not table.blocks:
        raise OutOfScope("a table lists no block, and one is needed")
    return np.array([table.blocks[table.live or 0]], dtype=np.int64)


def _flat(start: Ints, entries: Ints, pages: list[Ints]) -> Ints:
    """Flat ids: the entry's start, once for each of its pages, plus the page ids."""
    if not pages:
        return np.empty(0, dtype=np.int64)
    return np.repeat(start[entries], [len(each) for each in pages]) + np.concatenate(pages)
