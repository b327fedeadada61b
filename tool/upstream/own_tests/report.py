# SPDX-License-Identifier: Apache-2.0
"""The verdicts on vLLM's own tests: each plan that a test pins, judged by the laws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from kvproof.exits import Exit
from kvproof.spec.decode import BadInput
from kvproof.spec.judge.judge import judge_captured
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.validate import check_case
from kvproof.upstream.own_tests.explained import Explained
from kvproof.upstream.own_tests.pin import Declined, Misfit, Pin, Pinned, Uncovered
from kvproof.upstream.own_tests.pins import pins
from kvproof.upstream.own_tests.records import Record
from kvproof.words import headline

PlanVerdict = Literal["lawful", "wasteful", "hazard", "corrupt", "refused", "declined", "unknown", "not-covered"]
"""As of a judgement; ``declined``: the test pins that the target refuses the pair."""

WORST: tuple[PlanVerdict, ...] = (
    "corrupt", "hazard", "refused", "unknown", "wasteful", "lawful", "declined", "not-covered",
)  # fmt: skip
"""Of several plans of a test, the first of these is the test's."""

JUDGED: frozenset[PlanVerdict] = frozenset(("lawful", "wasteful", "hazard", "corrupt", "refused"))
ALARMS: frozenset[PlanVerdict] = frozenset(("hazard", "corrupt", "refused"))

ILL_FORMED = "well-formed"
"""Stands among the laws for memory that cannot be: a test's fixture whose pages overlap, say."""

UNREADABLE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What comes of a record whose calls had arguments of other kinds than they have in the known releases."""

NO_PLAN = "it builds no geometry and plans no transfer"


class PlanReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdict on one plan. ``reason`` where there is none. ``real``: in the test's own memory.

    ``explained``: the exception that covers the laws it breaks.
    """

    about: str
    verdict: PlanVerdict
    laws: tuple[str, ...] = ()
    words: str = ""
    reason: str | None = None
    real: bool = False
    notes: tuple[str, ...] = ()
    explained: str | None = None


class TestReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdict on one test: the worst of its plans. ``outcome`` is pytest's.

    ``unmarked``: the target does not say that it runs without a GPU, so that it may fail here.
    ``explained``: the exceptions that cover its broken laws, if all are. ``in_part``: some of what it pins is not
    covered.
    """

    test: str
    outcome: str
    verdict: PlanVerdict
    laws: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    reason: str | None = None
    in_part: bool = False
    unmarked: bool = False
    plans: tuple[PlanReport, ...] = ()

    @property
    def alarm(self) -> bool:
        """A law is broken, and nothing explains it."""
        return self.verdict in ALARMS and not self.explained


class TestsReport(msgspec.Struct, frozen=True):
    """All tests of a run. ``faults``: what went wrong in kvproof's own plugin. ``because``: the exceptions' reasons."""

    target: str
    tests: tuple[TestReport, ...]
    faults: tuple[str, ...] = ()
    seconds: float = 0.0
    because: dict[str, str] = {}

    def totals(self) -> Counter[str]:
        """Tests by verdict; those explained are counted as such."""
        return Counter("explained" if test.explained else test.verdict for test in self.tests)

    def excused(self) -> Counter[str]:
        """Tests by the exceptions that explain them."""
        return Counter(why for test in self.tests for why in test.explained)

    def reasons(self) -> Counter[str]:
        """Why tests are not covered."""
        return Counter(test.reason or NO_PLAN for test in self.tests if test.verdict == "not-covered")

    def left_out(self) -> Counter[str]:
        """What is not covered in tests that are judged all the same."""
        return Counter(
            reason
            for test in self.tests
            if test.verdict != "not-covered"
            for reason in sorted({plan.reason for plan in test.plans if plan.reason} | _noted(test))
        )

    def status(self) -> Exit:
        """Broken where an alarm is not explained; unknown where nothing was judged; a fault where the plugin failed."""
        if self.faults:
            return Exit.FAULT
        if any(test.alarm for test in self.tests):
            return Exit.BROKEN
        judged = any(test.verdict in JUDGED for test in self.tests)
        settled = all(test.verdict != "unknown" and (test.outcome == "passed" or test.unmarked) for test in self.tests)
        return Exit.OK if judged and settled else Exit.UNKNOWN


def report(target: str, records: Iterable[Record], explained: Explained, seconds: float = 0.0) -> TestsReport:
    """Judge what was captured. A test is reported once it has ended."""
    tests: list[TestReport] = []
    faults: list[str] = []
    waiting: list[Record] = []
    for record in records:
        faults += _plugin_faults(record)
        if record.event != "outcome":
            waiting.append(record)
            continue
        own = [one for one in waiting if one.test == record.test]
        waiting = []
        try:
            tests.append(_test(record, own, explained))
        except UNREADABLE as error:
            words = f"its records cannot be read: {type(error).__name__}: {error}"
            faults.append(f"{record.test}: {words}")
            tests.append(TestReport(record.test, record.outcome or "unknown", "not-covered", reason=words))
    used = {why for test in tests for why in test.explained}
    because = {one.id: one.because for one in explained.explained if one.id in used}
    return TestsReport(target, tuple(tests), tuple(dict.fromkeys(faults)), seconds, because)


def _test(ended: Record, records: Sequence[Record], explained: Explained) -> TestReport:
    plans: tuple[PlanReport, ...] = ()
    if ended.outcome == "passed":
        reading = explained.reading(ended.test, ended.params)
        found = dict.fromkeys(judged(pin) for pin in pins(records, reading))
        plans = tuple(_with_why(ended.test, plan, explained) for plan in found)
    verdict: PlanVerdict = next((one for one in WORST if any(plan.verdict == one for plan in plans)), "not-covered")
    alarms = [plan for plan in plans if plan.verdict in ALARMS]
    laws = tuple(dict.fromkeys(law for plan in alarms for law in plan.laws))
    why = tuple(dict.fromkeys(plan.explained for plan in alarms if plan.explained))
    reason = None
    if verdict == "not-covered":
        reasons = dict.fromkeys(plan.reason for plan in plans if plan.reason)
        reason = "; ".join(one for one in reasons if one) or NO_PLAN
        if ended.outcome != "passed":
            reason = f"the test itself ends as {ended.outcome} here"
    return TestReport(
        test=ended.test,
        outcome=ended.outcome or "unknown",
        verdict=verdict,
        laws=laws,
        explained=why if all(plan.explained for plan in alarms) else (),
        reason=reason,
        in_part=verdict in JUDGED and any(plan.verdict == "not-covered" or plan.notes for plan in plans),
        unmarked=ended.unmarked,
        plans=plans,
    )


def judged(pin: Pinned) -> PlanReport:
    """The verdict on what one record pins."""
    if isinstance(pin, Uncovered):
        return PlanReport(pin.about, "not-covered", reason=pin.reason)
    if isinstance(pin, Declined):
        return PlanReport(pin.about, "declined", words=pin.words)
    if isinstance(pin, Misfit):
        return PlanReport(pin.about, "hazard", (ILL_FORMED,), pin.words, real=True)
    try:
        check_case(pin.case)
    except BadInput as error:
        return _ill_formed(pin, str(error))
    try:
        found = judge_captured(pin.case, pin.lists, pin.regions)
    except BadInput as error:
        return _ill_formed(pin, str(error))
    except BudgetExceeded as error:
        return PlanReport(pin.about, "unknown", reason=str(error), real=pin.real)
    if found.verdict == "not-covered":
        return PlanReport(pin.about, "not-covered", reason=found.reason, real=pin.real)
    return PlanReport(pin.about, found.verdict, found.laws, headline(found), real=pin.real, notes=pin.notes)


def _ill_formed(pin: Pin, words: str) -> PlanReport:
    """Memory that cannot be is a hazard where it is the test's, and nobody's fault where it was made up here."""
    if not pin.real:
        return PlanReport(pin.about, "not-covered", reason=f"its numbers fit no memory: {words}")
    return PlanReport(pin.about, "hazard", (ILL_FORMED,), words, real=True)


def _plugin_faults(record: Record) -> Iterator[str]:
    if record.plugin is not None:
        yield f"{record.test}: {record.event}: {record.plugin}"
    for one in record.inner:
        yield from _plugin_faults(one)


def _noted(test: TestReport) -> set[str]:
    return {note.split(": ", 1)[-1] for plan in test.plans for note in plan.notes}


def _with_why(test: str, plan: PlanReport, explained: Explained) -> PlanReport:
    why = explained.why(test, plan.about, plan.laws) if plan.verdict in ALARMS else None
    return plan if why is None else msgspec.structs.replace(plan, explained=why.id)
