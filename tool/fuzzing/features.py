# SPDX-License-Identifier: Apache-2.0
"""What a case exercises, by name: to see that random cases reach everything, and which."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from kvproof.spec.place import Place, overlaps
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.vocabulary import TOKEN_KINDS
from kvproof.spec.wellformed import block_end
from kvproof.spec.world import LayerView, WorkerView, first_token_of

FEATURES = (
    "attention", "sliding", "ring", "ssm with parts", "opaque ssm", "replicated-ssm", "opaque attention",
    "attention with parts", "several parts", "several units", "state-major", "sharded attention", "compressed",
    "incomplete last state", "several storages", "several pools", "both memory kinds", "pages per block",
    "unequal pages per block", "unequal groups: more on producer", "unequal groups: more on consumer",
    "layer only on producer", "names differ", "packed rows", "rows of split blocks", "padded pages", "no aliases",
    "exact alias", "alias of unequal length", "ssm over attention", "ring over window", "alias in a row",
    "alias in layers", "several strides in one frame", "equal row offsets", "unequal row offsets", "null block listed",
    "table starts late", "cached prefix", "unequal cached", "full hit", "window starts inside a block", "retained",
    "nothing needed", "extra blocks", "several slots", "page owed", "prompt off the block", "prompt on the block",
    "unequal pools", "no request", "group without layers", "memory kinds differ",
)  # fmt: skip


def features(covered: Covered) -> frozenset[str]:
    """The names of what the case exercises."""
    found = set(_model(covered)) | set(_pairs(covered))
    for worker in (covered.producer, covered.consumer):
        found.update(_worker(worker))
    if covered.tokens is None:
        found.add("no request")
    else:
        found.update(_request(covered, covered.tokens))
    return frozenset(found)


def _model(covered: Covered) -> Iterator[str]:
    for pair in covered.pairs:
        view = pair.target
        if view.group.kind == "ssm":
            yield "opaque ssm" if view.opaque else "ssm with parts"
        else:
            yield view.group.kind
        if view.by_token:
            yield "opaque attention" if view.opaque else "attention with parts"
            if view.layer.tokens_per_state > 1 and not view.opaque:
                yield "compressed"
            if any(part.count < part.units for part in view.layer.parts):
                yield "sharded attention"
        if len(view.layer.parts) > 1:
            yield "several parts"
        if any(part.count > 1 for part in view.layer.parts):
            yield "several units"
        if any(part.order == "state-major" and part.count > 1 for part in view.layer.parts):
            yield "state-major"


def _pairs(covered: Covered) -> Iterator[str]:
    for pair in covered.pairs:
        if pair.source.group.pages_per_block != pair.target.group.pages_per_block:
            yield "unequal pages per block"
        if pair.source.layer.name != pair.target.layer.name:
            yield "names differ"
        if pair.source.storage.memory != pair.target.storage.memory:
            yield "memory kinds differ"
        if all(side.storage.name in worker.block_outer for side, worker in _sides(covered, pair)):
            yield "equal row offsets" if pair.source.page.offset == pair.target.page.offset else "unequal row offsets"
    for first, second in combinations(covered.pairs, 2):
        together = [
            a.group.name == b.group.name for a, b in ((first.source, second.source), (first.target, second.target))
        ]
        if together == [False, True]:
            yield "unequal groups: more on producer"
        if together == [True, False]:
            yield "unequal groups: more on consumer"
    if len(covered.producer.layers) > len(covered.pairs):
        yield "layer only on producer"
    pools = [{pool.blocks for pool in worker.worker.pools} for worker in (covered.producer, covered.consumer)]
    if pools[0] != pools[1]:
        yield "unequal pools"


def _sides(covered: Covered, pair: LayerPair) -> tuple[tuple[LayerView, WorkerView], ...]:
    return (pair.source, covered.producer), (pair.target, covered.consumer)


def _worker(worker: WorkerView) -> Iterator[str]:
    if len({view.storage.name for view in worker.layers}) > 1:
        yield "several storages"
    if len({view.pool.name for view in worker.layers}) > 1:
        yield "several pools"
    if len({view.storage.memory for view in worker.layers}) > 1:
        yield "both memory kinds"
    if {group.name for group in worker.worker.groups} != {view.group.name for view in worker.layers}:
        yield "group without layers"
    for view in worker.layers:
        if view.group.pages_per_block > 1:
            yield "pages per block"
        if view.page.page_bytes < view.page.page_stride:
            yield "padded pages"
        if view.storage.name in worker.block_outer and len({v.page.offset for v in worker.layers}) > 1:
            yield "packed rows"
            if view.group.pages_per_block > 1:
                yield "rows of split blocks"
    aliases = [name for pair in combinations(worker.layers, 2) for name in _aliases(worker, *pair)]
    yield from aliases or ["no aliases"]


def _aliases(worker: WorkerView, first: LayerView, second: LayerView) -> Iterator[str]:
    """What two layers of one frame have to do with each other."""
    one, two = first.page, second.page
    places = [_block(view) for view in (first, second)]
    if first.pool.name != second.pool.name or one.storage != two.storage or not overlaps(*places):
        return
    if one.page_stride != two.page_stride:
        yield "several strides in one frame"
    if first.group.name == second.group.name:
        return
    if (one.offset, one.page_bytes, one.page_stride) == (two.offset, two.page_bytes, two.page_stride):
        yield "exact alias"
    elif one.offset == two.offset and one.page_bytes != two.page_bytes:
        yield "alias of unequal length"
    kinds = {first.group.kind, second.group.kind}
    if kinds & {"ssm", "replicated-ssm"} and kinds & set(TOKEN_KINDS):
        yield "ssm over attention"
    if kinds == {"ring", "sliding"}:
        yield "ring over window"
    yield "alias in a row" if first.storage.name in worker.block_outer else "alias in layers"


def _block(view: LayerView) -> Place:
    """Block 0 of a layer, its pages and what lies between them."""
    return Place(view.page.storage, view.page.offset, block_end(view.page) - view.page.offset)


def _request(covered: Covered, tokens: int) -> Iterator[str]:
    for worker in (covered.producer, covered.consumer):
        nulls = {pool.name: pool.null for pool in worker.worker.pools}
        for group in worker.worker.groups:
            table = worker.worker.tables[group.name]
            if nulls[group.pool] in table.blocks:
                yield "null block listed"
            if table.first:
                yield "table starts late"
            if group.kind not in TOKEN_KINDS and len(table.blocks) > 1:
                yield "several slots"
            if group.kind in TOKEN_KINDS and (table.first + len(table.blocks)) * (group.block_tokens or 1) > tokens + (
                group.block_tokens or 1
            ):
                yield "extra blocks"
    cached = {view.block_table.cached_tokens for view in covered.consumer.layers}
    if cached != {0}:
        yield "cached prefix"
    if len(cached) > 1:
        yield "unequal cached"
    for view in covered.consumer.layers:
        yield from _needs(view, tokens)


def _needs(view: LayerView, tokens: int) -> Iterator[str]:
    if view.block_table.cached_tokens >= tokens:
        yield "full hit"
    if not view.by_token:
        return
    first, block_tokens = first_token_of(view, tokens), view.group.block_tokens or 1
    if first >= tokens:
        yield "nothing needed"
        return
    if first > view.block_table.cached_tokens and first % block_tokens:
        yield "window starts inside a block"
    if view.group.retained_tokens:
        yield "retained"
    if not view.opaque and tokens % view.page.tokens_per_state:
        yield "incomplete last state"
    if -(-tokens // view.page.page_tokens) % view.page.pages_per_block:
        yield "page owed"
    yield "prompt off the block" if tokens % block_tokens else "prompt on the block"
