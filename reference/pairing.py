# SPDX-License-Identifier: Apache-2.0
"""Pairing: which source region a moved group reads for each target region, rows split where the two sides differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

import msgspec

from kvproof.reference import arithmetic
from kvproof.reference.registration import own_page
from kvproof.reference.side import Side
from kvproof.spec.tables import Member, Region
from kvproof.spec.vocabulary import Group, Layer


class Registered:
    """A worker and the table that it registered."""

    def __init__(self, side: Side, regions: tuple[Region, ...]) -> None:
        self.side = side
        self.regions = regions

    @cached_property
    def homes(self) -> dict[tuple[str, int | None], tuple[int, int]]:
        """For each layer (and part): the index of its region, and its offset in there."""
        return {
            (member.layer, member.part): (index, member.offset)
            for index, region in enumerate(self.regions)
            for member in region.members
        }

    def members_of(self, group: Group, region: int) -> tuple[Member, ...]:
        """The members of a region that belong to a group."""
        layers = self.side.layers
        return tuple(member for member in self.regions[region].members if layers[member.layer].group == group.name)


class Link:
    """The two tables of a transfer, and which layer of the producer is the twin of one of the consumer."""

    def __init__(self, source: Registered, target: Registered) -> None:
        self.source = source
        self.target = target

    def twin(self, layer: str) -> Layer:
        """The producer's layer of the same key."""
        return self.source.side.layers_by_key[self.target.side.layers[layer].match_key]


class Slot(NamedTuple):
    """A row of the expanded table to be: a registered region, or (a layer given) that layer's page split off it."""

    region: int
    layer: str | None


class Match(NamedTuple):
    """A moved group, the producer's group it reads, and two rows that pair."""

    group: str
    source_group: str
    source: Slot
    target: Slot


class Expanded(NamedTuple):
    """A worker's table after pairing, and the index of each slot in it."""

    regions: tuple[Region, ...]
    places: dict[Slot, int]


Address = Callable[[Registered, Group], tuple[int, ...]]
"""The regions that a moved group of the consumer addresses."""

Pair = Callable[[Link, Group, int], tuple[Match, ...]]
"""What pairs with one target region that a group addresses."""


def address(target: Registered, group: Group) -> tuple[int, ...]:
    """A group addresses the regions that its layers are members of, each once."""
    return tuple(index for index in range(len(target.regions)) if target.members_of(group, index))


def pair(link: Link, group: Group, region: int) -> tuple[Match, ...]:
    """The whole region, where both sides agree on its length and on its members' offsets; else layer by layer."""
    members = link.target.members_of(group, region)
    whole = whole_match(link, group, region, members)
    if whole is not None:
        return (whole,)
    return tuple(split_match(link, group, region, member) for member in members)


def whole_match(link: Link, group: Group, region: int, members: tuple[Member, ...]) -> Match | None:
    """The region with the one that stands for all its members' twins, of one group; None if there is none."""
    twins = [link.twin(member.layer) for member in members]
    homes = [link.source.homes[twin.name, member.part] for twin, member in zip(twins, members, strict=True)]
    if len({twin.group for twin in twins}) != 1 or len({index for index, _ in homes}) != 1:
        return None
    source = homes[0][0]
    lengths = link.source.regions[source].bytes, link.target.regions[region].bytes
    for (_, offset), member in zip(homes, members, strict=True):
        if not arithmetic.member_agrees(lengths[0], offset, lengths[1], member.offset):
            return None
    return Match(group.name, twins[0].group, Slot(source, None), Slot(region, None))


def split_match(link: Link, group: Group, region: int, member: Member) -> Match:
    """The match of one member's own page with its twin's."""
    twin = link.twin(member.layer)
    source, _ = link.source.homes[twin.name, member.part]
    return Match(
        group.name, twin.group, own_slot(link.source, source, twin.name), own_slot(link.target, region, member.layer)
    )


def own_slot(registered: Registered, region: int, layer: str) -> Slot:
    """A layer's own page. Where that is all of its region there is nothing to split off."""
    page = own_page(registered.side, registered.side.layers[layer])
    alone = arithmetic.is_exact_alias(page, registered.regions[region])
    return Slot(region, None if alone else layer)


def expand_table(registered: Registered, slots: Iterable[Slot]) -> Expanded:
    """The table that is prepared: in the place of a row that somebody splits, what is used of it.

    That is the row itself, if a group uses it whole, then the pages split off it, in the order of the worker's layers.
    """
    used = set(slots)
    table: list[Region] = []
    places: dict[Slot, int] = {}
    for number, region in enumerate(registered.regions):
        split = [member for member in region.members if Slot(number, member.layer) in used]
        if Slot(number, None) in used or not split:
            places[Slot(number, None)] = len(table)
            table.append(_without(region, split))
        first = len(table)
        for member in split:
            page = own_page(registered.side, registered.side.layers[member.layer])
            places[Slot(number, member.layer)] = _fold_page(table, first, page)
    return Expanded(tuple(table), places)


def _without(region: Region, split: list[Member]) -> Region:
    """The region, no longer standing for the members that were split off it."""
    return msgspec.structs.replace(region, members=tuple(m for m in region.members if m not in split))


def _fold_page(table: list[Region], first: int, page: Region) -> int:
    """Fold a split-off page into its exact alias among the rows from ``first`` on, or append it; where it is."""
    for number in range(first, len(table)):
        if arithmetic.is_exact_alias(page, table[number]):
            table[number] = msgspec.structs.replace(table[number], members=table[number].members + page.members)
            return number
    table.append(page)
    return len(table) - 1
