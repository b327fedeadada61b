# SPDX-License-Identifier: Apache-2.0
"""Findings in words: which tokens of which layer, on which page, hold what instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvproof.spec.judge.runs import Run, block_id, listed_ordinals, page_id
from kvproof.spec.judge.verdict import Witness
from kvproof.spec.place import Place
from kvproof.spec.scope import Covered
from kvproof.spec.world import LayerView, WorkerView


def at(span: Place) -> Witness:
    """A witness that is no cell's byte."""
    worker, storage = span.storage.split("/", 1)
    return Witness(worker, storage, span.offset, span.bytes)


def in_run(run: Run, hit: Place) -> Witness:
    """A witness among the cells of a run."""
    view, plain = run.pair.target, at(hit)
    return Witness(
        worker=plain.worker,
        storage=plain.storage,
        byte=plain.byte,
        bytes=plain.bytes,
        layer=view.layer.name,
        page=page_id(view, run.ordinal),
        tokens=_tokens(run, hit),
        part=None if view.opaque else view.layer.parts[run.part].name,
        units=None if view.opaque else _cells(run, hit)[0],
    )


def _cells(run: Run, hit: Place) -> tuple[tuple[int, int], tuple[int, int]]:
    """Half-open ranges of units and states that the hit touches."""
    part = run.pair.target.parts[run.part]
    first = (hit.offset - run.target.offset) // part.unit_bytes
    last = (hit.offset + hit.bytes - 1 - run.target.offset) // part.unit_bytes
    units, states = run.units[1] - run.units[0], run.states[1] - run.states[0]
    if part.order == "unit-major":
        outer, inner = _span(first, last, states)
        return _shift(outer, run.units[0]), _shift(inner, run.states[0])
    outer, inner = _span(first, last, units)
    return _shift(inner, run.units[0]), _shift(outer, run.states[0])


def _span(first: int, last: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows, and columns within them, that positions ``first`` to ``last`` of a table of ``width`` columns touch."""
    rows = (first // width, last // width + 1)
    columns = (first % width, last % width + 1) if rows[1] - rows[0] == 1 else (0, width)
    return rows, columns


def _shift(range_: tuple[int, int], by: int) -> tuple[int, int]:
    return range_[0] + by, range_[1] + by


def _tokens(run: Run, hit: Place) -> tuple[int, int] | None:
    view = run.pair.target
    if not view.by_token:
        return None
    start, end = _cells(run, hit)[1]
    return start * view.page.tokens_per_state, end * view.page.tokens_per_state


def _where(run: Run) -> str:
    view = run.pair.target
    return f"{view.worker}, {view.layer.name}, page {page_id(view, run.ordinal)}"


def _what(run: Run, hit: Place) -> str:
    """The cells the hit touches: tokens, or the state of a block; and the part and units where there are any."""
    view, tokens = run.pair.target, _tokens(run, hit)
    text = token_words(tokens) if tokens is not None else f"the {view.group.kind} state"
    if view.opaque:
        return text
    part, (first, end) = view.layer.parts[run.part], _cells(run, hit)[0]
    if part.units == 1:
        return f"{text} of part {part.name}"
    return f"{text} of part {part.name}, unit{'s' if end - first > 1 else ''} {_range(first, end)}"


def token_words(tokens: tuple[int, int]) -> str:
    """A half-open token range as a reader counts: ``tokens 0–63``."""
    return f"token{'s' if tokens[1] - tokens[0] > 1 else ''} {_range(*tokens)}"


def _range(start: int, end: int) -> str:
    return str(start) if end - start == 1 else f"{start}–{end - 1}"


def past_words(tokens: tuple[int, int]) -> str:
    """``tokens 192–255 lie past``, in words that fit their number."""
    return f"{token_words(tokens)} {'lie' if tokens[1] - tokens[0] > 1 else 'lies'} past"


def _verb(run: Run, hit: Place, one: str, many: str) -> str:
    """The verb for what ``_what`` names: several tokens, or one token or state."""
    tokens = _tokens(run, hit)
    return many if tokens is not None and tokens[1] - tokens[0] > 1 else one


def _bytes_of(run: Run, hit: Place) -> str:
    """How much of the run's own bytes, where it is not all."""
    if hit.bytes == run.target.bytes:
        return ""
    start = hit.offset - run.target.offset
    return f" (bytes {_range(start, start + hit.bytes)} of {run.target.bytes})"


def more(runs: Sequence[Run]) -> str:
    """How much else is hit in the same way as the first of these runs."""
    first = runs[0]
    pages = {(run.pair.target.layer.name, run.ordinal) for run in runs}
    layers = {run.pair.target.layer.name for run in runs}
    others = len(pages - {(first.pair.target.layer.name, first.ordinal)})
    if not others:
        return ""
    return f"; and {_count(others, 'more page')}, {_count(len(layers), 'layer')} in all"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def never_written(run: Run, gap: Place) -> str:
    """L1."""
    return f"{_where(run)}: {_what(run, gap)}{_bytes_of(run, gap)} {_verb(run, gap, 'is', 'are')} never written"


def misaligned(covered: Covered, run: Run, hit: Place, origin: Place) -> str:
    """L2."""
    verb = _verb(run, hit, "comes", "come")
    return f"{_where(run)}: {_what(run, hit)}{_bytes_of(run, hit)} {verb} from {holder(covered, origin)}"


def two_values(run: Run, clash: Place) -> str:
    """L5."""
    verb = _verb(run, clash, "gets", "get")
    return f"{_where(run)}: {_what(run, clash)}{_bytes_of(run, clash)} {verb} two different values"


def zeroed_cell(run: Run, hit: Place) -> str:
    """L9a."""
    verb = _verb(run, hit, "is", "are")
    return f"{_where(run)}: {_what(run, hit)}{_bytes_of(run, hit)}, {run.standing}, {verb} zeroed"


def not_zeroed(view: LayerView, ordinal: int, tokens: int) -> str:
    """L9b."""
    start = ordinal * view.page.page_tokens
    held = past_words((start, start + view.page.page_tokens))
    return (
        f"{view.worker}, {view.layer.name}, page {page_id(view, ordinal)}: "
        f"{held} the prompt's {tokens} tokens, but the page does not end zero"
    )


def out_of_bounds(span: Place, storage_bytes: int) -> str:
    """L4."""
    where = f"bytes {_range(span.offset, span.offset + span.bytes)} of {span.storage}"
    return f"{where} lie outside its {_count(storage_bytes, 'byte')}"


def not_own(covered: Covered, outside: Place, verb: str) -> str:
    """L3, and L9a for foreign bytes."""
    span = f"bytes {_range(outside.offset, outside.offset + outside.bytes)} of {outside.storage}"
    return f"{span} are {verb}, but are no uncached block's of this request: {holder(covered, outside)}"


def wasteful(group: str, moved: int, useful: int, twice: int, empty: int) -> str:
    """L11."""
    parts = ((twice, "moved twice"), (empty, "into empty pages"))
    split = ", ".join(f"{_count(count, 'byte')} {what}" for count, what in parts if count)
    verb, ones = "is" if moved == 1 else "are", "one" if useful == 1 else "ones"
    return f"{group}: {_count(moved, 'byte')} {verb} moved for {useful} useful {ones} ({split})"


def holder(covered: Covered, place: Place) -> str:
    """What the request keeps at the place's first byte: a page of one of its blocks, somebody else's, or padding."""
    worker = next((w for w in (covered.producer, covered.consumer) if place.storage.startswith(f"{w.name}/")), None)
    if worker is None:
        return str(place.storage)
    candidates = list(_pages_at(worker, place))
    for view, page in candidates:
        ordinal = _ordinal_of(view, page)
        if ordinal is not None:
            where = f"{worker.name} page {page}{_layer_words(candidates, view)}"
            return f"{where}, {_held(view, ordinal, covered.tokens or 0)}"
    for view, page in candidates:
        return f"{worker.name} page {page} of {view.layer.name}, which is no page of this request"
    return f"byte {place.offset} of {place.storage}, which is no layer's page"


def _layer_words(candidates: list[tuple[LayerView, int]], view: LayerView) -> str:
    return f" of {view.layer.name}" if len(candidates) > 1 else ""


def _pages_at(worker: WorkerView, place: Place) -> Iterator[tuple[LayerView, int]]:
    """The views that have a page over the place's first byte."""
    for view in worker.layers:
        page, within = divmod(place.offset - view.page.offset, view.page.page_stride)
        if view.page.storage == place.storage and 0 <= page < view.page.pages and within < view.page.page_bytes:
            yield view, page


def _ordinal_of(view: LayerView, page: int) -> int | None:
    for ordinal in listed_ordinals(view):
        if page_id(view, ordinal) == page:
            return ordinal
    return None


def _held(view: LayerView, ordinal: int, tokens: int) -> str:
    if not view.by_token:
        return f"which holds the {view.group.kind} state of block {block_id(view, ordinal)}"
    start = ordinal * view.page.page_tokens
    if start < tokens:
        return f"which holds {token_words((start, start + view.page.page_tokens))}"
    return f"which is unused: {past_words((start, start + view.page.page_tokens))} the prompt's {tokens}"
