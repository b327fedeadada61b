# SPDX-License-Identifier: Apache-2.0
"""Cases in scope, with one condition violated: what is then refused, or not covered."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kvproof.fuzzing.simplify import page_tokens, with_layers, with_table, with_worker
from kvproof.fuzzing.source import Source
from kvproof.spec.scope import Covered, LayerPair
from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Group, Layer, Part, Verdict, Worker
from kvproof.spec.world import LayerView, first_token_of

Violation = Callable[[Source, Case, Covered], Case | None]
"""The case with the condition violated, well-formed still; None where this case has nothing to violate."""


def violate(source: Source, case: Case, covered: Covered) -> tuple[str, Case, Verdict]:
    """A violation that applies to the case, the case violated, and the verdict it must get."""
    for name in source.shuffled(list(VIOLATIONS)):
        expected, change = VIOLATIONS[name]
        changed = change(source, case, covered)
        if changed is not None:
            return name, changed, expected
    raise AssertionError("every case has a layer that can be absent")


def _for_twin(case: Case, covered: Covered, pair: LayerPair, change: Callable[[Layer], Layer | None]) -> Case:
    """The case with the producer's layer of a pair changed."""
    return with_layers(case, lambda x: change(x) if x.match_key == pair.target.key else x, covered.producer.name)


def layer_absent(source: Source, case: Case, covered: Covered) -> Case | None:
    """The producer knows a layer by another name."""
    pair = source.choice(covered.pairs)
    return _for_twin(case, covered, pair, lambda layer: replace(layer, key="somebody else's"))


def kinds_differ(source: Source, case: Case, covered: Covered) -> Case | None:
    """Attention on one side, sliding on the other."""
    views = [pair.source for pair in covered.pairs if pair.source.by_token]
    if not views:
        return None
    group = source.choice(views).group
    if group.kind == "attention":
        changed = replace(group, kind="sliding", window_tokens=3)
    else:
        changed = replace(group, kind="attention", window_tokens=None, retained_tokens=0)
    return with_worker(case, _with_group(covered.producer.worker, changed))


def _with_group(worker: Worker, group: Group) -> Worker:
    return replace(worker, groups=tuple(group if old.name == group.name else old for old in worker.groups))


def _with_parts(source: Source, case: Case, covered: Covered, change: Callable[[Part], Part | None]) -> Case | None:
    """One part of one layer changed on the producer, where ``change`` has an answer."""
    options = [
        (pair, index, new)
        for pair in covered.pairs
        for index, part in enumerate(pair.source.layer.parts)
        if (new := change(part)) is not None
    ]
    if not options:
        return None
    pair, index, new = source.choice(options)
    parts = pair.source.layer.parts
    return _for_twin(case, covered, pair, lambda x: replace(x, parts=(*parts[:index], new, *parts[index + 1 :])))


def part_names_differ(source: Source, case: Case, covered: Covered) -> Case | None:
    """A part has another name."""
    return _with_parts(source, case, covered, lambda part: replace(part, name="other"))


def units_differ(source: Source, case: Case, covered: Covered) -> Case | None:
    """A part has more units in the whole model."""
    return _with_parts(source, case, covered, lambda part: replace(part, units=part.units + 1))


def unit_bytes_differ(source: Source, case: Case, covered: Covered) -> Case | None:
    """A unit is shorter."""
    return _with_parts(
        source,
        case,
        covered,
        lambda part: replace(part, unit_bytes=part.unit_bytes - 1) if part.unit_bytes > 1 else None,
    )


def opaque_against_parts(source: Source, case: Case, covered: Covered) -> Case | None:
    """The producer's page is opaque."""
    pairs = [pair for pair in covered.pairs if pair.source.layer.parts]
    return _for_twin(case, covered, source.choice(pairs), lambda layer: replace(layer, parts=())) if pairs else None


def unit_missing(source: Source, case: Case, covered: Covered) -> Case | None:
    """The producer lacks the last unit, or the first."""

    def fewer(part: Part) -> Part | None:
        if part.count == 1:
            return None
        return replace(part, count=part.count - 1, first=part.first + source.integer(0, 1))

    return _with_parts(source, case, covered, fewer)


def _needing(covered: Covered, side: str) -> list[tuple[LayerView, int]]:
    """The views of one side whose tables must reach needed tokens, and the first of those."""
    if covered.tokens is None:
        return []
    return [
        (getattr(pair, side), first)
        for pair in covered.pairs
        if pair.target.by_token and (first := first_token_of(pair.target, covered.tokens)) < covered.tokens
    ]


def _side(source: Source) -> str:
    return source.choice(["source", "target"])


def _worker_of(covered: Covered, view: LayerView) -> Worker:
    return next(w.worker for w in (covered.producer, covered.consumer) if w.name == view.worker)


def table_short(source: Source, case: Case, covered: Covered) -> Case | None:
    """A table ends before the prompt does."""
    views = _needing(covered, _side(source))
    if not views or covered.tokens is None:
        return None
    view, _ = source.choice(views)
    worker = _worker_of(covered, view)
    table = worker.tables[view.group.name]
    last = (covered.tokens - 1) // (view.group.block_tokens or 1)
    return with_table(case, worker, view.group.name, replace(table, blocks=table.blocks[: last - table.first]))


def table_late(source: Source, case: Case, covered: Covered) -> Case | None:
    """A table starts after the first needed token."""
    views = _needing(covered, _side(source))
    if not views:
        return None
    view, first = source.choice(views)
    worker = _worker_of(covered, view)
    table = worker.tables[view.group.name]
    late = first // (view.group.block_tokens or 1) + 1 - table.first
    changed = replace(table, first=table.first + late, blocks=table.blocks[late:])
    return with_table(case, worker, view.group.name, changed)


def null_needed(source: Source, case: Case, covered: Covered) -> Case | None:
    """A needed token lies in the null block."""
    views = [(view, first) for view, first in _needing(covered, _side(source)) if view.pool.null is not None]
    if not views:
        return None
    view, first = source.choice(views)
    worker = _worker_of(covered, view)
    table, null = worker.tables[view.group.name], view.pool.null
    index = first // (view.group.block_tokens or 1) - table.first
    blocks = tuple(null if number == index and null is not None else b for number, b in enumerate(table.blocks))
    return with_table(case, worker, view.group.name, replace(table, blocks=blocks))


def state_missing(source: Source, case: Case, covered: Covered) -> Case | None:
    """No block holds the state."""
    if covered.tokens is None:
        return None
    pairs = [
        pair
        for pair in covered.pairs
        if not pair.target.by_token and pair.target.block_table.cached_tokens < covered.tokens
    ]
    if not pairs:
        return None
    view: LayerView = getattr(source.choice(pairs), _side(source))
    worker = _worker_of(covered, view)
    table = replace(worker.tables[view.group.name], blocks=(), live=None)
    return with_table(case, worker, view.group.name, table)


def page_bytes_differ(source: Source, case: Case, covered: Covered) -> Case | None:
    """The producer's page is a byte shorter."""
    pairs = [pair for pair in covered.pairs if pair.source.layer.page_bytes > _least(pair.source)]
    if not pairs:
        return None
    pair = source.choice(pairs)
    return _for_twin(case, covered, pair, lambda layer: replace(layer, page_bytes=layer.page_bytes - 1))


def _least(view: LayerView) -> int:
    """The shortest page that the view may have."""
    if not view.layer.parts:
        return 1
    return max(int(part.start + part.count * view.page.states_per_page * part.unit_bytes) for part in view.parts)


def orders_differ(source: Source, case: Case, covered: Covered) -> Case | None:
    """A part lies in the other order."""
    other = {"unit-major": "state-major", "state-major": "unit-major"}
    return _with_parts(source, case, covered, lambda part: replace(part, order=other[part.order]))


def states_differ(source: Source, case: Case, covered: Covered) -> Case | None:
    """The producer stores fewer states a page."""
    pairs = [
        p for p in covered.pairs if p.source.by_token and p.source.page.page_tokens > p.source.layer.tokens_per_state
    ]
    if not pairs:
        return None
    pair = source.choice(pairs)
    return _for_twin(case, covered, pair, lambda layer: replace(layer, tokens_per_state=pair.source.page.page_tokens))


def cached_inside_page(source: Source, case: Case, covered: Covered) -> Case | None:
    """The cached prefix of a group ends inside a page."""
    tokens, worker = covered.tokens or 0, covered.consumer.worker
    options = [
        view.group
        for view in covered.consumer.layers
        if view.group.kind in TOKEN_KINDS
        and page_tokens(view.group) > 1
        and tokens > 0
        and (worker.tables[view.group.name].cached_tokens or 0) < tokens
    ]
    if not options:
        return None
    group = source.choice(options)
    table = worker.tables[group.name]
    return with_table(case, worker, group.name, replace(table, cached_tokens=(table.cached_tokens or 0) + 1))


def several_ranks(source: Source, case: Case, covered: Covered) -> Case | None:
    """One of the workers is one rank of two."""
    worker = source.choice([covered.producer.worker, covered.consumer.worker])
    field = source.choice(["tp", "pp", "context"])
    return with_worker(case, replace(worker, **{field: (source.integer(0, 1), 2)}))


def shared_storage(source: Source, case: Case, covered: Covered) -> Case | None:
    """A storage is seen by several workers."""
    worker = source.choice([covered.producer.worker, covered.consumer.worker])
    first, *others = worker.storages
    return with_worker(case, replace(worker, storages=(replace(first, shared="host"), *others)))


def several_workers(source: Source, case: Case, covered: Covered) -> Case | None:
    """Two workers of one role."""
    worker = source.choice([covered.producer.worker, covered.consumer.worker])
    return replace(case, worker=(*case.worker, replace(worker, name="another")))


VIOLATIONS: dict[str, tuple[Verdict, Violation]] = {
    "layer absent": ("refused", layer_absent),
    "kinds differ": ("refused", kinds_differ),
    "part names differ": ("refused", part_names_differ),
    "units differ": ("refused", units_differ),
    "unit bytes differ": ("refused", unit_bytes_differ),
    "opaque against parts": ("refused", opaque_against_parts),
    "unit missing": ("refused", unit_missing),
    "table short": ("refused", table_short),
    "table late": ("refused", table_late),
    "null needed": ("refused", null_needed),
    "state missing": ("refused", state_missing),
    "page bytes differ": ("not-covered", page_bytes_differ),
    "orders differ": ("not-covered", orders_differ),
    "states differ": ("not-covered", states_differ),
    "cached inside a page": ("not-covered", cached_inside_page),
    "several ranks": ("not-covered", several_ranks),
    "shared storage": ("not-covered", shared_storage),
    "several workers": ("not-covered", several_workers),
}
