# SPDX-License-Identifier: Apache-2.0
"""A plan carried out on memory in which every byte has a name of its own: nothing is right by chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvproof.spec.judge.extents import allowed
from kvproof.spec.judge.plan_laws import owed_spans, required_spans
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.scope import Covered

Byte = tuple[str, int]
"""Storage id and offset."""

Tagged = dict[str, list[Byte | None]]
"""What each byte of a storage holds: the byte that it came from, or None where it was zeroed."""


def bytes_of(places: Iterable[Place]) -> frozenset[Byte]:
    """The bytes of places, one by one."""
    return frozenset((p.storage, byte) for p in places for byte in range(p.offset, p.offset + p.bytes))


def storage_sizes(covered: Covered) -> dict[str, int]:
    """Bytes of each storage."""
    return {name: storage.bytes for name, storage in covered.storages.items()}


def total_bytes(covered: Covered) -> int:
    """Bytes of all storages."""
    return sum(storage_sizes(covered).values())


def fits(covered: Covered, plan: Plan) -> bool:
    """Every span lies inside its storage."""
    sizes = storage_sizes(covered)
    spans = [*(span for copy in plan.copies for span in (copy.source, copy.target)), *plan.zeroes]
    return all(0 <= span.offset and span.offset + span.bytes <= sizes[span.storage] for span in spans)


def tagged(covered: Covered) -> Tagged:
    """All storages, every byte holding itself."""
    return {storage: [(storage, byte) for byte in range(size)] for storage, size in storage_sizes(covered).items()}


def carry_out(covered: Covered, plan: Plan) -> Tagged:
    """Memory after the plan. All copies read what was there before; the zeroes come last."""
    before, after = tagged(covered), tagged(covered)
    for copy in plan.copies:
        for index in range(copy.target.bytes):
            after[copy.target.storage][copy.target.offset + index] = before[copy.source.storage][
                copy.source.offset + index
            ]
    for zero in plan.zeroes:
        for index in range(zero.bytes):
            after[zero.storage][zero.offset + index] = None
    return after


def wrong_bytes(covered: Covered, after: Tagged) -> frozenset[Byte]:
    """Required bytes that do not hold the producer's byte of the same cell."""
    return frozenset(
        (target.storage, target.offset + index)
        for source, target in required_spans(covered)
        for index in range(target.bytes)
        if after[target.storage][target.offset + index] != (source.storage, source.offset + index)
    )


def memory_faults(covered: Covered, plan: Plan) -> Iterator[str]:
    """What is wrong in memory after a plan that should be lawful, in words."""
    after = carry_out(covered, plan)
    for storage, byte in sorted(wrong_bytes(covered, after)):
        yield f"byte {byte} of {storage} holds {after[storage][byte]} in the end"
    for storage, byte in sorted(bytes_of(owed_spans(covered))):
        if after[storage][byte] is not None:
            yield f"byte {byte} of {storage} is owed a zero and holds {after[storage][byte]}"
    own = bytes_of(allowed(covered))
    for storage, content in after.items():
        for byte, held in enumerate(content):
            if held != (storage, byte) and (storage, byte) not in own:
                yield f"byte {byte} of {storage} is nobody's to write and holds {held}"
