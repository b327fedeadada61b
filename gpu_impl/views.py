# SPDX-License-Identifier: Apache-2.0
"""The views of one worker as columns: one line a layer, one line a piece that wants descriptors of its own.

All columns are ``int64`` arrays of equal length. Offsets, lengths and strides are bytes; the rest are indices, counts
and flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvproof.spec.tables import SECTIONS
from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Group, Layer, Role, Worker

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

_SECTION_OF_KIND = {
    "attention": SECTIONS.index("attention"),
    "sliding": SECTIONS.index("attention"),
    "ring": SECTIONS.index("attention"),
    "ssm": SECTIONS.index("ssm"),
    "replicated-ssm": SECTIONS.index("replicated-ssm"),
}


class OutOfScope(ValueError):
    """A case that these tables are not made for: the caller should have refused it, or said that it is not covered."""


@dataclass(frozen=True, slots=True)
class Views:
    """What a worker's layers and their pieces look like.

    A piece is a layer's page, or one part of an ssm layer's page, in layer order and then part order (``part`` is -1
    for a whole page). ``pool`` and ``replicated`` have one entry a layer, ``storage_bytes`` one a storage, everything
    else one a piece.
    """

    worker: Worker
    layer: Ints
    part: Ints
    storage: Ints
    offset: Ints
    bytes: Ints
    stride: Ints
    pages: Ints
    section: Ints
    group: Ints
    pool: Ints
    replicated: Flags
    storage_bytes: Ints

    def geometry(self) -> Ints:
        """Storage, offset, bytes, stride and pages of every piece: shape ``[pieces, 5]``."""
        return np.stack([self.storage, self.offset, self.bytes, self.stride, self.pages], axis=1)


def only_worker(case: Case, role: Role) -> Worker:
    """The one worker of a role."""
    workers = case.workers(role)
    if len(workers) != 1:
        raise OutOfScope(f"{len(workers)} workers have the role {role}; tables are made for one")
    return workers[0]


def page_tokens(group: Group) -> int:
    """Tokens of a page of an attention or sliding group."""
    if group.block_tokens is None:
        raise OutOfScope(f"group {group.name} of kind {group.kind} has no block_tokens")
    return group.block_tokens // group.pages_per_block


def views(worker: Worker) -> Views:
    """The columns of a worker."""
    storages = {storage.name: index for index, storage in enumerate(worker.storages)}
    pools = {pool.name: index for index, pool in enumerate(worker.pools)}
    groups = {group.name: index for index, group in enumerate(worker.groups)}
    lines: list[tuple[int, ...]] = []
    for index, layer in enumerate(worker.layers):
        group = worker.groups[groups[layer.group]]
        pages = worker.pools[pools[group.pool]].blocks * group.pages_per_block
        ids = (_SECTION_OF_KIND[group.kind], groups[layer.group])
        place = storages[layer.storage]
        if group.kind != "ssm" or not layer.parts:
            lines.append((index, -1, place, layer.offset, layer.page_bytes, layer.page_stride, pages, *ids))
            continue
        start = layer.offset
        for number, part in enumerate(layer.parts):
            part_bytes = part.count * part.unit_bytes
            lines.append((index, number, place, start, part_bytes, layer.page_stride, pages, *ids))
            start += part_bytes
    columns = np.array(lines, dtype=np.int64).reshape(len(lines), 9).T.copy()
    owners = [worker.groups[groups[layer.group]] for layer in worker.layers]
    return Views(
        worker,
        layer=columns[0],
        part=columns[1],
        storage=columns[2],
        offset=columns[3],
        bytes=columns[4],
        stride=columns[5],
        pages=columns[6],
        section=columns[7],
        group=columns[8],
        pool=np.array([pools[group.pool] for group in owners], dtype=np.int64),
        replicated=np.array([_replicated(layer, group) for layer, group in zip(worker.layers, owners, strict=True)]),
        storage_bytes=np.array([storage.bytes for storage in worker.storages], dtype=np.int64),
    )


def _replicated(layer: Layer, group: Group) -> bool:
    """Attention, sliding or ring, and opaque or with all units of every part."""
    return group.kind in (*TOKEN_KINDS, "ring") and all(part.count == part.units for part in layer.parts)
