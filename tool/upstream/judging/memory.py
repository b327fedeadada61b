# SPDX-License-Identifier: Apache-2.0
"""Memory before and after, byte for byte: is what was captured what happened, and does the judge see it as it is?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kvproof.reference.derive import derive
from kvproof.reference.simulator import Contents, execute
from kvproof.spec.judge.plan_laws import required_spans
from kvproof.spec.judge.spans import Spans, overlapping
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.scope import Covered, Scope
from kvproof.spec.vocabulary import Case
from kvproof.spec.world import storage_id
from kvproof.upstream.protocol import Observed
from kvproof.upstream.running.scratch import read_inside
from kvproof.words import plural

BYTES_LIMIT = 2**28
"""Of all storages of a case together. Memory of more is not compared: it is held several times over."""

CHUNK = 4096
"""Bytes compared at a time, before single ones are."""

CHANCE_BYTES = 16
"""So many bytes do not all equal the right ones by chance."""


class Dump(msgspec.Struct, frozen=True):
    """All storages of a case before and after."""

    before: Contents
    after: Contents


def read_dump(case: Case, observed: Observed, folder: Path) -> Dump | None:
    """The memory that the probe wrote down; None where it did not write all of it, or it is more than is compared.

    Raises Lost for a file of another size, or one that is not in the folder.
    """
    if sum(storage.bytes for worker in case.worker for storage in worker.storages) > BYTES_LIMIT:
        return None
    before, after = Contents(), Contents()
    for worker in case.worker:
        seen = observed.workers[worker.name].memory
        for storage in worker.storages:
            if storage.name not in seen:
                return None
            for contents, name in zip((before, after), seen[storage.name], strict=True):
                contents[storage_id(worker.name, storage.name)] = bytearray(read_inside(folder, name, storage.bytes))
    return Dump(before, after)


def is_settled(judgement: Judgement) -> bool:
    """The plan says what it does to memory: its spans lie in storages, and what it pairs is of one length."""
    undefined = (("bounds", "plan"), ("parity", "tables"))
    return not any((finding.law, finding.subject) in undefined for finding in judgement.findings)


def differences(case: Case, scope: Scope, plan: Plan, judgement: Judgement, dump: Dump) -> Iterator[str]:
    """Where memory is not what the captured plan makes of it, or the judge's view of it is not what memory shows."""
    expected = copied(dump.before)
    execute(plan, expected)
    odd = [place for name in expected for place in unequal(name, expected[name], dump.after[name])]
    if odd:
        unsettled = Spans(raced(plan))
        for place in odd:
            for piece in unsettled.without(place):
                yield f"{_words(piece)} are not what the captured copies and zeroes make of them"
                return
    if isinstance(scope, Covered) and scope.tokens is not None:
        yield from _judged_otherwise(case, scope, judgement, dump)


def _judged_otherwise(case: Case, covered: Covered, judgement: Judgement, dump: Dump) -> Iterator[str]:
    """Required bytes that are wrong in memory and not for the judge, or the reverse."""
    right = copied(dump.before)
    execute(derive(case).plan, right)
    required = [target for _, target in required_spans(covered)]
    wrong = Spans(place for target in required for place in _unequal_within(target, right, dump.after))
    maybe, contested = Spans((*judgement.corrupt, *judgement.contested)), Spans(judgement.contested)
    for place in wrong:
        for piece in maybe.without(place):
            yield f"{_words(piece)} are wrong in memory, but the judge finds them right"
            return
    certain = Spans(piece for place in judgement.corrupt for piece in contested.without(place))
    if certain.total() >= CHANCE_BYTES and not any(piece for place in certain for piece in wrong.within(place)):
        yield f"the judge finds {plural(certain.total(), 'byte')} wrong, and all of them are right in memory"


def copied(contents: Contents) -> Contents:
    """A copy that can be written to."""
    return {name: bytearray(content) for name, content in contents.items()}


def raced(plan: Plan) -> Iterator[Place]:
    """Bytes that two copies write from different sources: which of them is last is the transport's to say."""
    targets = [copy.target for copy in plan.copies]
    for index, other in overlapping(targets, targets):
        first, second = plan.copies[index], plan.copies[other]
        if index < other and _origin(first.source, first.target) != _origin(second.source, second.target):
            start = max(first.target.offset, second.target.offset)
            end = min(first.target.offset + first.target.bytes, second.target.offset + second.target.bytes)
            yield Place(first.target.storage, start, end - start)


def _origin(source: Place, target: Place) -> tuple[str, int]:
    return str(source.storage), int(source.offset - target.offset)


def unequal(storage: str, first: bytes | bytearray, second: bytes | bytearray) -> Iterator[Place]:
    """The spans in which two equally long contents of a storage differ."""
    start: int | None = None
    for chunk in range(0, len(first), CHUNK):
        ours, theirs = first[chunk : chunk + CHUNK], second[chunk : chunk + CHUNK]
        marks: Iterable[tuple[int, bool]] = [(0, False)]
        if ours != theirs:
            marks = ((index, mine != other) for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)))
        for index, differs in marks:
            if differs and start is None:
                start = chunk + index
            elif not differs and start is not None:
                yield Place(storage, start, chunk + index - start)
                start = None
    if start is not None:
        yield Place(storage, start, len(first) - start)


def _unequal_within(place: Place, first: Contents, second: Contents) -> Iterator[Place]:
    start, end = place.offset, place.offset + place.bytes
    for found in unequal(place.storage, first[place.storage][start:end], second[place.storage][start:end]):
        yield Place(found.storage, start + found.offset, found.bytes)


def _words(place: Place) -> str:
    return f"bytes {place.offset}–{place.offset + place.bytes - 1} of {place.storage}"
