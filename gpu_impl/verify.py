# SPDX-License-Identifier: Apache-2.0
"""Is what lies in memory after a transfer what should? Every byte is compared, on plain numpy arrays.

Places come as ``int64`` arrays: a copy is (source storage, source offset, target storage, target offset, bytes), a span
(storage, offset, bytes); storages are pattern numbers. A wrong byte agrees by chance once in 128: a span found wrong
may include up to seven bytes in a row that do, and lack some at its ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from kvproof.gpu_impl.pattern import Bytes, stretch, trace
from kvproof.gpu_impl.views import Ints

GAP_BYTES = 8
"""Wrong bytes closer than this are one span: among them, bytes that agree by chance."""

_CHUNK_BYTES = 2**22


class Wrong(msgspec.Struct, frozen=True):
    """A span of wrong bytes. ``found`` is where its first bytes come from, where that can be told; ``zero`` if none."""

    storage: int
    offset: int
    bytes: int
    zero: bool = False
    expected: tuple[int, int] | None = None
    found: tuple[int, int] | None = None


class Findings(msgspec.Struct, frozen=True):
    """The first spans, and how many spans and bytes there are in all."""

    spans: tuple[Wrong, ...]
    count: int
    bytes: int


def unchanged(memory: Mapping[int, Bytes], seed: int, limit: int) -> Findings:
    """Bytes of these storages that no longer are their pattern."""
    images = ((number, actual, stretch(number, 0, len(actual), seed)) for number, actual in memory.items())
    return _findings(images, limit)


def as_planned(
    memory: Mapping[int, Bytes], sizes: Mapping[int, int], seed: int, copies: Ints, zeroes: Ints, limit: int
) -> Findings:
    """Bytes of the consumer's storages that are not what the plan makes of the patterns of both sides.

    ``sizes`` holds the bytes of all storages. Copies read the producer's pattern, then the zeroes come.
    """
    sources = _patterns(copies, sizes, seed)

    def images() -> Iterator[tuple[int, Bytes, Bytes]]:
        for number, actual in memory.items():
            image = stretch(number, 0, len(actual), seed)
            _apply(image, number, copies, sources)
            for _, offset, length in zeroes[zeroes[:, 0] == number].tolist():
                image[offset : offset + length] = 0
            yield number, actual, image

    return _findings(images(), limit)


def arrived(memory: Mapping[int, Bytes], sizes: Mapping[int, int], seed: int, required: Ints, limit: int) -> Findings:
    """Required bytes that are not the producer's, each with what lies there instead."""
    sources = _patterns(required, sizes, seed)

    def images() -> Iterator[tuple[int, Bytes, Bytes]]:
        for number, actual in memory.items():
            if (required[:, 2] == number).any():
                image = actual.copy()
                _apply(image, number, required, sources)
                yield number, actual, image

    findings = _findings(images(), limit)
    spans = tuple(_explain(span, memory[span.storage], sizes, seed, required) for span in findings.spans)
    return Findings(spans, findings.count, findings.bytes)


def zeroed(memory: Mapping[int, Bytes], owed: Ints, limit: int) -> Findings:
    """Owed spans that are not all zero."""
    wrong = [
        Wrong(number, offset, length)
        for number, offset, length in owed.tolist()
        if memory[number][offset : offset + length].any()
    ]
    return Findings(tuple(wrong[:limit]), len(wrong), sum(span.bytes for span in wrong))


def union_bytes(spans: Ints) -> int:
    """Distinct bytes in spans."""
    total = 0
    for number in np.unique(spans[:, 0]):
        mine = spans[spans[:, 0] == number]
        mine = mine[np.argsort(mine[:, 1], kind="stable")]
        ends = mine[:, 1] + mine[:, 2]
        reached = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]])
        total += int(np.maximum(ends - np.maximum(mine[:, 1], reached), 0).sum())
    return total


def _patterns(copies: Ints, sizes: Mapping[int, int], seed: int) -> dict[int, Bytes]:
    """The whole pattern of every storage that is copied from."""
    return {number: stretch(number, 0, sizes[number], seed) for number in np.unique(copies[:, 0]).tolist()}


def _apply(image: Bytes, number: int, copies: Ints, sources: Mapping[int, Bytes]) -> None:
    mine = copies[copies[:, 2] == number]
    for source, source_offset, _, target_offset, length in mine.tolist():
        image[target_offset : target_offset + length] = sources[source][source_offset : source_offset + length]


def _findings(images: Iterator[tuple[int, Bytes, Bytes]], limit: int) -> Findings:
    """Compare what is with what should be, storage by storage."""
    first: list[Wrong] = []
    count, total = 0, 0
    for number, actual, image in images:
        starts, ends = _spans(actual, image)
        count += len(starts)
        total += int((ends - starts).sum())
        for start, end in zip(starts[: limit - len(first)].tolist(), ends.tolist(), strict=False):
            first.append(Wrong(number, start, end - start))
    return Findings(tuple(first), count, total)


def _spans(actual: Bytes, image: Bytes) -> tuple[Ints, Ints]:
    """Starts and ends of the spans that differ."""
    places = [
        start + np.flatnonzero(differs)
        for start in range(0, len(actual), _CHUNK_BYTES)
        if (differs := actual[start : start + _CHUNK_BYTES] != image[start : start + _CHUNK_BYTES]).any()
    ]
    starts: list[Ints] = []
    ends: list[Ints] = []
    for place in places:
        breaks = np.flatnonzero(np.diff(place) > GAP_BYTES)
        chunk_starts = place[np.concatenate([[0], breaks + 1])]
        chunk_ends = place[np.concatenate([breaks, [len(place) - 1]])] + 1
        if ends and chunk_starts[0] - ends[-1][-1] < GAP_BYTES:  # goes on from the chunk before
            ends[-1][-1] = chunk_ends[0]
            chunk_starts, chunk_ends = chunk_starts[1:], chunk_ends[1:]
        if len(chunk_starts):
            starts.append(chunk_starts)
            ends.append(chunk_ends)
    none = np.empty(0, dtype=np.int64)
    return np.concatenate([none, *starts]), np.concatenate([none, *ends])


def _explain(span: Wrong, actual: Bytes, sizes: Mapping[int, int], seed: int, required: Ints) -> Wrong:
    """Say where the span's bytes should have come from, and where they do."""
    found = actual[span.offset : span.offset + span.bytes]
    covering = required[
        (required[:, 2] == span.storage)
        & (required[:, 3] <= span.offset)
        & (span.offset < required[:, 3] + required[:, 4])
    ]
    expected = None
    if len(covering):
        source, source_offset, _, target_offset, _ = covering[0].tolist()
        expected = (source, source_offset + span.offset - target_offset)
    return Wrong(
        span.storage,
        span.offset,
        span.bytes,
        zero=not found.any(),
        expected=expected,
        found=trace(found, sizes, seed),
    )
