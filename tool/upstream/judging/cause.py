# SPDX-License-Identifier: Apache-2.0
"""Which known faulty rule explains what a target did; and for the rest, words by which causes are told apart.

Several findings of one cause are one finding; but a cause that cannot be told must not swallow another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kvproof.output import clean
from kvproof.reference.derive import Derived, derive
from kvproof.reference.faults.registry import FAULTS
from kvproof.reference.rules import Refusal
from kvproof.spec.cells import page_place
from kvproof.spec.judge.judge import judge
from kvproof.spec.judge.lists import read_lists
from kvproof.spec.judge.runs import listed_ordinals, page_id
from kvproof.spec.judge.spans import BudgetExceeded, Spans, overlapping
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy
from kvproof.spec.scope import Covered, assess
from kvproof.spec.vocabulary import Case, Law
from kvproof.upstream.judging.outcome import Outcome
from kvproof.upstream.judging.pages import content

NUMBERS = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
MESSAGE_LENGTH = 100

Origins = dict[tuple[str, str, int], tuple[tuple[int, int], ...]]
"""Target storage, source storage, bytes from target to source: offsets and lengths of the target spans so filled."""


def cause_of(case: Case, found: Outcome) -> str:
    """What is alike in findings of one cause, whatever the case: a known rule's name, or a few words.

    The words are the target's error and the file that raised it; or the laws broken and the kinds of the groups hit.
    """
    known = explaining(case, found)
    if known:
        return known[0]
    if found.told is not None:
        message = " ".join(NUMBERS.sub("#", found.told.message).split())[:MESSAGE_LENGTH].rstrip()
        file = found.told.place[0].rsplit("/", 1)[-1]
        return clean(f"{found.told.error} in {file}{f': {message}' if message else ''}")
    scope = assess(case)
    if found.judgement is None or not isinstance(scope, Covered):
        return " and ".join(found.laws) or found.verdict
    kinds = ", ".join(sorted(kinds_involved(scope, found.judgement)))
    folded = ": pages folded into a shorter region at their base" if is_truncated(scope, found) else ""
    return f"{' and '.join(found.laws) or found.verdict} in {kinds}{folded}"


def explaining(case: Case, found: Outcome) -> tuple[str, ...]:
    """The known faulty rules that do just this on this case: same bytes of pages from the same places, same laws.

    Padding does not count: whether it travels depends on how pages are packed, and not on which are chosen.

    Where the plan breaks no law, the tables are compared instead: same regions, same laws. Empty if nothing is wrong.
    """
    scope = assess(case)
    if not found.laws or found.judgement is None or found.lists is None or not isinstance(scope, Covered):
        return ()
    try:
        return tuple(_explaining(case, scope, found, found.judgement))
    except BudgetExceeded:
        return ()


def _explaining(case: Case, scope: Covered, found: Outcome, judgement: Judgement) -> Iterator[str]:
    assert found.lists is not None
    pages = Spans(_contents(scope))
    seen = origins(read_lists(case, found.lists).plan.copies, pages)
    laws = _plan_laws(judgement)
    for fault in FAULTS.values():
        try:
            derived = derive(case, fault.rules)
        except Refusal:
            continue
        if not laws:
            if _same_tables(scope, derived, found):
                yield fault.name
        elif origins(derived.plan.copies, pages) == seen:
            theirs = judge(scope, derived.plan)
            if _plan_laws(theirs) == laws and (theirs.ratios == judgement.ratios or judgement.laws != ("economy",)):
                yield fault.name


def _contents(covered: Covered) -> Iterator[Place]:
    """The pages of the request's blocks on the consumer, without their padding."""
    if covered.tokens is not None:
        for view in covered.consumer.layers:
            yield from (content(view, page_id(view, ordinal)) for ordinal in listed_ordinals(view))


def _same_tables(scope: Covered, derived: Derived, found: Outcome) -> bool:
    """The same regions on both sides, and the laws that they break."""
    for worker, regions in derived.tables.registered.items():
        ours = {(str(r.storage).split("/", 1)[1], r.offset, r.bytes, r.stride, r.pages) for r in regions}
        if ours != {(r.storage, r.offset, r.bytes, r.stride, r.pages) for r in found.regions.get(worker, ())}:
            return False
    return judge(scope, None, derived.tables).laws == found.laws


def _plan_laws(judgement: Judgement) -> frozenset[Law]:
    """The laws that the plan breaks; economy only where it breaks no other."""
    laws = frozenset(finding.law for finding in judgement.findings if finding.subject == "plan")
    return laws - {"economy"} or laws


def is_truncated(covered: Covered, found: Outcome) -> bool:
    """Whether some page is longer than all regions that begin where its layer does: it was folded by base."""
    if "folding" not in found.laws:
        return False
    for worker in (covered.producer, covered.consumer):
        lengths: dict[tuple[str | None, int], int] = {}
        for row in found.regions.get(worker.name, ()):
            lengths[row.storage, row.offset] = max(row.bytes, lengths.get((row.storage, row.offset), 0))
        for view in worker.layers:
            if lengths.get((view.storage.name, view.layer.offset), view.layer.page_bytes) < view.layer.page_bytes:
                return True
    return False


def origins(copies: Iterable[Copy], within: Spans) -> Origins:
    """Which target bytes come from where, whatever the copies are cut into, in any order, once or several times."""
    places: dict[tuple[str, str, int], list[Place]] = {}
    for copy in copies:
        key = str(copy.target.storage), str(copy.source.storage), int(copy.source.offset - copy.target.offset)
        for piece in within.within(copy.target):
            places.setdefault(key, []).append(piece)
    return {key: extents(found) for key, found in places.items()}


def extents(places: Iterable[Place]) -> tuple[tuple[int, int], ...]:
    """Offsets and lengths of places in one storage, those that touch made one."""
    return tuple((place.offset, place.bytes) for place in Spans(places))


def kinds_involved(covered: Covered, judgement: Judgement) -> set[str]:
    """Kinds of the consumer's groups whose bytes end wrong, or move too often; of all groups, if none can be told."""
    kinds = {group.name: group.kind for group in covered.consumer.worker.groups}
    layers = {view.layer.name: view.group.name for view in covered.consumer.layers}
    hit = {
        name.removeprefix(f"{covered.consumer.name}.")
        for name, (moved, useful) in judgement.ratios.items()
        if moved > useful and judgement.laws == ("economy",)
    }
    wrong = [*judgement.corrupt, *judgement.contested]
    if wrong and covered.tokens is not None:
        views = [view for view in covered.consumer.layers for _ in listed_ordinals(view)]
        ordinals = (ordinal for view in covered.consumer.layers for ordinal in listed_ordinals(view))
        pages = [page_place(v.page, page_id(v, ordinal)) for v, ordinal in zip(views, ordinals, strict=True)]
        hit |= {views[index].group.name for index, _ in overlapping(pages, wrong)}
    named = {finding.witness.layer for finding in judgement.findings if finding.witness is not None}
    hit |= {layers[name] for name in named if name in layers}
    return {kinds[group] for group in hit or kinds}
