# SPDX-License-Identifier: Apache-2.0
"""Which views share a region: whole rows of packed storages, and exact aliases. Nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvproof.gpu_impl.views import Flags, Ints, Views


@dataclass(frozen=True, slots=True)
class Fold:
    """The regions of a worker before pairing.

    ``rows`` holds storage, offset, bytes, stride and pages of each region, shape ``[regions, 5]``; ``region`` says for
    each piece which region it is a member of.
    """

    rows: Ints
    section: Ints
    region: Ints


def row_storages(table: Views) -> Flags:
    """Storages that register their whole row, one flag a storage.

    All views share pool, stride and page count and lie in the first row, the rows fit the storage, all views are
    replicated, and there are at least two different ones.
    """
    count = len(table.storage_bytes)
    first = np.flatnonzero(np.diff(table.layer, prepend=-1))  # the first piece of each layer
    storage, stride, pages = table.storage[first], table.stride[first], table.pages[first]
    offset = table.offset[first]
    page_bytes = np.array([layer.page_bytes for layer in table.worker.layers], dtype=np.int64)

    def every(flags: Flags) -> Flags:
        out = np.ones(count, dtype=np.bool_)
        np.logical_and.at(out, storage, flags)
        return out

    def alike(values: Ints) -> Flags:
        low = np.full(count, np.iinfo(np.int64).max)
        high = np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(low, storage, values)
        np.maximum.at(high, storage, values)
        return np.asarray(low == high)

    used = np.zeros(count, dtype=np.bool_)
    used[storage] = True
    block_outer = alike(table.pool) & alike(stride) & alike(pages) & every(offset + page_bytes <= stride)
    block_outer &= every(pages <= table.storage_bytes[storage] // stride)  # stride * pages fits, without overflow
    several = ~(alike(offset) & alike(page_bytes))
    return np.asarray(used & block_outer & every(table.replicated) & several)


def fold(table: Views) -> Fold:
    """Register the worker's pieces. Regions come by section, then first member."""
    keys = table.geometry()
    in_row = row_storages(table)[table.storage]
    keys[in_row, 1] = 0
    keys[in_row, 2] = keys[in_row, 3]
    # A part of an ssm layer never folds: its own number keeps it apart.
    apart = np.where(table.part >= 0, np.arange(1, len(keys) + 1), 0)
    unique, first, inverse = np.unique(
        np.column_stack([table.section, keys, apart]), axis=0, return_index=True, return_inverse=True
    )
    order = np.lexsort((first, unique[:, 0]))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Fold(rows=unique[order, 1:6], section=unique[order, 0], region=rank[inverse.reshape(-1)])
