# SPDX-License-Identifier: Apache-2.0
"""Descriptor lists spoilt in one place."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kvproof.fuzzing.source import Source
from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Row, Transfer
from kvproof.spec.tables import SECTIONS

Mutation = Callable[[Source, Transfer], Transfer]

ADDRESS, BYTES, STRIDE, COUNT = 0, 1, 3, 4


def mutate_lists(source: Source, lists: DescriptorFile) -> tuple[str, DescriptorFile]:
    """The lists, of at least one transfer, with one change, and its name."""
    index = source.integer(0, len(lists.transfers) - 1)
    name = source.choice(list(MUTATIONS))
    spoilt = MUTATIONS[name](source, lists.transfers[index])
    return name, replace(lists, transfers=(*lists.transfers[:index], spoilt, *lists.transfers[index + 1 :]))


def _prepared(source: Source, transfer: Transfer, change: Callable[[DescriptorList], DescriptorList]) -> Transfer:
    """One list of the transfer changed, or both alike."""
    sides = source.choice([("source",), ("target",), ("source", "target")])
    return replace(transfer, **{side: change(getattr(transfer, side)) for side in sides})


def _row(source: Source, transfer: Transfer, change: Callable[[Row], Row]) -> Transfer:
    """One row of one list changed, or one of both."""
    pick = source.integer(0, 2**20)

    def changed(prepared: DescriptorList) -> DescriptorList:
        index = pick % len(prepared.rows)
        rows = (*prepared.rows[:index], change(prepared.rows[index]), *prepared.rows[index + 1 :])
        return replace(prepared, rows=rows)

    return _prepared(source, transfer, changed)


def _with(row: Row, field: int, value: int) -> Row:
    values = list(row)
    values[field] = max(0, value)
    address, length, device, stride, count = values
    return address, length, device, stride, count


def change_row(source: Source, transfer: Transfer) -> Transfer:
    """Another address, length, stride or count; longer than its stride, or of no length, among them."""
    field = source.choice([ADDRESS, BYTES, BYTES, STRIDE, COUNT])
    step = source.choice([1, -1, 2, 5, -(10**6)])
    if step < -5 and field == ADDRESS:
        step = source.choice([2**64, -(2**32)])
    return _row(source, transfer, lambda row: _with(row, field, row[field] + step))


def shift_page(source: Source, transfer: Transfer) -> Transfer:
    """A row starts some descriptors later or earlier."""
    step = source.choice([1, -1, 3])
    return _row(source, transfer, lambda row: _with(row, ADDRESS, row[ADDRESS] + step * row[STRIDE]))


def stretch_row(source: Source, transfer: Transfer) -> Transfer:
    """Descriptors that reach up to the next one, or into its page."""
    more = source.integer(0, 4)
    return _row(source, transfer, lambda row: _with(row, BYTES, row[STRIDE] + more))


def spare_row(source: Source, transfer: Transfer) -> Transfer:
    """A row at the end, which nobody addresses: of one descriptor or two, anywhere."""

    def add(prepared: DescriptorList) -> DescriptorList:
        address, length, device, stride, count = source.choice(prepared.rows)
        start = source.choice([address, address + count * stride, address + 8192, 0, 2**64])
        row = (start, source.choice([length, 0, 1]), device, source.choice([stride, 4096]), source.integer(0, 2))
        return replace(prepared, rows=(*prepared.rows, row))

    return _prepared(source, transfer, add)


def cut_row(source: Source, transfer: Transfer) -> Transfer:
    """A row in two, which name the same descriptors."""

    def cut(prepared: DescriptorList) -> DescriptorList:
        index = source.integer(0, len(prepared.rows) - 1)
        address, length, device, stride, count = prepared.rows[index]
        first = source.integer(0, count)
        rows = (
            (address, length, device, stride, first),
            (address + first * stride, length, device, stride, count - first),
        )
        return replace(prepared, rows=(*prepared.rows[:index], *rows, *prepared.rows[index + 1 :]))

    return _prepared(source, transfer, cut)


def change_memory(source: Source, transfer: Transfer) -> Transfer:
    """The list of the other memory kind."""
    return _prepared(source, transfer, lambda one: replace(one, memory="DRAM" if one.memory == "VRAM" else "VRAM"))


def change_sections(source: Source, transfer: Transfer) -> Transfer:
    """No sections, a section under another name, without one, or a bound elsewhere."""

    def change(prepared: DescriptorList) -> DescriptorList:
        sections = dict(prepared.sections or {})
        how = source.choice(["none", "renamed", "lost", "moved"])
        if how == "none" or not sections:
            return replace(prepared, sections=None)
        name = source.choice(list(sections))
        start, end = sections.pop(name)
        if how == "renamed":
            sections[source.choice([other for other in SECTIONS if other != name])] = (start, end)
        elif how == "moved":
            sections[name] = (max(0, start + source.integer(-1, 1)), max(0, end + source.integer(-1, 1)))
        return replace(prepared, sections=sections)

    return _prepared(source, transfer, change)


def change_id(source: Source, transfer: Transfer) -> Transfer:
    """Another id on one side; it may be past the end of the list."""
    side = source.choice(["source", "target"])
    ids: tuple[int, ...] = getattr(transfer, f"{side}_ids")
    total = sum(row[COUNT] for row in getattr(transfer, side).rows)
    index = source.integer(0, len(ids) - 1)
    return replace(transfer, **{f"{side}_ids": (*ids[:index], source.integer(-1, total), *ids[index + 1 :])})


def spare_id(source: Source, transfer: Transfer) -> Transfer:
    """An id more, on one side or on both."""
    sides = source.choice([("source",), ("target",), ("source", "target")])
    added = {}
    for side in sides:
        total = sum(row[COUNT] for row in getattr(transfer, side).rows)
        added[f"{side}_ids"] = (*getattr(transfer, f"{side}_ids"), source.integer(0, total))
    return replace(transfer, **added)


def spare_pair(source: Source, transfer: Transfer) -> Transfer:
    """A byte of a moved pair of descriptors once more, or another one of the source's, by a row of its own."""
    index = source.integer(0, min(len(transfer.source_ids), len(transfer.target_ids)) - 1)
    added: dict[str, object] = {}
    for side in ("source", "target"):
        prepared: DescriptorList = getattr(transfer, side)
        ids: tuple[int, ...] = getattr(transfer, f"{side}_ids")
        total = sum(row[COUNT] for row in prepared.rows)
        address, length = _descriptor(prepared, ids[index])
        byte = address + source.integer(0, max(0, length - 1))
        sections = prepared.sections and {
            name: (start, end + (end == total)) for name, (start, end) in prepared.sections.items()
        }
        added[side] = replace(prepared, rows=(*prepared.rows, (byte, 1, 0, 0, 1)), sections=sections)
        added[f"{side}_ids"] = (*ids, total)
    return replace(transfer, **added)


def _descriptor(prepared: DescriptorList, descriptor_id: int) -> tuple[int, int]:
    """Address and length; of the list's first row where there is no such id."""
    left = descriptor_id
    for address, length, _, stride, count in prepared.rows:
        if 0 <= left < count:
            return address + left * stride, length
        left -= count
    return prepared.rows[0][ADDRESS], prepared.rows[0][BYTES]


MUTATIONS: dict[str, Mutation] = {
    "row": change_row,
    "page": shift_page,
    "stretched row": stretch_row,
    "spare row": spare_row,
    "cut row": cut_row,
    "memory": change_memory,
    "sections": change_sections,
    "id": change_id,
    "spare id": spare_id,
    "spare pair": spare_pair,
}
