# SPDX-License-Identifier: Apache-2.0
"""Folding: which views share a region of the descriptor table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kvproof.reference import arithmetic
from kvproof.reference.registration import is_replicated, row_of, views
from kvproof.reference.side import Side
from kvproof.spec.place import StorageId
from kvproof.spec.tables import Member, Region

Test = Callable[[Region, Region], bool]
"""Whether the view (first) folds into the region (second)."""

Merge = Callable[[Region, Region], Region]
"""The region (first) after the view (second) folded into it."""


def register(side: Side) -> tuple[Region, ...]:
    """A worker's table: whole rows first, then each view folds into the row that holds it or its exact alias.

    Ordered by section, then by first member in the order of the worker's layers (parts in part order).
    """
    rows = [row for storage in side.worker.storages if (row := registered_row(side, storage.name)) is not None]
    in_rows = {row.storage for row in rows}

    def may_fold(view: Region, region: Region) -> bool:
        return bool(arithmetic.folds(view, region, region.storage in in_rows))

    return fold(rows, views(side), may_fold, add_members)


def registered_row(side: Side, storage: str) -> Region | None:
    """The row of a storage that is registered whole.

    It is block-outer, all its views are replicated, and there are two or more different ones.
    """
    layers = side.layers_of_storage[storage]
    different = {(layer.offset, layer.page_bytes) for layer in layers}
    if len(different) > 1 and all(is_replicated(side, layer) for layer in layers):
        return row_of(side, storage)
    return None


def fold(rows: Iterable[Region], pages: Iterable[Region], test: Test, merge: Merge) -> tuple[Region, ...]:
    """Fold each view into the first region of its storage and section that the test allows, else append it.

    ``rows`` are regions without members that are there from the start. A part of a ssm layer never folds.
    """
    table: list[Region] = list(rows)
    near: dict[tuple[StorageId, str], list[int]] = {}
    for index, region in enumerate(table):
        near.setdefault((region.storage, region.section), []).append(index)
    order: dict[tuple[str, int | None], int] = {}
    for view in pages:
        order[_name(view)] = len(order)
        candidates = near.setdefault((view.storage, view.section), [])
        found = None if _is_part(view) else next((i for i in candidates if test(view, table[i])), None)
        if found is None:
            if not _is_part(view):
                candidates.append(len(table))
            table.append(view)
        else:
            table[found] = merge(table[found], view)
    return tuple(sorted(table, key=lambda region: order[_name(region)]))


def add_members(region: Region, view: Region) -> Region:
    """The region, standing for the members of the view too."""
    shift = arithmetic.offset_within(view.offset, region.offset)
    moved = tuple(Member(member.layer, shift + member.offset, member.part) for member in view.members)
    return msgspec.structs.replace(region, members=region.members + moved)


def _name(region: Region) -> tuple[str, int | None]:
    """The region's first member."""
    return region.members[0].layer, region.members[0].part


def _is_part(view: Region) -> bool:
    """The view is a part of a ssm layer."""
    return view.members[0].part is not None
