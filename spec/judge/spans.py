# SPDX-License-Identifier: Apache-2.0
"""Sets of bytes as sorted, disjoint spans by storage, and the sweep that pairs what overlaps."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from kvproof.spec.place import Place, StorageId

PAIRS_LIMIT = 5_000_000
"""Most overlapping pairs one sweep looks at. A plan that needs more gets no verdict."""


class BudgetExceeded(Exception):
    """The judge would have to look at more than it allows itself: the verdict is unknown."""


class Spans:
    """A set of bytes: for each storage sorted, disjoint, non-adjacent spans ``[start, end)``."""

    def __init__(self, places: Iterable[Place]) -> None:
        by_storage: dict[StorageId, list[tuple[int, int]]] = defaultdict(list)
        for place in places:
            if place.bytes > 0:
                by_storage[place.storage].append((place.offset, place.offset + place.bytes))
        self._spans = {storage: _merge(spans) for storage, spans in by_storage.items()}

    def __iter__(self) -> Iterator[Place]:
        for storage, spans in self._spans.items():
            for start, end in spans:
                yield Place(storage, start, end - start)

    def total(self) -> int:
        """Bytes in the set."""
        return sum(place.bytes for place in self)

    def within(self, place: Place) -> Iterator[Place]:
        """The pieces of ``place`` in the set, ascending."""
        for start, end in self._from(place):
            if start >= place.offset + place.bytes:
                return
            first, last = max(start, place.offset), min(end, place.offset + place.bytes)
            if first < last:
                yield Place(place.storage, first, last - first)

    def without(self, place: Place) -> Iterator[Place]:
        """The pieces of ``place`` not in the set, ascending."""
        position, end = place.offset, place.offset + place.bytes
        for inside in self.within(place):
            if position < inside.offset:
                yield Place(place.storage, position, inside.offset - position)
            position = inside.offset + inside.bytes
        if position < end:
            yield Place(place.storage, position, end - position)

    def _from(self, place: Place) -> Iterator[tuple[int, int]]:
        spans = self._spans.get(place.storage, [])
        index = max(0, bisect_right(spans, (place.offset, 0)) - 1)
        while index < len(spans):
            yield spans[index]
            index += 1


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def overlapping(first: Sequence[Place], second: Sequence[Place]) -> Iterator[tuple[int, int]]:
    """Index pairs of the overlapping places of two lists. Ends with BudgetExceeded past PAIRS_LIMIT pairs."""
    events = sorted(
        (place.storage, place.offset, side, index)
        for side, places in enumerate((first, second))
        for index, place in enumerate(places)
        if place.bytes > 0
    )
    both = (first, second)
    active: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    storage_now: StorageId = None
    pairs = 0
    for storage, offset, side, index in events:
        if storage != storage_now:
            storage_now = storage
            active = ([], [])
        other = active[1 - side]
        while other and other[0][0] <= offset:
            heappop(other)
        for _, partner in other:
            pairs += 1
            if pairs > PAIRS_LIMIT:
                raise BudgetExceeded(f"more than {PAIRS_LIMIT} overlaps between copies and cells")
            yield (index, partner) if side == 0 else (partner, index)
        place = both[side][index]
        heappush(active[side], (place.offset + place.bytes, index))
