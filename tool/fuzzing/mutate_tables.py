# SPDX-License-Identifier: Apache-2.0
"""Tables spoilt in one place."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kvproof.fuzzing.source import Source
from kvproof.spec.tables import Member, Pairing, Region, Tables

Mutation = Callable[[Source, Tables], Tables]

REGION_FIELDS = ("offset", "bytes", "stride", "pages")


def mutate_tables(source: Source, tables: Tables) -> tuple[str, Tables]:
    """The tables with one change, and its name. ``source`` and ``target`` regions stay as many."""
    options = ["region", "region", "memory", "member", "swapped pairing"]
    if tables.target_ids:
        options += ["id", "id lost", "id twice", "pages"]
    name = source.choice(options)
    return name, MUTATIONS[name](source, tables)


def _regions(source: Source, tables: Tables, change: Callable[[Region], Region]) -> Tables:
    """One region of one side changed."""
    side = source.choice(["source", "target"])
    regions: tuple[Region, ...] = getattr(tables, side)
    index = source.integer(0, len(regions) - 1)
    return replace(tables, **{side: (*regions[:index], change(regions[index]), *regions[index + 1 :])})


def change_region(source: Source, tables: Tables) -> Tables:
    """Another offset, length, stride or page count."""
    field = source.choice(REGION_FIELDS)
    step = source.choice([1, -1, 2, 5])

    def change(region: Region) -> Region:
        return replace(region, **{field: max(0 if field == "offset" else 1, getattr(region, field) + step)})

    return _regions(source, tables, change)


def change_memory(source: Source, tables: Tables) -> Tables:
    """The other memory kind."""
    return _regions(source, tables, lambda r: replace(r, memory="DRAM" if r.memory == "VRAM" else "VRAM"))


def change_member(source: Source, tables: Tables) -> Tables:
    """A member elsewhere in its region, or none."""
    shift = source.integer(-1, 1)

    def change(region: Region) -> Region:
        if not region.members:
            return region
        index = source.integer(0, len(region.members) - 1)
        old = region.members[index]
        new = (Member(old.layer, old.offset + shift, old.part),) if shift else ()
        return replace(region, members=(*region.members[:index], *new, *region.members[index + 1 :]))

    return _regions(source, tables, change)


def swap_pairing(source: Source, tables: Tables) -> Tables:
    """A group reads another region."""
    pairings = tables.pairings
    index = source.integer(0, len(pairings) - 1)
    new = replace(pairings[index], source=source.integer(0, len(tables.source) - 1))
    return _with_pairing(tables, index, new)


def _with_pairing(tables: Tables, index: int, pairing: Pairing) -> Tables:
    return replace(tables, pairings=(*tables.pairings[:index], pairing, *tables.pairings[index + 1 :]))


def change_pages(source: Source, tables: Tables) -> Tables:
    """A page list with its ends swapped, or with a page less."""
    moved = [index for index, pairing in enumerate(tables.pairings) if pairing.source_pages]
    index = source.choice(moved)
    pairing = tables.pairings[index]
    pages = pairing.source_pages
    turned = pages[1:] if source.chance(50) else pages[::-1]
    return _with_pairing(tables, index, replace(pairing, source_pages=turned))


def change_id(source: Source, tables: Tables) -> Tables:
    """Another id on one side; it may be past the end of the list."""
    side = source.choice(["source_ids", "target_ids"])
    ids: tuple[int, ...] = getattr(tables, side)
    index = source.integer(0, len(ids) - 1)
    total = sum(region.pages for region in (tables.source if side == "source_ids" else tables.target))
    return replace(tables, **{side: (*ids[:index], source.integer(0, total), *ids[index + 1 :])})


def lose_id(source: Source, tables: Tables) -> Tables:
    """An id less on one side."""
    side = source.choice(["source_ids", "target_ids"])
    return replace(tables, **{side: getattr(tables, side)[:-1]})


def repeat_id(source: Source, tables: Tables) -> Tables:
    """The first pair once more."""
    del source
    return replace(
        tables,
        source_ids=(*tables.source_ids, tables.source_ids[0]),
        target_ids=(*tables.target_ids, tables.target_ids[0]),
    )


MUTATIONS: dict[str, Mutation] = {
    "region": change_region,
    "memory": change_memory,
    "member": change_member,
    "swapped pairing": swap_pairing,
    "pages": change_pages,
    "id": change_id,
    "id lost": lose_id,
    "id twice": repeat_id,
}
