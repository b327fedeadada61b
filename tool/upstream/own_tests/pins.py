# SPDX-License-Identifier: Apache-2.0
"""All that the records of one test pin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvproof.upstream.own_tests.numbers import numbers
from kvproof.upstream.own_tests.pin import Declined, Pinned, Reading, Uncovered
from kvproof.upstream.own_tests.reads import Known, reads
from kvproof.upstream.own_tests.records import Peer, Record
from kvproof.upstream.own_tests.twins import twins

_NUMBERS = ("ids", "trimmed", "mapped", "expanded", "rows")


def pins(records: Sequence[Record], reading: Reading) -> Iterator[Pinned]:
    """What the calls of one test pin, in order. ``reading``: what the test says of its request elsewhere."""
    registered: dict[int | None, Record] = {}
    peers: dict[tuple[int | None, str | None], Peer] = {}
    for number, record in enumerate(records):
        if record.event == "registered":
            registered[record.worker] = record
            yield from twins(record)
        elif record.event == "peer":
            if record.peer is not None:
                # The target rewrites what a peer said as it takes it in: the first time is the peer's own word.
                peers.setdefault((record.worker, record.peer.engine_id), record.peer)
            if record.error is not None:
                yield Declined("a worker meets a peer", record.error)
            elif _staged(registered.get(record.worker)):
                yield Uncovered("lists for a peer with other layers", "pipeline parallelism")
        elif record.event in ("read", "write"):
            if not record.transfers and record.error is None:
                yield from _inner(record, reading)
                continue
            engine_id = record.request.peer if record.request is not None else None
            zeroes = _zeroes_after(records[number + 1 :], record.worker)
            known = Known(registered.get(record.worker), peers.get((record.worker, engine_id)), zeroes)
            yield from reads(record, known, reading)
        elif record.event in _NUMBERS:
            if not _prepares(record, records[number + 1 :]):
                yield from numbers(record, reading)
        elif record.event == "dcp-trimmed":
            yield Uncovered("pages of ranks that share a context", "context parallelism")
        elif record.event == "finished" and record.zeroes and not any(one.event == "read" for one in records[:number]):
            yield Uncovered("a request that completes", "zeroes without the transfer that they belong to")
        elif record.event == "reordered":
            yield Uncovered("pages set in order after they landed", "pages that are reordered after they land")


def _inner(record: Record, reading: Reading) -> Iterator[Pinned]:
    """A request of which nothing was posted: what was planned for it, if anything."""
    found = [one for one in record.inner if one.event in _NUMBERS]
    for one in found:
        yield from numbers(one, reading)
    if record.event == "write":
        yield Uncovered("a request that is written", "a transfer that the producer posts")


def _staged(registered: Record | None) -> bool:
    """The worker is one of several stages."""
    engine = registered.engine if registered is not None else None
    return engine is not None and (engine.pp_size or 1) > 1


def _zeroes_after(records: Sequence[Record], worker: int | None) -> tuple[tuple[int, int], ...]:
    """What the worker zeroed when it next saw a request through."""
    for record in records:
        if record.event == "finished" and record.worker == worker:
            return record.zeroes
    return ()


def _prepares(record: Record, later: Sequence[Record]) -> bool:
    """A test that writes out blocks only to hand them to a request: they are judged with it."""
    following = later[0].event if later else None
    return record.event == "expanded" and following in ("read", "write") and later[0].worker == record.worker
