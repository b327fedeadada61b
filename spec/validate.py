# SPDX-License-Identifier: Apache-2.0
"""Is a decoded case a well-formed world? Ranges the kernels of ``kvproof.spec.wellformed`` over it.

What fails here is bad input. W13 and the rest of W14 and W16 are the pair's affair: see ``kvproof.spec.scope``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from math import comb

from kvproof.spec import wellformed as wf
from kvproof.spec.cells import PageView
from kvproof.spec.decode import BadInput, decode_case
from kvproof.spec.place import disjoint
from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Expect, Group, Layer, Table, Worker
from kvproof.spec.world import LayerView, WorkerView, resolve

NAMES_LIMIT = 1000
"""Most storages, pools, groups or layers a worker may have: well-formedness is checked pair by pair."""

LAYER_PAIRS_LIMIT = 250_000
"""Most pairs of layers that share a storage, over all workers."""

PARTS_LIMIT = 100

PAGES_LIMIT = 300_000
"""Most pages, over all layers of a pool, that the blocks of one worker's tables may have."""

Words = Iterator[str]


def load_case(data: bytes) -> Case:
    """Decode a case and check it. Raises BadInput."""
    case = decode_case(data)
    check_case(case)
    return case


def check_case(case: Case) -> None:
    """Raise BadInput for the first thing in the case that is not well-formed."""
    for words in problems(case):
        raise BadInput(words)


def problems(case: Case) -> Words:
    """Everything ill-formed in the case, in words; later checks only run where earlier ones found nothing."""
    for stage in (_names, _groups, _tables_present, _layers_fit):
        found = False
        for words in stage(case):
            found = True
            yield words
        if found:
            return
    views = {worker.name: resolve(case, worker) for worker in case.worker}
    for view in views.values():
        yield from _frames(view)
        if case.request is not None:
            yield from _tables(view, case.request.tokens)
    yield from _expectations(case, case.expect)


def _names(case: Case) -> Words:
    """Names are unique and can be shown, and what is named exists."""
    yield from _unique([case.name], "case", "the case")
    yield from _unique((worker.name for worker in case.worker), "worker", "the case")
    for worker in case.worker:
        who = f"worker {worker.name}"
        if "/" in worker.name:
            yield f"{who}: a worker's name may not contain '/'"
        for what, items in (("storage", worker.storages), ("pool", worker.pools), ("group", worker.groups)):
            yield from _unique((item.name for item in items), what, who)
        yield from _unique((layer.name for layer in worker.layers), "layer", who)
        yield from _unique((layer.match_key for layer in worker.layers), "layer key", who)
        yield from _references(worker, who)
        for name, (rank, size) in (("tp", worker.tp), ("pp", worker.pp), ("context", worker.context)):
            if rank >= size:
                yield f"{who}: {name} = [{rank}, {size}]: the rank must be below the size"
    pairs = sum(comb(n, 2) for w in case.worker for n in Counter(layer.storage for layer in w.layers).values())
    if pairs > LAYER_PAIRS_LIMIT:
        yield f"the case has {pairs} pairs of layers that share a storage; at most {LAYER_PAIRS_LIMIT} are checked"


def _unique(names: Iterable[str], what: str, where: str) -> Words:
    seen = set()
    for name in names:
        if not name.isprintable():
            yield f"{where}: the {what} name {name!a} has a character that is not printable"
        if name in seen:
            yield f"{where}: two {what}s are named {name!r}"
        seen.add(name)
    if len(seen) > NAMES_LIMIT:
        yield f"{where}: {len(seen)} {what}s; at most {NAMES_LIMIT} are allowed"


def _references(worker: Worker, who: str) -> Words:
    pools, groups, storages = (
        {item.name for item in items} for items in (worker.pools, worker.groups, worker.storages)
    )
    for group in worker.groups:
        yield from _known(group.pool, pools, f"{who}, group {group.name}: pool")
    for layer in worker.layers:
        yield from _known(layer.group, groups, f"{who}, layer {layer.name}: group")
        yield from _known(layer.storage, storages, f"{who}, layer {layer.name}: storage")
    for name in worker.tables:
        yield from _known(name, groups, f"{who}, tables: group")


def _known(name: str, names: set[str], what: str) -> Words:
    if name not in names:
        yield f"{what} {name!r} is not declared; declared: {', '.join(sorted(names))}"


def _groups(case: Case) -> Words:
    """Each group has the fields of its kind (W1, W2); a null block is one of its pool's (W6)."""
    for worker in case.worker:
        for pool in worker.pools:
            if pool.null is not None and not wf.block_in_pool(pool.null, pool.blocks):
                who = f"worker {worker.name}, pool {pool.name}"
                yield f"{who}: null = {pool.null} is not one of its ids, 0 to {pool.blocks - 1} (W6)"
        for group in worker.groups:
            yield from _group(group, f"worker {worker.name}, group {group.name}")


def _group(group: Group, who: str) -> Words:
    needs_tokens = group.kind in (*TOKEN_KINDS, "ring")
    if needs_tokens and group.block_tokens is None:
        yield f"{who}: block_tokens is missing; kind {group.kind} needs it"
    if not needs_tokens and group.block_tokens is not None:
        yield f"{who}: block_tokens = {group.block_tokens} does not apply to kind {group.kind}"
    if group.kind not in TOKEN_KINDS and group.pages_per_block != 1:
        yield f"{who}: pages_per_block = {group.pages_per_block} does not apply to kind {group.kind}"
    if group.kind == "sliding" and group.window_tokens is None:
        yield f"{who}: window_tokens is missing; kind sliding needs it"
    if group.kind != "sliding" and group.window_tokens is not None:
        yield f"{who}: window_tokens = {group.window_tokens} applies to kind sliding only, not {group.kind}"
    if group.kind != "sliding" and group.retained_tokens:
        yield f"{who}: retained_tokens = {group.retained_tokens} applies to kind sliding only, not {group.kind}"
    if group.kind in TOKEN_KINDS and group.block_tokens is not None and group.block_tokens % group.pages_per_block:
        per_block = group.pages_per_block
        yield f"{who}: pages_per_block = {per_block} does not divide block_tokens = {group.block_tokens} (W2)"


def _tables_present(case: Case) -> Words:
    """A request and all tables, or neither; what a table says fits its side and kind."""
    for worker in case.worker:
        who = f"worker {worker.name}"
        if case.request is None and worker.tables:
            yield f"{who}: there are tables but no [request]"
        for group in worker.groups:
            table = worker.tables.get(group.name)
            if case.request is not None and table is None:
                yield f"{who}: the table of group {group.name!r} is missing; with a [request] every group needs one"
            if table is not None:
                if worker.role == "producer" and table.cached_tokens is not None:
                    words = "; the case has no consumer" if not case.workers("consumer") else ""
                    cached = f"cached_tokens = {table.cached_tokens}"
                    yield f"{who}, table {group.name}: {cached} is for consumers; a producer has none{words}"
                yield from _table_form(table, group, f"{who}, table {group.name}")


def _table_form(table: Table, group: Group, who: str) -> Words:
    if group.kind in TOKEN_KINDS:
        if table.live is not None:
            yield f"{who}: live = {table.live} does not apply to kind {group.kind}"
        return
    if table.first:
        yield f"{who}: first = {table.first} does not apply to kind {group.kind}"
    if len(table.blocks) > 1 and table.live is None:
        yield f"{who}: live is missing; a {group.kind} table of {len(table.blocks)} blocks needs it (W19)"
    if table.live is not None and table.blocks and not wf.live_given(table.live, len(table.blocks)):
        yield f"{who}: live = {table.live} is no index into its {len(table.blocks)} blocks (W19)"


def _layers_fit(case: Case) -> Words:
    """Each layer by itself: W2, W3, W4, W5."""
    for worker in case.worker:
        groups = {group.name: group for group in worker.groups}
        for layer in worker.layers:
            found = list(_layer_states(layer, groups[layer.group], f"worker {worker.name}, layer {layer.name}"))
            yield from found
            if found:
                return
    for worker in case.worker:
        for view in resolve(case, worker).layers:
            yield from _layer(view, f"worker {worker.name}, layer {view.layer.name}")


def _layer_states(layer: Layer, group: Group, who: str) -> Words:
    if len(layer.parts) > PARTS_LIMIT:
        yield f"{who}: {len(layer.parts)} parts; at most {PARTS_LIMIT} are allowed"
    yield from _unique((part.name for part in layer.parts), "part", who)
    if group.kind not in TOKEN_KINDS:
        if layer.tokens_per_state != 1:
            yield f"{who}: tokens_per_state = {layer.tokens_per_state} does not apply to kind {group.kind}"
        return
    if not wf.tokens_divide(group.block_tokens, group.pages_per_block, layer.tokens_per_state):
        page_tokens = (group.block_tokens or 0) // group.pages_per_block
        yield f"{who}: tokens_per_state = {layer.tokens_per_state} does not divide the page's {page_tokens} tokens (W2)"


def _layer(view: LayerView, who: str) -> Words:
    page, layer = view.page, view.layer
    if not wf.page_in_stride(page):
        yield f"{who}: page_bytes = {page.page_bytes} exceeds page_stride = {page.page_stride} (W3)"
    for part, held in zip(layer.parts, view.parts, strict=False):  # an opaque page is one view of no part
        if not wf.units_held(held, part.units):
            yield f"{who}, part {part.name}: units {part.first} to {part.first + part.count - 1} of {part.units} (W4)"
        if not wf.part_in_page(page, held):
            end = held.start + wf.part_bytes(page, held)
            yield f"{who}, part {part.name}: ends at byte {end} of a page of page_bytes = {page.page_bytes} (W4)"
    if not wf.view_in_storage(page, view.storage.bytes):
        end = page.offset + (page.pages - 1) * page.page_stride + page.page_bytes
        yield (
            f"{who}: page {page.pages - 1} ends at byte {end} of storage {view.storage.name!r}, "
            f"which has {view.storage.bytes} (W5)"
        )


def _frames(worker: WorkerView) -> Words:
    """Layers that share a storage: W9, W10, W11."""
    by_storage: dict[str, list[LayerView]] = {}
    for view in worker.layers:
        by_storage.setdefault(view.storage.name, []).append(view)
    for storage, views in by_storage.items():
        for first, second in combinations(views, 2):
            yield from _frame(first, second, f"worker {worker.name}, storage {storage}")


def _frame(first: LayerView, second: LayerView, who: str) -> Words:
    pair = f"{who}: layers {first.layer.name} and {second.layer.name}"
    if not wf.framed(first.page, second.page, first.pool.name == second.pool.name):
        if first.pool.name != second.pool.name:
            yield f"{pair} share bytes but not the pool (W11)"
        else:
            yield f"{pair} interleave without one frame: distinct blocks would share bytes (W9)"
    elif first.group.name == second.group.name and _share_pages(first.page, second.page):
        yield f"{pair} of group {first.group.name!r} have pages that share bytes (W10)"


def _share_pages(first: PageView, second: PageView) -> bool:
    apart = disjoint(wf.view_range(first), wf.view_range(second))
    return not apart and not wf.layers_disjoint(first, second)


def _tables(worker: WorkerView, tokens: int) -> Words:
    """Tables against pools and the request: W6, W7, W8, W14, W19, and the limit on pages."""
    pools = {pool.name: pool for pool in worker.worker.pools}
    owner: dict[tuple[str, int], str] = {}
    pages = 0
    for group in worker.worker.groups:
        who = f"worker {worker.name}, table {group.name}"
        table, pool = worker.worker.tables[group.name], pools[group.pool]
        for block in table.blocks:
            if not wf.block_in_pool(block, pool.blocks):
                yield f"{who}: block {block} is not in pool {pool.name!r}, whose ids are 0 to {pool.blocks - 1} (W6)"
            elif block != pool.null:
                yield from _owned(owner, (pool.name, block), group.name, who)
        yield from _cached(table, group, tokens, who)
        pages += len(table.blocks) * sum(view.page.pages_per_block for view in worker.layers_of_pool(pool.name))
        live = table.live or 0
        if group.kind not in TOKEN_KINDS and table.blocks and table.blocks[live] == pool.null:
            yield f"{who}: the live block is {pool.null}, the pool's null block (W19)"
    if pages > PAGES_LIMIT:
        yield f"worker {worker.name}: its tables list {pages} pages of layers; at most {PAGES_LIMIT} are checked"


def _owned(owner: dict[tuple[str, int], str], block: tuple[str, int], group: str, who: str) -> Words:
    before = owner.get(block)
    if before is None:
        owner[block] = group
    elif before == group:
        yield f"{who}: block {block[1]} is listed twice (W7)"
    else:
        yield f"{who}: block {block[1]} of pool {block[0]!r} is group {before!r}'s already (W8)"


def _cached(table: Table, group: Group, tokens: int, who: str) -> Words:
    if group.kind in TOKEN_KINDS and not wf.cached_in_prompt(table.cached_tokens or 0, tokens):
        yield f"{who}: cached_tokens = {table.cached_tokens} exceeds the request's {tokens} tokens (W14)"


def _expectations(case: Case, expect: Expect) -> Words:
    """What ``expect`` names exists."""
    workers = {worker.name: worker for worker in case.worker}
    layers = {layer.name for worker in case.worker for layer in worker.layers}
    for field in ("pages", "zeroed"):
        for layer, by_worker in getattr(expect, field).items():
            yield from _known(layer, layers, f"expect.{field}: layer")
            for worker in by_worker:
                yield from _known(worker, set(workers), f"expect.{field}.{layer}: worker")
    for field in ("regions", "ids"):
        for worker in getattr(expect, field):
            yield from _known(worker, set(workers), f"expect.{field}: worker")
    groups = {f"{w.name}.{g.name}" for w in case.worker for g in w.groups}
    for rule, ratios in expect.ratio.items():
        for group in ratios:
            yield from _known(group, groups, f"expect.ratio.{rule}: worker.group")
