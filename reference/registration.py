# SPDX-License-Identifier: Apache-2.0
"""Registration: the views of a worker, each as a region of its own, and the rows of its block-outer storages."""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.reference import arithmetic
from kvproof.reference.side import Side, section_of
from kvproof.spec.tables import SECTIONS, Member, Region
from kvproof.spec.vocabulary import Layer


def own_page(side: Side, layer: Layer) -> Region:
    """The region that stands for one layer alone: its pages, whole."""
    return Region(
        storage=side.storage_id(layer.storage),
        offset=layer.offset,
        bytes=layer.page_bytes,
        stride=layer.page_stride,
        pages=side.pages_of(layer),
        memory=side.storages[layer.storage].memory,
        section=section_of(side.group_of(layer)),
        members=(Member(layer.name, 0),),
    )


def own_parts(side: Side, layer: Layer) -> Iterator[Region]:
    """The regions of a ssm layer that has parts: one a part, in part order."""
    page = own_page(side, layer)
    start = 0
    for index, part in enumerate(layer.parts):
        length = arithmetic.part_bytes(part.count, part.unit_bytes)
        yield Region(
            storage=page.storage,
            offset=page.offset + start,
            bytes=length,
            stride=page.stride,
            pages=page.pages,
            memory=page.memory,
            section=page.section,
            members=(Member(layer.name, 0, index),),
        )
        start = arithmetic.next_part(start, length)


def views(side: Side) -> tuple[Region, ...]:
    """All that a worker registers before anything folds: by section, then in the order of its layers."""
    found: list[Region] = []
    for section in SECTIONS:
        for layer in side.worker.layers:
            if section_of(side.group_of(layer)) != section:
                continue
            if section == "ssm" and layer.parts:
                found.extend(own_parts(side, layer))
            else:
                found.append(own_page(side, layer))
    return tuple(found)


def is_replicated(side: Side, layer: Layer) -> bool:
    """Every rank holds the same bytes: the view is opaque or holds all units of every part. No ssm view is."""
    whole = all(part.count == part.units for part in layer.parts)
    return section_of(side.group_of(layer)) == "attention" and whole


def row_of(side: Side, storage: str) -> Region | None:
    """The rows of a storage, without members; None where the storage is not block-outer.

    Block-outer: all views share pool, stride and page count and lie in ``[0, stride)``, and the rows fit.
    """
    layers = side.layers_of_storage[storage]
    if not layers:
        return None
    first = layers[0]
    row = Region(
        storage=side.storage_id(storage),
        offset=0,
        bytes=first.page_stride,
        stride=first.page_stride,
        pages=side.pages_of(first),
        memory=side.storages[storage].memory,
        section="attention",
    )
    one_pool = len({side.group_of(layer).pool for layer in layers}) == 1
    inside = all(arithmetic.lies_in_row(own_page(side, layer), row) for layer in layers)
    fits = arithmetic.row_fits(row, side.storages[storage].bytes)
    return row if one_pool and inside and fits else None
