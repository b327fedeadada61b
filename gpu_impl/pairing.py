# SPDX-License-Identifier: Apache-2.0
"""Which region of the producer serves which region of the consumer, and the tables that both sides prepare.

A row moves whole where both sides agree on what is in it; otherwise its members move page by page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvproof.gpu_impl.folding import Fold, fold
from kvproof.gpu_impl.views import Flags, Ints, OutOfScope, Views, only_worker, views
from kvproof.spec.vocabulary import Case


@dataclass(frozen=True, slots=True)
class Expanded:
    """The table that one side prepares: what is registered, with split rows replaced by (or followed by) their views.

    ``rows`` is ``uint64[entries, 5]``: storage, offset, bytes, stride, pages. ``start`` holds the first flat id of each
    entry and, last, the number of ids. ``members`` lists pieces, ``by_region`` and ``by_piece`` say which entry stands
    for a whole region or for a piece of its own (-1: none).
    """

    rows: np.ndarray[tuple[int, int], np.dtype[np.uint64]]
    section: Ints
    members: tuple[Ints, ...]
    start: Ints
    by_region: Ints
    by_piece: Ints


@dataclass(frozen=True, slots=True)
class Side:
    """One worker's views, its regions, and its expanded table."""

    views: Views
    fold: Fold
    expanded: Expanded


@dataclass(frozen=True, slots=True)
class Paired:
    """Both sides, and ``pairs`` of shape ``[pairs, 4]``: target group, target entry, source entry, source group.

    Sorted by target group and target entry. Groups and entries are indices.
    """

    source: Side
    target: Side
    pairs: Ints


def pair(case: Case) -> Paired:
    """Pair the regions of the case's producer with those of its consumer, for every group of the consumer."""
    source, target = views(only_worker(case, "producer")), views(only_worker(case, "consumer"))
    source_fold, target_fold = fold(source), fold(target)
    twin = _twins(source, target)
    whole = _whole(source, target, source_fold, target_fold, twin)
    pieces = np.arange(len(twin))

    # Where a page is all there is to its region, taking the page is taking the region.
    source_own = ~whole & ~_fills(source, source_fold)[twin]
    target_own = ~whole & ~_fills(target, target_fold)
    source_side = Side(source, source_fold, _expand(source, source_fold, twin[source_own], twin[~source_own]))
    target_side = Side(target, target_fold, _expand(target, target_fold, pieces[target_own], pieces[~target_own]))

    source_entry = np.where(
        source_own, source_side.expanded.by_piece[twin], source_side.expanded.by_region[source_fold.region[twin]]
    )
    target_entry = np.where(
        target_own, target_side.expanded.by_piece, target_side.expanded.by_region[target_fold.region]
    )
    pairs = np.unique(np.column_stack([target.group, target_entry, source_entry, source.group[twin]]), axis=0)
    return Paired(source_side, target_side, pairs)


def _twins(source: Views, target: Views) -> Ints:
    """For every piece of the target the source's piece of the same layer and part."""
    pieces = {
        (source.worker.layers[layer].match_key, part): index
        for index, (layer, part) in enumerate(zip(source.layer.tolist(), source.part.tolist(), strict=True))
    }
    twins = []
    for layer, part in zip(target.layer.tolist(), target.part.tolist(), strict=True):
        key = target.worker.layers[layer].match_key
        if (key, part) not in pieces:
            raise OutOfScope(f"the producer has no page for layer {key}" + (f", part {part}" if part >= 0 else ""))
        twins.append(pieces[key, part])
    return np.array(twins, dtype=np.int64)


def _whole(source: Views, target: Views, source_fold: Fold, target_fold: Fold, twin: Ints) -> Flags:
    """Per target piece: its region moves whole, for its group."""
    count = len(target_fold.rows)
    _, classes = np.unique(target.group * count + target_fold.region, return_inverse=True)
    classes = classes.reshape(-1)
    number = int(classes.max()) + 1
    source_region = source_fold.region[twin]

    agree = source_fold.rows[source_region, 2] == target_fold.rows[target_fold.region, 2]
    source_inner = source.offset[twin] - source_fold.rows[source_region, 1]
    target_inner = target.offset - target_fold.rows[target_fold.region, 1]
    agree &= source_inner == target_inner

    together = np.ones(number, dtype=np.bool_)
    np.logical_and.at(together, classes, agree)
    for column in (source_region, source.group[twin]):
        low = np.full(number, np.iinfo(np.int64).max)
        high = np.full(number, -1)
        np.minimum.at(low, classes, column)
        np.maximum.at(high, classes, column)
        together &= low == high
    return np.asarray(together[classes])


def _fills(table: Views, folded: Fold) -> Flags:
    """Per piece: its page has the very geometry of its region."""
    return np.asarray((table.geometry() == folded.rows[folded.region]).all(axis=1))


def _expand(table: Views, folded: Fold, split: Ints, kept: Ints) -> Expanded:
    """The table to prepare, given the pieces that move by themselves and those that move with their region."""
    regions = len(folded.rows)
    keep = np.ones(regions, dtype=np.bool_)
    keep[folded.region[split]] = False
    keep[folded.region[kept]] = True

    split = np.unique(split)
    keys = np.column_stack([folded.region[split], table.geometry()[split]]).reshape(len(split), 6)
    unique, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    stay = np.flatnonzero(keep)

    # Kept regions first, then the views that were split off, each in the place of its region.
    region = np.concatenate([stay, unique[:, 0]])
    leader = np.concatenate([np.full(len(stay), -1), split[first]])
    order = np.lexsort((leader, region))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))

    rows = np.concatenate([folded.rows[stay], unique[:, 1:6]])[order]
    by_region = np.full(regions, -1)
    by_region[stay] = rank[: len(stay)]
    by_piece = np.full(len(table.layer), -1)
    by_piece[split] = rank[len(stay) + inverse]
    # A region no longer stands for what was split off it.
    members = [np.setdiff1d(np.flatnonzero(folded.region == number), split) for number in stay.tolist()]
    members += [split[inverse == number] for number in range(len(unique))]
    return Expanded(
        rows=rows.astype(np.uint64),
        section=folded.section[region[order]],
        members=tuple(members[index] for index in order.tolist()),
        start=np.concatenate([[0], np.cumsum(rows[:, 4])]).astype(np.int64),
        by_region=by_region,
        by_piece=by_piece,
    )
