# SPDX-License-Identifier: Apache-2.0
"""Descriptor lists: what NIXL sees, and what is captured from real connectors (docs/formats.md)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kvproof.spec.plan import ZeroRun
from kvproof.spec.tables import Section
from kvproof.spec.vocabulary import Count, Format, Memory, Name

Address = Annotated[int, msgspec.Meta(ge=0)]
"""Checked against 2^64 by the law of bounds, not by the decoder: a captured list may break it."""

Row = tuple[Address, Address, Count, Address, Address]
"""Address, bytes, device, stride, count: ``count`` descriptors whose starts are ``stride`` apart."""

Range = tuple[Count, Count]
"""Half-open range of descriptor ids."""


class DescriptorList(Format, frozen=True):
    """One prepared list. Descriptor ids count through the rows in order."""

    memory: Memory
    rows: tuple[Row, ...]
    sections: dict[Section, Range] | None = None


class Transfer(Format, frozen=True):
    """One posted transfer: source descriptor ``source_ids[i]`` goes to target descriptor ``target_ids[i]``."""

    producer: Name
    consumer: Name
    source: DescriptorList
    target: DescriptorList
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    op: Literal["READ", "WRITE"] = "READ"


class DescriptorFile(Format, frozen=True):
    """All transfers of one request, the base address of each storage, and what is zeroed after."""

    format: Literal[1]
    case: str
    bases: dict[Name, dict[Name, Address]]
    transfers: tuple[Transfer, ...]
    zeroes: tuple[ZeroRun, ...] = ()
