# SPDX-License-Identifier: Apache-2.0
"""Is there a lawful plan for this pair, and does kvproof model it? (L10, L12, and W13, W14, W16 of the pair.)

``assess`` answers ``Covered``, ``Refused`` (no lawful plan exists, and why) or ``NotCovered`` (kvproof does not model
it yet, and what).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvproof.spec import wellformed as wf
from kvproof.spec.cells import block_listed, live_required
from kvproof.spec.laws.partition import unit_held
from kvproof.spec.vocabulary import Case, Part, Storage, Worker
from kvproof.spec.world import LayerView, WorkerView, first_token_of, resolve


class LayerPair(msgspec.Struct, frozen=True):
    """A consumer layer and its twin on the producer, matched by key."""

    source: LayerView
    target: LayerView


class Covered(msgspec.Struct, frozen=True):
    """A pair with a lawful plan that kvproof models. ``pairs`` in the consumer's layer order."""

    tokens: int | None
    producer: WorkerView
    consumer: WorkerView
    pairs: tuple[LayerPair, ...]

    @property
    def storages(self) -> dict[str, Storage]:
        """The storages of both sides, by storage id."""
        return self.producer.storages | self.consumer.storages


class Refused(msgspec.Struct, frozen=True):
    """No plan for the pair is lawful."""

    reason: str


class NotCovered(msgspec.Struct, frozen=True):
    """kvproof does not model this."""

    reason: str


Scope = Covered | Refused | NotCovered


def assess(case: Case) -> Scope:
    """What can be said of a well-formed case before any byte moves."""
    for reason in _unmodelled(case):
        return NotCovered(reason)
    producer, consumer = (resolve(case, case.workers(role)[0]) for role in ("producer", "consumer"))
    twins = {view.key: view for view in producer.layers}
    for view in consumer.layers:
        if view.key not in twins:
            return Refused(f"layer {view.key} of {consumer.name} is absent on the producer {producer.name}")
    pairs = tuple(LayerPair(twins[view.key], view) for view in consumer.layers)
    tokens = case.request.tokens if case.request is not None else None
    for check, outcome in ((_unlike, Refused), (_short, Refused), (_unequal, NotCovered), (_ragged, NotCovered)):
        for pair in pairs:
            for reason in check(pair, tokens):
                return outcome(reason)
    return Covered(tokens, producer, consumer, pairs)


def _unmodelled(case: Case) -> Iterator[str]:
    """Topologies beyond one producer and one consumer."""
    for role in ("producer", "consumer"):
        count = len(case.workers(role))
        if count != 1:
            yield f"{count} {role} workers: one producer and one consumer are modelled"
    for worker in case.worker:
        yield from _unmodelled_worker(worker)


def _unmodelled_worker(worker: Worker) -> Iterator[str]:
    for name, (_, size) in (("tp", worker.tp), ("pp", worker.pp), ("context", worker.context)):
        if size != 1:
            yield f"worker {worker.name}: {name} of size {size}: only size 1 is modelled"
    for storage in worker.storages:
        if storage.shared is not None:
            yield f"worker {worker.name}, storage {storage.name}: shared storages are not modelled"


def _unlike(pair: LayerPair, _tokens: int | None) -> Iterator[str]:
    """W16 where no plan can be lawful: other kinds, other parts, a needed unit that nobody holds."""
    source, target = pair.source, pair.target
    who = f"layer {target.key}"
    if source.group.kind != target.group.kind:
        yield f"{who}: kinds differ: {source.group.kind} on {source.worker}, {target.group.kind} on {target.worker}"
    if _shapes(source.layer.parts) != _shapes(target.layer.parts):
        theirs, ours = _part_words(source.layer.parts), _part_words(target.layer.parts)
        yield f"{who}: parts differ: {theirs} on {source.worker}, {ours} on {target.worker}"
        return
    for mine, held, needed in zip(target.layer.parts, source.parts, target.parts, strict=False):
        # The units held are a run, so that its two ends speak for all of it.
        for unit in (needed.first, needed.first + needed.count - 1):
            if not unit_held(held, needed, unit):
                yield f"{who}, part {mine.name}: unit {unit}, which {target.worker} needs, is held by nobody"


def _shapes(parts: tuple[Part, ...]) -> list[tuple[str, int, int]]:
    return [(part.name, part.units, part.unit_bytes) for part in parts]


def _part_words(parts: tuple[Part, ...]) -> str:
    words = [f"{part.name} ({part.units} units of {part.unit_bytes} bytes)" for part in parts]
    return ", ".join(words) if words else "opaque"


def _short(pair: LayerPair, tokens: int | None) -> Iterator[str]:
    """W13: the tables of both sides reach every needed token; the live block is listed."""
    if tokens is None:
        return
    if pair.target.by_token:
        first = first_token_of(pair.target, tokens)
        for view in (pair.source, pair.target):
            yield from _unreached(view, first, tokens)
    elif live_required(pair.target.block_table.cached_tokens, tokens):
        for view in (pair.source, pair.target):
            if view.block_table.count == 0:
                yield f"{_table_words(view)}: table too short: it lists no {view.group.kind} block"


def _unreached(view: LayerView, first: int, tokens: int) -> Iterator[str]:
    table, block_tokens = view.block_table, view.page.page_tokens * view.page.pages_per_block
    if not wf.table_reaches(table, block_tokens, first, tokens):
        start, end = table.first * block_tokens, (table.first + table.count) * block_tokens
        yield (
            f"{_table_words(view)}: table too short: it lists tokens {start} to {end} (exclusive), "
            f"tokens {first} to {tokens} are needed"
        )
        return
    if first >= tokens:
        return
    for ordinal in range(first // block_tokens, (tokens - 1) // block_tokens + 1):
        if not block_listed(table, ordinal):
            yield f"{_table_words(view)}: the null block stands at block ordinal {ordinal}, whose tokens are needed"


def _table_words(view: LayerView) -> str:
    return f"worker {view.worker}, table {view.group.name} (layer {view.key})"


def _unequal(pair: LayerPair, _tokens: int | None) -> Iterator[str]:
    """W16 where a plan may well exist, but is not modelled yet."""
    source, target = pair.source, pair.target
    who = f"layer {target.key}"
    checks = [("page_bytes", source.page.page_bytes, target.page.page_bytes)]
    if target.by_token:
        checks.append(("page tokens", source.page.page_tokens, target.page.page_tokens))
        checks.append(("tokens_per_state", source.layer.tokens_per_state, target.layer.tokens_per_state))
    else:
        checks.append(("block_tokens", source.group.block_tokens or 0, target.group.block_tokens or 0))
    for name, theirs, ours in checks:
        if theirs != ours:
            yield f"{who}: {name} differ: {theirs} on {source.worker}, {ours} on {target.worker}"
    for mine, other in zip(target.layer.parts, source.layer.parts, strict=False):
        for field in ("order", "first", "count"):
            theirs, ours = getattr(other, field), getattr(mine, field)
            if theirs != ours:
                yield (
                    f"{who}, part {mine.name}: {field} differ: {theirs} on {source.worker}, {ours} on {target.worker}"
                )


def _ragged(pair: LayerPair, tokens: int | None) -> Iterator[str]:
    """W14: a cached prefix that ends inside a page."""
    view = pair.target
    if tokens is None or not view.by_token:
        return
    cached = view.block_table.cached_tokens
    if not wf.cached_whole_pages(cached, view.page.page_tokens):
        yield f"{_table_words(view)}: cached_tokens = {cached} ends inside a page of {view.page.page_tokens} tokens"
