# SPDX-License-Identifier: Apache-2.0
"""A case of two running engines: their geometry as their workers registered it, and a request as their tables hold it.

Pages are opaque. What the bytes of a page mean is the attention backend's own affair, and not always what the shape of
the view says: vLLM's CPU attention keeps a head's keys transposed, and its values behind them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.spec.vocabulary import Case, Group, Kind, Layer, Memory, Pool, Request, Role, Storage, Table, Worker
from kvproof.upstream.live.engine import Generated, SeenGroup, SeenPeer, Started
from kvproof.upstream.protocol import Observed, Reached, SeenWorker

PRODUCER, CONSUMER = "P0", "D0"
NULL_BLOCK = 0
"""vLLM never gives it to a request: it stands in tables where a block was given up."""

KINDS: dict[str, Kind] = {
    "FullAttentionSpec": "attention",
    "MLAAttentionSpec": "attention",
    "SlidingWindowSpec": "sliding",
    "SlidingWindowMLASpec": "sliding",
}


class Unread(Exception):
    """What the engines showed is not enough, or of a kind that is not read yet. One line of words."""


class Side:
    """One engine and its half of the request."""

    def __init__(self, name: str, role: Role, engine: Started, request: Generated) -> None:
        self.name, self.role, self.engine, self.request = name, role, engine, request
        addresses = sorted({layer.storage for layer in engine.layers})
        self.storages = {address: f"s{number}" for number, address in enumerate(addresses)}

    def worker(self) -> Worker:
        """The worker in the case's words. Raises Unread for groups of kinds that are not read yet, or no table."""
        engine = self.engine
        sizes = {layer.storage: layer.storage_bytes for layer in engine.layers}
        storages = [Storage(name, sizes[address], self._memory(address)) for address, name in self.storages.items()]
        groups = [self._group(number, seen) for number, seen in enumerate(engine.groups)]
        return Worker(
            name=self.name,
            role=self.role,
            storages=tuple(storages),
            pools=(Pool("device", engine.blocks, NULL_BLOCK),),
            groups=tuple(groups),
            layers=tuple(self._layers()),
            tables={group.name: self._table(number) for number, group in enumerate(groups)},
        )

    def seen(self) -> SeenWorker:
        """The worker as an observation."""
        bases = {name: address for address, name in self.storages.items()}
        return SeenWorker(bases=bases, regions=self.engine.regions, registered=self.engine.registered)

    def _memory(self, storage: int) -> Memory:
        """What NIXL was told of it; DRAM where it was told nothing."""
        for address, size, _, memory in self.engine.registered:
            if address <= storage < address + size and memory == "VRAM":
                return "VRAM"
        return "DRAM"

    def _group(self, number: int, seen: SeenGroup) -> Group:
        kind = KINDS.get(seen.spec)
        if kind is None:
            raise Unread(f"{self.name}: caches of the kind {seen.spec} are not read yet; {', '.join(KINDS)} are")
        return Group(
            name=f"g{number}",
            kind=kind,
            pool="device",
            block_tokens=seen.block_tokens,
            pages_per_block=self.engine.pages_per_block,
            window_tokens=seen.window_tokens if kind == "sliding" else None,
        )

    def _layers(self) -> list[Layer]:
        for seen in self.engine.layers:
            if seen.address < seen.storage:
                raise Unread(f"{self.name}: layer {seen.name} begins at {seen.address}, before its storage")
        return [
            Layer(
                name=seen.name,
                group=f"g{seen.group}",
                storage=self.storages[seen.storage],
                offset=seen.address - seen.storage,
                page_bytes=seen.page_bytes,
                page_stride=seen.stride,
            )
            for seen in self.engine.layers
        ]

    def _table(self, number: int) -> Table:
        if self.request.tables is None or number >= len(self.request.tables):
            raise Unread(f"{self.name}: the engine showed no block table of the request for group g{number}")
        cached = self.request.cached_tokens or 0
        return Table(self.request.tables[number], cached_tokens=cached if self.role == "consumer" else None)


def live_case(name: str, producer: tuple[Started, Generated], consumer: tuple[Started, Generated]) -> Case:
    """The case of a request that one engine computed and another one pulled. Raises Unread."""
    computed = producer[1].computed_tokens
    if not computed:
        raise Unread(f"{PRODUCER}: the engine did not say how many tokens it has to offer")
    return Case(
        format=1,
        name=name,
        title="two engines, as their workers registered",
        request=Request(computed),
        worker=tuple(side.worker() for side in _sides(producer, consumer)),
    )


def observation(producer: tuple[Started, Generated], consumer: tuple[Started, Generated], reached: Reached) -> Observed:
    """What the two engines did for it."""
    workers = {side.name: side.seen() for side in _sides(producer, consumer)}
    return Observed(workers=workers, transfers=consumer[1].transfers, reached=reached)


def misheard(engine: Started, peer: SeenPeer) -> Iterator[str]:
    """What the handshake said otherwise than the engine that it is about."""
    for name in ("page_tokens", "pages_per_block"):
        said, is_so = getattr(peer, name), getattr(engine, name)
        if said != is_so:
            yield f"{name} is {said} in the handshake, {is_so} on {PRODUCER}"
    if len(peer.regions) != len(engine.regions):
        yield f"there are {len(peer.regions)} regions in the handshake, {len(engine.regions)} on {PRODUCER}"
        return
    for number, (said, is_so) in enumerate(zip(peer.regions, engine.regions, strict=True)):
        for name in ("address", "bytes", "stride", "pages", "name"):
            theirs, ours = getattr(said, name), getattr(is_so, name)
            if theirs != ours:
                yield f"region {number}: {name} is {theirs} in the handshake, {ours} on {PRODUCER}"


def _sides(producer: tuple[Started, Generated], consumer: tuple[Started, Generated]) -> tuple[Side, Side]:
    return Side(PRODUCER, "producer", *producer), Side(CONSUMER, "consumer", *consumer)
