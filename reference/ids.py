# SPDX-License-Identifier: Apache-2.0
"""Descriptor ids: flat numbers that count through the regions of an expanded table, page by page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kvproof.reference import arithmetic
from kvproof.spec.tables import Pairing, Region


def starts(regions: Iterable[Region]) -> tuple[int, ...]:
    """First descriptor id of each region."""
    found: list[int] = []
    start = 0
    for region in regions:
        found.append(start)
        start = arithmetic.next_start(start, region.pages)
    return tuple(found)


def source_ids(pairings: Iterable[Pairing], regions: Iterable[Region]) -> tuple[int, ...]:
    """Ids on the producer, in the order of the pairings and their pages."""
    begin = starts(regions)
    return tuple(arithmetic.descriptor_id(begin[p.source], page) for p in pairings for page in p.source_pages)


def target_ids(pairings: Iterable[Pairing], regions: Iterable[Region]) -> tuple[int, ...]:
    """Ids on the consumer, in the order of the pairings and their pages."""
    begin = starts(regions)
    return tuple(arithmetic.descriptor_id(begin[p.target], page) for p in pairings for page in p.target_pages)


def resolve(begin: Sequence[int], descriptor: int) -> tuple[int, int]:
    """The region and page that an id names, given the regions' starts.

    An id past the end of the table names a page that the last region does not have.
    """
    region = bisect_right(begin, descriptor) - 1
    return region, arithmetic.page_of_id(begin[region], descriptor)
