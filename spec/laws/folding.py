# SPDX-License-Identifier: Apache-2.0
"""L6 folding: a region may stand for a layer only where its descriptors do what the layer's pages need."""

from __future__ import annotations

from kvproof.spec.cells import PageView, page_place
from kvproof.spec.logic import Bool, Int, all_of, implies
from kvproof.spec.place import Place, contains, overlaps
from kvproof.spec.tables import Region, descriptor


def page_inside(view: PageView, region: Region, page: Int) -> Bool:
    """(a) The page of the layer lies inside the region's descriptor for that page."""
    return contains(descriptor(region, page), page_place(view, page))


def no_stowaway(source: Place, source_descriptor: Place, target: Place, target_descriptor: Place) -> Bool:
    """(b) If a page of the moved group has bytes in the target descriptor, it sits at the same offset in both.

    ``source`` and ``target`` are the page's places on the two sides. For every layer of the moved group, whether or
    not the region stands for it: a layer that happens to lie in the descriptor rides along.
    """
    same_offset = all_of(
        source.storage == source_descriptor.storage,
        source.offset - source_descriptor.offset == target.offset - target_descriptor.offset,
    )
    return implies(overlaps(target, target_descriptor), same_offset)


def equal_length(source: Region, target: Region) -> Bool:
    """(c) Both descriptors have equal length."""
    return source.bytes == target.bytes


def fits(view: PageView, memory: str, region: Region, member_offset: Int) -> Bool:
    """(d) Base, stride, page count and memory of the region are the layer's."""
    return all_of(
        region.storage == view.storage,
        region.offset + member_offset == view.offset,
        region.stride == view.page_stride,
        region.pages == view.pages,
        region.memory == memory,
    )
