# SPDX-License-Identifier: Apache-2.0
"""One answer of one target on one case, judged.

A target is not trusted: whatever it answers becomes an outcome, never a traceback.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec

from kvproof.exits import Exit
from kvproof.spec.decode import BadInput
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge.captured import Captured, CapturedRegion
from kvproof.spec.judge.expand import SPANS_LIMIT
from kvproof.spec.judge.judge import judge_captured
from kvproof.spec.judge.lists import read_lists
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Finding, Judgement, Witness
from kvproof.spec.plan import Plan
from kvproof.spec.scope import Covered, NotCovered, Refused, Scope, assess
from kvproof.spec.vocabulary import Case, Law
from kvproof.upstream.judging.memory import differences, is_settled, read_dump
from kvproof.upstream.judging.pages import LayerPages, layer_pages
from kvproof.upstream.judging.translate import Untranslatable, captured_regions, descriptor_lists
from kvproof.upstream.protocol import Answer, Crashed, Line, NotDriven, Observed, ProbeFailed, Reached, RefusedBy
from kvproof.upstream.running.lost import Lost
from kvproof.words import headline, main_finding, other_findings, plural

OutcomeVerdict = Literal[
    "lawful",
    "wasteful",
    "hazard",
    "corrupt",
    "refused",
    "crashed",
    "hung",
    "garbage",
    "not-covered",
    "unknown",
    "fault",
]
"""As in a judgement, and: ``crashed``, ``hung``, ``garbage``: no answer, or none that fits the case.

``unknown``: more than the judge looks at.
``fault``: the stand's own: the probe failed, or memory is not what was captured. No verdict can rest on either.
"""

NAMES_WHAT_IS_MISSING = re.compile(
    r"support|implement|\brequires?\b|\bmust\b|\bcannot\b|\bdiffer|mismatch|incompatible", re.IGNORECASE
)
"""What the message of a refusal says if it names a missing capability: words, not their sense."""

UNSEEN = ("parts differ", "held by nobody")
"""Reasons without a lawful plan that no target can see: it knows layers by their pages, not what each byte means."""

UNFINISHED = "TransferUnfinished"
"""What probes call it that a target did not finish in time."""

LINE_LENGTH = 300


class Told(msgspec.Struct, frozen=True):
    """What the target itself said: at which stage, which error, and the file and line that raised it."""

    stage: str
    error: str
    message: str
    place: Line


class SeenRow(msgspec.Struct, frozen=True):
    """A registered region by where it lies, so that two releases can be compared. ``storage`` None: an address."""

    storage: str | None
    offset: int
    bytes: int
    stride: int
    pages: int
    groups: tuple[str, ...] | None = None


Memory = Literal["agrees", "differs", "not seen"]


class Outcome(msgspec.Struct, frozen=True):
    """The verdict on one target and one case, and what it rests on.

    ``words`` are what to read first: which tokens of which layers hold what instead; ``others``, further findings.
    ``needless``: it refused a pair that has a lawful plan; that breaks a law only if no missing capability is named.
    ``memory``: whether memory is what the captured lists make of it. ``regions``: worker -> its regions.
    """

    case: str
    verdict: OutcomeVerdict
    laws: tuple[Law, ...] = ()
    needless: bool = False
    words: str = ""
    others: tuple[str, ...] = ()
    reason: str | None = None
    missing: str = ""
    witness: Witness | None = None
    ratios: dict[str, tuple[int, int]] = {}
    told: Told | None = None
    reached: Reached | None = None
    judgement: Judgement | None = None
    lists: DescriptorFile | None = None
    regions: dict[str, tuple[SeenRow, ...]] = {}
    pages: tuple[LayerPages, ...] = ()
    memory: Memory = "not seen"
    notes: tuple[str, ...] = ()


def outcome_of(case: Case, answer: Answer | Lost, folder: Path) -> Outcome:
    """Judge an answer. ``folder`` is the one that the probe was given, with the memory it wrote down."""
    scope = assess(case)
    try:
        if isinstance(scope, NotCovered):
            return _not_covered(case, scope.reason, answer)
        if isinstance(answer, Observed):
            return _observed(case, scope, answer, folder)
        if isinstance(answer, RefusedBy):
            return _refused(case, scope, answer)
        if isinstance(answer, Crashed):
            return _crashed(case, answer)
        if isinstance(answer, NotDriven):
            return _not_covered(case, answer.reason, answer)
        if isinstance(answer, ProbeFailed):
            words = f"the probe failed: {answer.error}: {one_line(answer.message)}"
            return Outcome(case.name, "fault", words=words, reason=words, notes=(answer.traceback,))
        return _lost(case, answer)
    except Lost as lost:
        return _lost(case, lost)
    except Untranslatable as error:
        return _lost(case, Lost("garbage", str(error)))
    except BudgetExceeded as error:
        words = f"unknown: {error}"
        return Outcome(case.name, "unknown", words=words, reason=words)


def status_of(found: Outcome, *, strict: bool = False) -> Exit:
    """The exit status of an outcome that nothing was expected of. ``strict``: wasteful is broken, too."""
    if found.verdict == "refused":
        return Exit.BROKEN if found.laws else Exit.OK
    if found.verdict in ("not-covered", "unknown"):
        return Exit.UNKNOWN
    if found.verdict == "fault":
        return Exit.FAULT
    if found.verdict == "wasteful":
        return Exit.BROKEN if strict else Exit.OK
    return Exit.OK if found.verdict == "lawful" else Exit.BROKEN


def one_line(text: str) -> str:
    """A target's text in one line of moderate length."""
    text = " ".join(text.split())
    return text if len(text) <= LINE_LENGTH else f"{text[: LINE_LENGTH - 1]}…"


def _not_covered(case: Case, reason: str, answer: Answer | Lost) -> Outcome:
    """kvproof or its probe cannot judge this, whatever the target did; its refusal is kept all the same."""
    told = _told(answer) if isinstance(answer, RefusedBy | Crashed) else None
    reached = answer.reached if isinstance(answer, Observed | RefusedBy | Crashed) else None
    missing = answer.missing if isinstance(answer, NotDriven) else ""
    notes: tuple[str, ...] = ()
    if isinstance(answer, Lost):
        notes = (f"{answer.kind}: {one_line(answer.words)}",)
    elif isinstance(answer, ProbeFailed):
        notes = (f"the probe failed: {answer.error}: {one_line(answer.message)}",)
    return Outcome(
        case.name, "not-covered", words=reason, reason=reason, missing=missing, told=told, reached=reached, notes=notes
    )


def _refused(case: Case, scope: Covered | Refused, answer: RefusedBy) -> Outcome:
    """L12: a refusal is right where no plan is lawful; elsewhere it has to name what is missing."""
    theirs = _their_words(answer)
    plain = Outcome(case.name, "refused", reason=theirs, told=_told(answer), reached=answer.reached)
    if isinstance(scope, Refused):
        return msgspec.structs.replace(plain, words=f"rightly, as {scope.reason}: {theirs}")
    named = names_what_is_missing(answer)
    return msgspec.structs.replace(
        plain,
        needless=True,
        laws=() if named else ("refusal",),
        words=f"needlessly{'' if named else ', and names no missing capability'}: {theirs}",
    )


def names_what_is_missing(answer: RefusedBy) -> bool:
    """Does the target say which capability it lacks?

    NotImplementedError does, and a message that speaks of what is supported or required, cannot be, or differs. An
    assertion without such a word does not, however clear its condition may be to those who read the code.
    """
    return answer.error == "NotImplementedError" or bool(NAMES_WHAT_IS_MISSING.search(answer.message))


def _crashed(case: Case, answer: Crashed) -> Outcome:
    """It fell over; or it lives, and never finished what it was asked to move."""
    verdict: OutcomeVerdict = "hung" if answer.error == UNFINISHED else "crashed"
    words = _their_words(answer)
    return Outcome(case.name, verdict, words=words, reason=words, told=_told(answer), reached=answer.reached)


def _lost(case: Case, lost: Lost) -> Outcome:
    words = one_line(lost.words)
    return Outcome(case.name, lost.kind, words=words, reason=words)


def _told(answer: RefusedBy | Crashed) -> Told:
    return Told(answer.stage, answer.error, answer.message, answer.place)


def _their_words(answer: RefusedBy | Crashed) -> str:
    file, line = answer.place
    message = one_line(answer.message)
    place = f"{file}:{line}, " if file else ""
    return f"{answer.error}{f': {message}' if message else ''} ({place}{answer.stage})"


def _observed(case: Case, scope: Covered | Refused, observed: Observed, folder: Path) -> Outcome:
    lists, captured = descriptor_lists(case, observed), captured_regions(case, observed)
    plan = _plan(case, lists)
    regions = {worker: tuple(_row(one) for one in found) for worker, found in captured.items()}
    notes = (*observed.notes, *_not_exposed(observed))
    if case.request is None:
        notes += ("without a request nothing is moved: only what was registered is judged",)
    if isinstance(scope, Covered) and scope.tokens is None and not any(captured.values()):
        reason = "the target shows no regions, and without a request it moves nothing"
        found = Outcome(case.name, "not-covered", words=reason, reason=reason)
    elif isinstance(scope, Refused) and any(phrase in scope.reason for phrase in UNSEEN):
        reason = f"no plan is lawful, as {scope.reason}; but the target was not shown what differs"
        found = Outcome(case.name, "not-covered", words=reason, reason=reason, missing="what the bytes of a page mean")
    elif isinstance(scope, Refused) and case.request is None:
        reason = f"no lawful plan exists, as {scope.reason}; without a request nobody sees whether it is refused"
        found = Outcome(case.name, "not-covered", words=reason, reason=reason)
    else:
        found = _judged(case, scope, plan, _judgement(case, scope, plan, lists, captured), observed, folder)
    return msgspec.structs.replace(found, reached=observed.reached, lists=lists, regions=regions, notes=notes)


def _plan(case: Case, lists: DescriptorFile) -> Plan:
    """What the lists move and zero. Raises Untranslatable, BudgetExceeded, so that lists of an outcome can be read."""
    if len(lists.zeroes) + sum(len(transfer.target_ids) for transfer in lists.transfers) > SPANS_LIMIT:
        raise BudgetExceeded(f"more than {SPANS_LIMIT} descriptors are moved or zeroed")
    try:
        return read_lists(case, lists).plan
    except BadInput as error:
        raise Untranslatable(str(error)) from None


def _judgement(
    case: Case, scope: Covered | Refused, plan: Plan, lists: DescriptorFile, captured: Captured
) -> Judgement:
    if isinstance(scope, Refused):
        return _ran(scope, plan)
    try:
        return judge_captured(case, lists, captured)
    except BadInput as error:
        raise Untranslatable(str(error)) from None


def _judged(
    case: Case, scope: Covered | Refused, plan: Plan, judgement: Judgement, observed: Observed, folder: Path
) -> Outcome:
    finding = main_finding(judgement)
    found = Outcome(
        case.name,
        judgement.verdict,
        laws=judgement.laws,
        words=headline(judgement),
        others=tuple(other_findings(judgement)),
        witness=finding.witness if finding is not None else None,
        ratios=judgement.ratios,
        judgement=judgement,
        pages=_pages(case, scope, plan),
    )
    return _with_memory(case, scope, plan, found, observed, folder)


def _ran(scope: Refused, plan: Plan) -> Judgement:
    """L12: no plan is lawful, and yet it went ahead."""
    moved = sum(copy.target.bytes for copy in plan.copies)
    what = f"moved {plural(moved, 'byte')}" if moved else "went ahead, and moved nothing"
    words = f"no plan is lawful, as {scope.reason}; it should have been refused, but the target {what}"
    return Judgement("hazard", (Finding("refusal", "plan", words),))


def _with_memory(case: Case, scope: Scope, plan: Plan, found: Outcome, observed: Observed, folder: Path) -> Outcome:
    """The outcome, if memory bears it out: a capture that does not explain memory carries no verdict."""
    assert found.judgement is not None
    dump = read_dump(case, observed, folder)
    if dump is None or not is_settled(found.judgement):
        return found
    for difference in differences(case, scope, plan, found.judgement, dump):
        words = f"the capture cannot be trusted: {difference}"
        return msgspec.structs.replace(
            found, verdict="fault", laws=(), words=words, reason=words, others=(found.words, *found.others),
            witness=None, memory="differs",
        )  # fmt: skip
    return msgspec.structs.replace(found, memory="agrees")


def _pages(case: Case, scope: Scope, plan: Plan) -> tuple[LayerPages, ...]:
    if not isinstance(scope, Covered) or scope.tokens is None:
        return ()
    return layer_pages(case, scope, plan)


def _not_exposed(observed: Observed) -> list[str]:
    return [
        f"{worker}: {what} is not exposed by this release"
        for worker, seen in observed.workers.items()
        for what in seen.not_exposed
    ]


def _row(one: CapturedRegion) -> SeenRow:
    region = one.region
    storage = str(region.storage).split("/", 1)[1] if one.outside is None else None
    offset = region.offset if one.outside is None else one.outside
    return SeenRow(storage, offset, region.bytes, region.stride, region.pages, one.groups)
