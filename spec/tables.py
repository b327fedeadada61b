# SPDX-License-Identifier: Apache-2.0
"""What a connector builds before it moves a byte: regions, their pairing, descriptor rows and ids.

The vocabulary alone. The rules that build tables are the reference's and gpu_impl's; the laws over them are in
``kvproof.spec.laws``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kvproof.spec.logic import Int
from kvproof.spec.place import Place, StorageId

Section = Literal["attention", "ssm", "replicated-ssm"]
SECTIONS: tuple[Section, ...] = ("attention", "ssm", "replicated-ssm")


class Member(msgspec.Struct, frozen=True):
    """A layer (or one part of an ssm layer) that a region stands for, and where it starts within the region."""

    layer: str
    offset: Int
    part: int | None = None


class Region(msgspec.Struct, frozen=True):
    """One row of a worker's descriptor table: descriptor p is ``[offset + p * stride, + bytes)``, p below ``pages``."""

    storage: StorageId
    offset: Int
    bytes: Int
    stride: Int
    pages: Int
    memory: str
    section: Section
    members: tuple[Member, ...] = ()


class Pairing(msgspec.Struct, frozen=True):
    """For one moved group: source region and target region (indices into the tables), and the pages that move.

    ``source_pages[i]`` goes to ``target_pages[i]``: page ids within the regions, ordered by page ordinal.
    """

    group: str
    source: int
    target: int
    source_pages: tuple[int, ...]
    target_pages: tuple[int, ...]


class Tables(msgspec.Struct, frozen=True):
    """Everything registered and prepared for one producer and one consumer.

    ``registered`` is each worker's table before pairing; ``source`` and ``target`` are the expanded ones, whose flat
    descriptor ids the id lists use.
    """

    registered: dict[str, tuple[Region, ...]]
    source: tuple[Region, ...]
    target: tuple[Region, ...]
    pairings: tuple[Pairing, ...]
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]


def descriptor(region: Region, page: Int) -> Place:
    """The bytes of the region's descriptor for a page."""
    return Place(region.storage, region.offset + page * region.stride, region.bytes)
