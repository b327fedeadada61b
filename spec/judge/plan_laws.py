# SPDX-License-Identifier: Apache-2.0
"""The laws of a plan, run by run: L1–L5, L9 and L11.

Copies and zeroes meet runs of cells in sweeps, and sets of bytes are unions of spans: what the kernels say of one cell,
copy or byte is said here of many at once. Tests hold the two together by enumeration.
Of each law the first breach is reported; ``corrupt`` collects all required bytes that end wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from kvproof.spec.cells import page_place
from kvproof.spec.judge import extents, words
from kvproof.spec.judge.runs import Run, cell_runs, page_id
from kvproof.spec.judge.spans import PAIRS_LIMIT, BudgetExceeded, Spans, overlapping
from kvproof.spec.judge.verdict import Finding
from kvproof.spec.laws.alignment import aligned, untouched
from kvproof.spec.laws.bounds import span_in_storage
from kvproof.spec.laws.zeroing import zero_spares
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import Covered
from kvproof.spec.world import LayerView


class PlanAnswer(msgspec.Struct, frozen=True):
    """Findings, economy by group, and the required spans that end wrong, or that depend on which copy is last."""

    findings: tuple[Finding, ...]
    ratios: dict[str, tuple[int, int]]
    corrupt: tuple[Place, ...]
    contested: tuple[Place, ...]


def judge_spans(covered: Covered, plan: Plan) -> PlanAnswer:
    """Judge the plan of a case with a request."""
    runs = cell_runs(covered)
    required = [run for run in runs if run.standing == "required"]
    targets = Spans(copy.target for copy in plan.copies)
    zeroes = Spans(plan.zeroes)
    own = Spans(extents.allowed(covered))
    corrupt: list[Place] = []
    contested: list[Place] = []
    economy, ratios = _economy(covered, plan, targets)
    findings = chain(
        _bounds(covered, plan),
        _coverage(required, targets, corrupt),
        _alignment(covered, runs, plan, corrupt),
        _confinement(covered, plan, own),
        _single_writer(required, plan, zeroes, contested),
        _zeroing(covered, runs, plan, own, corrupt),
        _owed(covered, zeroes),
        economy,
    )
    return PlanAnswer(tuple(findings), ratios, tuple(Spans(corrupt)), tuple(Spans(contested)))


def required_spans(covered: Covered) -> list[tuple[Place, Place]]:
    """Source and target place of every run of required cells."""
    runs = (run for run in cell_runs(covered) if run.standing == "required")
    return [(run.source, run.target) for run in runs if run.source is not None]


def owed_spans(covered: Covered) -> list[Place]:
    """The pages that must end zero."""
    return [page_place(view.page, page_id(view, ordinal)) for view, ordinal in _owed_pages(covered)]


def _owed_pages(covered: Covered) -> Iterator[tuple[LayerView, int]]:
    assert covered.tokens is not None
    for view in covered.consumer.layers:
        for ordinal in extents.owed_pages(view, covered.tokens):
            yield view, ordinal


def _bounds(covered: Covered, plan: Plan) -> Iterator[Finding]:
    """L4."""
    sizes = {name: storage.bytes for name, storage in covered.storages.items()}
    copied = (span for copy in plan.copies for span in (copy.source, copy.target))
    for span in chain(copied, plan.zeroes):
        if not span_in_storage(span, sizes[span.storage]):
            yield Finding("bounds", "plan", words.out_of_bounds(span, sizes[span.storage]), True, words.at(span))
            return


def _coverage(required: list[Run], targets: Spans, corrupt: list[Place]) -> Iterator[Finding]:
    """L1: what the union of all targets leaves out of the required runs."""
    gaps = [(run, gap) for run in required for gap in targets.without(run.target)]
    if gaps:
        corrupt.extend(gap for _, gap in gaps)
        run, gap = gaps[0]
        text = words.never_written(run, gap) + words.more([run for run, _ in gaps])
        yield Finding("coverage", "plan", text, True, words.in_run(run, gap))


def _alignment(covered: Covered, runs: list[Run], plan: Plan, corrupt: list[Place]) -> Iterator[Finding]:
    """L2: each copy against each run of required or cached cells that it touches."""
    wrong: list[tuple[int, int]] = []
    for run_index, copy_index in overlapping([run.target for run in runs], [copy.target for copy in plan.copies]):
        copy, run = plan.copies[copy_index], runs[run_index]
        lawful = aligned(copy, run.source, run.target) if run.source is not None else untouched(copy, run.target)
        if not lawful:
            wrong.append((run_index, copy_index))
    if wrong:
        wrong.sort()
        hits = [(runs[run], plan.copies[copy]) for run, copy in wrong]
        corrupt.extend(_common(copy.target, run.target) for run, copy in hits if run.standing == "required")
        run, copy = hits[0]
        hit = _common(copy.target, run.target)
        origin = Place(copy.source.storage, copy.source.offset + hit.offset - copy.target.offset, hit.bytes)
        text = words.misaligned(covered, run, hit, origin) + words.more([run for run, _ in hits])
        yield Finding("alignment", "plan", text, True, words.in_run(run, hit))


def _confinement(covered: Covered, plan: Plan, own: Spans) -> Iterator[Finding]:
    """L3: what is written outside the request's own, uncached blocks."""
    for place, verb in _writes(plan):
        for outside in own.without(place):
            text = words.not_own(covered, outside, verb)
            yield Finding("confinement", "plan", text, True, words.at(outside))
            return


def _writes(plan: Plan) -> Iterator[tuple[Place, str]]:
    for copy in plan.copies:
        yield copy.target, "copied to"
    for zero in plan.zeroes:
        yield zero, "zeroed"


def _single_writer(required: list[Run], plan: Plan, zeroes: Spans, contested: list[Place]) -> Iterator[Finding]:
    """L5: copies of different sources, or a copy and a zero, on one required byte."""
    hits: dict[int, list[Copy]] = {}
    places = [run.target for run in required]
    for run_index, copy_index in overlapping(places, [copy.target for copy in plan.copies]):
        hits.setdefault(run_index, []).append(plan.copies[copy_index])
    clashes = [(required[i], clash) for i in sorted(hits) for clash in _clashes(places[i], hits[i], zeroes)]
    if clashes:
        contested.extend(clash for _, clash in clashes)
        run, clash = clashes[0]
        text = words.two_values(run, clash) + words.more([run for run, _ in clashes])
        yield Finding("single-writer", "plan", text, True, words.in_run(run, clash))


def _clashes(target: Place, copies: list[Copy], zeroes: Spans) -> Iterator[Place]:
    """The bytes of ``target`` that two of the copies, or a copy and a zero, give different values."""
    reach: dict[tuple[str, int], int] = {}
    looked = 0
    for copy in sorted(copies, key=lambda copy: copy.target.offset):
        hit = _common(copy.target, target)
        yield from zeroes.within(hit)
        value = (copy.source.storage, copy.source.offset - copy.target.offset)
        reach = {other: end for other, end in reach.items() if end > hit.offset}
        looked += len(reach)
        if looked > PAIRS_LIMIT:
            raise BudgetExceeded(f"more than {PAIRS_LIMIT} pairs of copies overlap")
        for other, end in reach.items():
            if other != value:
                yield Place(target.storage, hit.offset, min(end, hit.offset + hit.bytes) - hit.offset)
        reach[value] = max(reach.get(value, 0), hit.offset + hit.bytes)


def _zeroing(covered: Covered, runs: list[Run], plan: Plan, own: Spans, corrupt: list[Place]) -> Iterator[Finding]:
    """L9a: a zero on a required or cached cell, or on a foreign byte."""
    pairs = overlapping([run.target for run in runs], plan.zeroes)
    struck = sorted((i, j) for i, j in pairs if not zero_spares(plan.zeroes[j], runs[i].target))
    hits = [(runs[i], _common(plan.zeroes[j], runs[i].target)) for i, j in struck]
    if hits:
        corrupt.extend(hit for run, hit in hits if run.standing == "required")
        run, hit = hits[0]
        text = words.zeroed_cell(run, hit) + words.more([run for run, _ in hits])
        yield Finding("zeroing", "plan", text, True, words.in_run(run, hit))
        return
    for outside in (piece for zero in plan.zeroes for piece in own.without(zero)):
        yield Finding("zeroing", "plan", words.not_own(covered, outside, "zeroed"), True, words.at(outside))
        return


def _owed(covered: Covered, zeroes: Spans) -> Iterator[Finding]:
    """L9b: a page past the prompt that does not end zero."""
    for view, ordinal in _owed_pages(covered):
        for left in zeroes.without(page_place(view.page, page_id(view, ordinal))):
            text = words.not_zeroed(view, ordinal, covered.tokens or 0)
            yield Finding("zeroing", "plan", text, False, words.at(left))
            return


def _economy(covered: Covered, plan: Plan, targets: Spans) -> tuple[list[Finding], dict[str, tuple[int, int]]]:
    """L11: for each consumer group, bytes moved into its blocks against the useful ones among them."""
    findings: list[Finding] = []
    ratios: dict[str, tuple[int, int]] = {}
    for group in covered.consumer.worker.groups:
        own, useful = Spans(extents.group_extents(covered, group)), Spans(extents.useful(covered, group))
        moved = _bytes_within(own, (copy.target for copy in plan.copies))
        into_useful = _bytes_within(useful, (copy.target for copy in plan.copies))
        distinct = _bytes_within(useful, targets)
        if moved == 0:
            continue
        name = f"{covered.consumer.name}.{group.name}"
        ratios[name] = (moved, distinct)
        if moved > distinct:
            text = words.wasteful(name, moved, distinct, into_useful - distinct, moved - into_useful)
            findings.append(Finding("economy", "plan", text))
    return findings, ratios


def _bytes_within(spans: Spans, places: Iterable[Place]) -> int:
    return sum(piece.bytes for place in places for piece in spans.within(place))


def _common(first: Place, second: Place) -> Place:
    """The bytes two overlapping places share."""
    start = max(first.offset, second.offset)
    return Place(first.storage, start, min(first.offset + first.bytes, second.offset + second.bytes) - start)
