# SPDX-License-Identifier: Apache-2.0
"""The simulator: what a plan does to plain bytes."""

from __future__ import annotations

from kvproof.reference.side import storage_id
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.vocabulary import Case

Contents = dict[str, bytearray]
"""Storage id: the bytes of the storage."""

PRIME = 127
"""Values a side has, and bytes that a pattern rises by one step. Prime, so that no usual page size is a multiple."""

DRIFT = 59
"""What a pattern moves on by from one run of ``PRIME`` bytes to the next."""

SALT = 31
"""What the patterns of two storages are apart."""


def execute(plan: Plan, memory: Contents) -> None:
    """Carry out a plan in place.

    All copies read the bytes as they were before; where two write the same byte the later one wins; then the zeroes.
    A span out of bounds, of an unknown storage, or a copy between unequal lengths is a ValueError, and nothing is done.
    """
    for copy in plan.copies:
        check(copy.source, memory)
        check(copy.target, memory)
        if copy.source.bytes != copy.target.bytes:
            raise ValueError(f"copy from {named(copy.source)} to {named(copy.target)}: lengths differ")
    for zero in plan.zeroes:
        check(zero, memory)
    reads = [read(copy.source, memory) for copy in plan.copies]
    for copy, content in zip(plan.copies, reads, strict=True):
        write(copy.target, content, memory)
    for zero in plan.zeroes:
        write(zero, bytes(zero.bytes), memory)


def patterned(case: Case) -> Contents:
    """The storages of a case, filled by position, storage and worker, without zeroes.

    Producers hold 1..127, consumers 128..254: a byte tells which side it comes from. At one offset no two storages of
    a side are equal (up to 127 of them).
    """
    filled: Contents = {}
    for worker in case.worker:
        for storage in worker.storages:
            lowest = 1 if worker.role == "producer" else 1 + PRIME
            filled[storage_id(worker, storage.name)] = pattern(storage.bytes, lowest, SALT * len(filled))
    return filled


def pattern(length: int, lowest: int, salt: int) -> bytearray:
    """So many bytes from ``lowest`` to ``lowest + 126``, in runs of ``PRIME`` bytes, each with its own step and start.

    Byte j of run q is ``lowest + (j * step + q * DRIFT + salt) mod PRIME`` with a step of ``1 + q mod (PRIME - 1)``, so
    that equal pages are rare; it repeats after some two million bytes.
    """
    count = min(length // PRIME + 1, PRIME * (PRIME - 1))
    steps = range(1, min(count, PRIME - 1) + 1)
    ladders = [bytes(lowest + j * step % PRIME for j in range(2 * PRIME)) for step in steps]
    inverses = [pow(step, -1, PRIME) for step in steps]
    period = bytearray()
    for number in range(count):
        rung = number % (PRIME - 1)
        start = (number * DRIFT + salt) * inverses[rung] % PRIME
        period += ladders[rung][start : start + PRIME]
    return (period * (length // len(period) + 1))[:length]


def check(span: Place, memory: Contents) -> None:
    """Raise ValueError unless the span lies in a storage of the memory."""
    if span.storage not in memory:
        raise ValueError(f"{named(span)}: there is no such storage")
    length = len(memory[span.storage])
    if span.offset < 0 or span.bytes < 0 or span.offset + span.bytes > length:
        raise ValueError(f"{named(span)}: out of bounds, the storage has {length} bytes")


def named(span: Place) -> str:
    """The span in words."""
    return f"bytes [{span.offset}, {span.offset + span.bytes}) of {span.storage}"


def read(span: Place, memory: Contents) -> bytes:
    """The bytes of a span."""
    return bytes(memory[span.storage][span.offset : span.offset + span.bytes])


def write(span: Place, content: bytes, memory: Contents) -> None:
    """Overwrite a span with as many bytes."""
    memory[span.storage][span.offset : span.offset + span.bytes] = content
