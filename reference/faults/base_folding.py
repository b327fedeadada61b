# SPDX-License-Identifier: Apache-2.0
"""What the rules that fold by base address have in common; they touch the attention section only."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvproof.reference import arithmetic, pairing
from kvproof.reference.folding import Test, add_members, fold
from kvproof.reference.pairing import Link, Match, Registered, Slot
from kvproof.reference.registration import is_replicated, row_of, views
from kvproof.reference.rules import Refusal, Rules
from kvproof.reference.side import Side, holds_tokens, section_of
from kvproof.spec.logic import Bool, all_of
from kvproof.spec.tables import Region
from kvproof.spec.vocabulary import Group, Layer

Page = Callable[[Side, Region], Region]
"""What a view registers: itself, or the row around it."""


def same_base(view: Region, region: Region) -> Bool:
    """The view starts where the region does."""
    return all_of(view.storage == region.storage, view.offset == region.offset)


def same_base_and_length(view: Region, region: Region) -> Bool:
    """The view starts where the region does, and is as long."""
    return all_of(same_base(view, region), view.bytes == region.bytes)


def own(side: Side, view: Region) -> Region:
    """Every view registers its own page."""
    del side
    return view


def row_around(side: Side, view: Region) -> Region:
    """A replicated attention or sliding view in a block-outer storage registers the row, every other its own page."""
    layer = side.layers[view.members[0].layer]
    row = row_of(side, layer.storage) if is_shared_attention(side, layer) else None
    if row is None:
        return view
    return add_members(row, view)


def is_shared_attention(side: Side, layer: Layer) -> bool:
    """A replicated attention or sliding view: these rules call no ring view replicated."""
    return holds_tokens(side.group_of(layer)) and is_replicated(side, layer)


def base_folding(page: Page, same: Test) -> Rules:
    """The rules that register so, and fold what ``same`` says is one region."""

    def test(view: Region, region: Region) -> bool:
        if view.section == "attention":
            return bool(same(view, region))
        return bool(arithmetic.is_exact_alias(view, region))

    def register(side: Side) -> tuple[Region, ...]:
        def merge(region: Region, view: Region) -> Region:
            merged = add_members(region, view)
            if not is_shared_attention(side, side.layers[view.members[0].layer]):
                return merged
            return msgspec.structs.replace(merged, bytes=view.bytes, stride=view.stride, pages=view.pages)

        return fold((), (page(side, view) for view in views(side)), test, merge)

    return Rules(register=register, address=address, pair=pair)


def address(target: Registered, group: Group) -> tuple[int, ...]:
    """A region that layers of several groups share is addressed by every attention, sliding and ring group."""
    own_regions = pairing.address(target, group)
    if section_of(group) != "attention" or not own_regions:
        return own_regions
    return tuple(index for index in range(len(target.regions)) if index in own_regions or is_shared(target, index))


def is_shared(registered: Registered, region: int) -> bool:
    """The region, of the attention section, has members of two or more groups."""
    layers = registered.side.layers
    found = registered.regions[region]
    return found.section == "attention" and len({layers[member.layer].group for member in found.members}) > 1


def pair(link: Link, group: Group, region: int) -> tuple[Match, ...]:
    """The source region of the first member's twin, whatever else the two stand for; unequal lengths are refused."""
    found = link.target.regions[region]
    if found.section != "attention":
        return pairing.pair(link, group, region)
    source, _ = link.source.homes[link.twin(found.members[0].layer).name, None]
    lengths = link.source.regions[source].bytes, found.bytes
    if lengths[0] != lengths[1]:
        raise Refusal(
            f"the region of layer {found.members[0].layer!r} has {lengths[0]} bytes on "
            f"{link.source.side.worker.name!r}, {lengths[1]} on {link.target.side.worker.name!r}"
        )
    return (Match(group.name, source_group(link, group, region), Slot(source, None), Slot(region, None)),)


def source_group(link: Link, group: Group, region: int) -> str:
    """The producer's group whose pages are read: that of the group's first layer in the region, else of its first."""
    layers = [member.layer for member in link.target.members_of(group, region)]
    layers += [layer.name for layer in link.target.side.worker.layers if layer.group == group.name]
    return link.twin(layers[0]).group
