# SPDX-License-Identifier: Apache-2.0
"""From a case to everything a connector works with: regions, descriptor rows, ids, zeroes; and the plan they mean.

Needs numpy alone. Written without a look at the reference, so that the two can be compared row for row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvproof.gpu_impl.folding import fold
from kvproof.gpu_impl.ids import select, zero_pages
from kvproof.gpu_impl.pairing import Side, pair
from kvproof.gpu_impl.views import Ints, Views, views
from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Range, Row, Transfer
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan, ZeroRun
from kvproof.spec.tables import SECTIONS, Member, Pairing, Region, Section, Tables
from kvproof.spec.vocabulary import Case, Memory

Bases = Mapping[str, Mapping[str, int]]
"""Worker, then storage, to the address of its first byte."""


def as_tables(case: Case) -> Tables:
    """All tables of a case, in the vocabulary that every route shares."""
    paired = pair(case)
    selection = select(case, paired)
    groups = paired.target.views.worker.groups
    pairings = tuple(
        Pairing(groups[group].name, source, target, tuple(source_pages.tolist()), tuple(target_pages.tolist()))
        for (group, target, source, _), source_pages, target_pages in zip(
            paired.pairs.tolist(), selection.source_pages, selection.target_pages, strict=True
        )
    )
    return Tables(
        registered={worker.name: _registered(views(worker)) for worker in case.worker},
        source=_expanded(paired.source),
        target=_expanded(paired.target),
        pairings=pairings,
        source_ids=tuple(selection.source_ids.tolist()),
        target_ids=tuple(selection.target_ids.tolist()),
    )


def plan(case: Case) -> Plan:
    """What the rows and ids say: one copy an id, then the zeroes."""
    paired = pair(case)
    selection = select(case, paired)
    sources = _places(paired.source, selection.source_ids)
    targets = _places(paired.target, selection.target_ids)
    copies = tuple(Copy(source, target) for source, target in zip(sources, targets, strict=True))
    zeroes = []
    for run in _zeroes(case, paired.target.views):
        worker, storage, offset = run.target
        zeroes += [
            Place(f"{worker}/{storage}", offset + number * run.target_stride, run.bytes) for number in range(run.count)
        ]
    return Plan(copies, tuple(zeroes))


def descriptor_file(case: Case, bases: Bases) -> DescriptorFile:
    """The case's transfers, one for each combination of memory kinds, at the given base addresses.

    Works without a request too: then the id lists are empty.
    """
    paired = pair(case)
    selection = select(case, paired)
    source_memory, target_memory = _memories(paired.source), _memories(paired.target)
    combined = source_memory[paired.pairs[:, 2]] + "," + target_memory[paired.pairs[:, 1]]
    counts = [len(pages) for pages in selection.target_pages]
    pair_of_id = np.repeat(np.arange(len(counts)), counts)
    transfers = []
    for combination in dict.fromkeys(combined.tolist()):
        source_kind, target_kind = combination.split(",")
        mine = (combined == combination)[pair_of_id]
        source_list, source_start = _list(paired.source, source_kind, bases)
        target_list, target_start = _list(paired.target, target_kind, bases)
        transfers.append(
            Transfer(
                producer=paired.source.views.worker.name,
                consumer=paired.target.views.worker.name,
                source=source_list,
                target=target_list,
                source_ids=_renumber(paired.source, source_start, selection.source_ids[mine]),
                target_ids=_renumber(paired.target, target_start, selection.target_ids[mine]),
            )
        )
    return DescriptorFile(
        format=1,
        case=case.name,
        bases={worker: dict(storages) for worker, storages in bases.items()},
        transfers=tuple(transfers),
        zeroes=_zeroes(case, paired.target.views),
    )


def _storage_id(table: Views, index: int) -> str:
    return f"{table.worker.name}/{table.worker.storages[index].name}"


def _registered(table: Views) -> tuple[Region, ...]:
    folded = fold(table)
    members = [np.flatnonzero(folded.region == number) for number in range(len(folded.rows))]
    return _regions(table, folded.rows.astype(np.uint64), folded.section, members)


def _expanded(side: Side) -> tuple[Region, ...]:
    return _regions(side.views, side.expanded.rows, side.expanded.section, side.expanded.members)


def _regions(
    table: Views,
    rows: np.ndarray[tuple[int, int], np.dtype[np.uint64]],
    section: Ints,
    members: tuple[Ints, ...] | list[Ints],
) -> tuple[Region, ...]:
    regions = []
    for (storage, offset, length, stride, pages), kind, pieces in zip(
        rows.tolist(), section.tolist(), members, strict=True
    ):
        inside = tuple(
            Member(
                table.worker.layers[table.layer[piece]].name,
                int(table.offset[piece]) - offset,
                int(table.part[piece]) if table.part[piece] >= 0 else None,
            )
            for piece in pieces.tolist()
        )
        memory = table.worker.storages[storage].memory
        name = _storage_id(table, storage)
        regions.append(Region(name, offset, length, stride, pages, memory, SECTIONS[kind], inside))
    return tuple(regions)


def _places(side: Side, ids: Ints) -> list[Place]:
    """The bytes that each flat id names."""
    entry = np.searchsorted(side.expanded.start, ids, side="right") - 1
    rows = side.expanded.rows[entry].astype(np.int64).reshape(len(ids), 5)
    offsets = rows[:, 1] + (ids - side.expanded.start[entry]) * rows[:, 3]
    names = [_storage_id(side.views, index) for index in range(len(side.views.worker.storages))]
    return [
        Place(names[storage], offset, length)
        for storage, offset, length in zip(rows[:, 0].tolist(), offsets.tolist(), rows[:, 2].tolist(), strict=True)
    ]


def _zeroes(case: Case, table: Views) -> tuple[ZeroRun, ...]:
    runs = []
    for index, page, count in zero_pages(case, table.worker).tolist():
        layer = table.worker.layers[index]
        target = (table.worker.name, layer.storage, layer.offset + page * layer.page_stride)
        runs.append(ZeroRun(target, layer.page_bytes, count, layer.page_stride if count > 1 else 0))
    return tuple(runs)


def _memories(side: Side) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """The memory kind of each entry."""
    kinds = np.array([storage.memory for storage in side.views.worker.storages])
    return np.asarray(kinds[side.expanded.rows[:, 0].astype(np.int64)])


def _list(side: Side, memory: Memory, bases: Bases) -> tuple[DescriptorList, Ints]:
    """All rows of one memory kind, and the new start of every entry (meaningful where the kind is right)."""
    mine = _memories(side) == memory
    pages = np.where(mine, side.expanded.rows[:, 4].astype(np.int64), 0)
    start = np.concatenate([[0], np.cumsum(pages)]).astype(np.int64)
    worker = side.views.worker
    base = [bases[worker.name][storage.name] for storage in worker.storages]
    rows: list[Row] = [
        (base[storage] + offset, length, 0, stride, count)
        for storage, offset, length, stride, count in side.expanded.rows[mine].tolist()
    ]
    sections: dict[Section, Range] = {}
    for number, section in enumerate(SECTIONS):
        entries = np.flatnonzero(mine & (side.expanded.section == number))
        if len(entries):
            sections[section] = (int(start[entries[0]]), int(start[entries[-1] + 1]))
    return DescriptorList(memory, tuple(rows), sections), start


def _renumber(side: Side, start: Ints, ids: Ints) -> tuple[int, ...]:
    """Flat ids as ids of the list whose entries start there."""
    entry = np.searchsorted(side.expanded.start, ids, side="right") - 1
    return tuple((ids - side.expanded.start[entry] + start[entry]).tolist())
