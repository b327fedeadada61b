# SPDX-License-Identifier: Apache-2.0
"""Do the two routes build the same? The reference's tables and plan against gpu_impl's, row for row, id for id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvproof.interrupts import Held
from kvproof.reference.derive import Derived
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.tables import Member, Pairing, Region, Tables
from kvproof.spec.vocabulary import Case
from kvproof.words import plural


def disagreements(case: Case, derived: Derived) -> Iterator[str]:
    """Every table in which gpu_impl differs from the reference, with the first difference."""
    with Held():
        from kvproof.gpu_impl.tables import as_tables, plan

    tables = as_tables(case)
    yield from table_differences(derived.tables, tables)
    yield from plan_differences(derived.plan, plan(case))


def table_differences(ours: Tables, theirs: Tables) -> Iterator[str]:
    """Differences of tables."""
    if set(ours.registered) != set(theirs.registered):
        yield f"workers with a region table: {_two(sorted(ours.registered), sorted(theirs.registered))}"
        return
    for worker, rows in ours.registered.items():
        yield from _difference(f"region of {worker}", f"regions of {worker}", rows, theirs.registered[worker])
    for field, one, many in (
        ("source", "row of the source table", "rows of the source table"),
        ("target", "row of the target table", "rows of the target table"),
        ("pairings", "pairing", "pairings"),
        ("source_ids", "source descriptor id", "source descriptor ids"),
        ("target_ids", "target descriptor id", "target descriptor ids"),
    ):
        yield from _difference(one, many, getattr(ours, field), getattr(theirs, field))


def plan_differences(ours: Plan, theirs: Plan) -> Iterator[str]:
    """Differences of plans."""
    yield from _difference("copy", "copies", ours.copies, theirs.copies)
    yield from _difference("zeroed page", "zeroed pages", ours.zeroes, theirs.zeroes)


def _difference(one: str, many: str, ours: Sequence[Any], theirs: Sequence[Any]) -> Iterator[str]:
    if ours == theirs:
        return
    for number, (first, second) in enumerate(zip(ours, theirs, strict=False)):
        if first != second:
            yield f"{one} {number}: {_two(_words(first), _words(second))}"
            return
    yield f"number of {many}: {_two(len(ours), len(theirs))}"


def _words(item: Any) -> str:
    if isinstance(item, Region):
        members = ", ".join(_member_words(member) for member in item.members)
        return (
            f"{item.storage} from {item.offset}, {plural(item.pages, 'page')} of {plural(item.bytes, 'byte')}, "
            f"{item.stride} apart, "
            f"{item.memory}, {item.section} ({members})"
        )
    if isinstance(item, Pairing):
        return f"{item.group}: {item.source}{list(item.source_pages)} to {item.target}{list(item.target_pages)}"
    if isinstance(item, Copy):
        return f"{_words(item.source)} to {_words(item.target)}"
    if isinstance(item, Place):
        return f"{item.storage}[{item.offset}, {item.offset + item.bytes})"
    return str(item)


def _member_words(member: Member) -> str:
    part = "" if member.part is None else f" part {member.part}"
    return f"{member.layer}{part} at {member.offset}"


def _two(ours: object, theirs: object) -> str:
    return f"the reference has {ours}, gpu_impl has {theirs}"
