# SPDX-License-Identifier: Apache-2.0
"""Requests that no engine makes: block tables which vLLM's scheduler does not hand out, and pairs of unlike models."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import seat
from vllm_specs import SSM_KINDS, TOKEN_KINDS


def demoted(reached: seat.Answer, case: SimpleNamespace) -> seat.Answer:
    """The reach of the case's geometry, taken back to synthetic where no engine would get into this request."""
    words = [*unlike(case), *(word for worker in case.workers for word in unlisted(worker, case.tokens))]
    words += [word for worker in case.workers for word in unequally_cached(worker, case.tokens)]
    if not words:
        return reached
    return {"tag": "synthetic", "words": [*words, *reached["words"]], "flags": []}


def unlike(case: SimpleNamespace) -> Iterator[str]:
    """Layers that are of one kind on this side and of another on that: two models."""
    kinds: dict[str, str] = {}
    for worker in case.workers:
        for layer in worker.layers.values():
            kind = worker.groups[layer.group].kind
            if kinds.setdefault(layer.key or layer.name, kind) != kind:
                yield f"layer {layer.key or layer.name} is of two kinds: these are engines of two models"


def unlisted(worker: SimpleNamespace, tokens: int | None) -> Iterator[str]:
    """Tables that do not list what the request's tokens take."""
    for name, table in worker.tables.items() if tokens is not None else ():
        group = worker.groups[name]
        if group.kind not in TOKEN_KINDS:
            if not table.blocks and (table.cached_tokens or 0) < tokens:
                yield f"{worker.name}: group {name} has no block for its state"
            continue
        cached = table.cached_tokens or 0
        first = max(cached, tokens - group.window_tokens + 1 if group.window_tokens else 0)
        ordinals = range(first // group.block_tokens, (tokens - 1) // group.block_tokens + 1) if first < tokens else ()
        held = dict(enumerate(table.blocks, table.first))
        null = worker.pools[group.pool].null
        missing = [ordinal for ordinal in ordinals if held.get(ordinal, null) == null]
        if any(ordinal not in held for ordinal in ordinals) or (missing and null is not None):
            yield f"{worker.name}: the table of group {name} lacks blocks that hold needed tokens"


def unequally_cached(worker: SimpleNamespace, tokens: int | None) -> Iterator[str]:
    """Groups with less of the prompt in the cache than others, though they need it.

    The target's scheduler counts a hit where all groups have it; with states beside, groups may differ. Pools that are
    looked up on their own are left out.
    """
    kinds = {group.kind for group in worker.groups.values()}
    pools = {group.pool for group in worker.groups.values()}
    if tokens is None or len(pools) > 1 or not kinds.isdisjoint(SSM_KINDS):
        return
    held = {name: table for name, table in worker.tables.items() if worker.groups[name].kind in TOKEN_KINDS}
    hit = max((table.cached_tokens or 0 for table in held.values()), default=0)
    for name, table in held.items():
        window = worker.groups[name].window_tokens
        if (table.cached_tokens or 0) < hit and (not window or tokens - window + 1 < hit):
            yield f"{worker.name}: group {name} has less of the prompt cached than others; a hit is one of all groups"
