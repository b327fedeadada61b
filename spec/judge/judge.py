# SPDX-License-Identifier: Apache-2.0
"""The judge's front door."""

from __future__ import annotations

from kvproof.spec.decode import BadInput
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge.captured import Captured, captured_findings
from kvproof.spec.judge.expand import expand_plan
from kvproof.spec.judge.lists import read_lists
from kvproof.spec.judge.plan_laws import PlanAnswer, judge_spans
from kvproof.spec.judge.riders import rider_findings
from kvproof.spec.judge.table_laws import table_findings
from kvproof.spec.judge.verdict import LAWS, Finding, Judgement, first_of_each_law, verdict_of
from kvproof.spec.plan import Plan, PlanFile
from kvproof.spec.scope import Covered, NotCovered, Refused, Scope, assess
from kvproof.spec.tables import Tables
from kvproof.spec.vocabulary import Case, Law

PLAN_LAWS: tuple[Law, ...] = (
    "coverage", "alignment", "confinement", "bounds", "single-writer", "zeroing", "economy",
)  # fmt: skip


def judge(scope: Scope, plan: Plan | None = None, tables: Tables | None = None) -> Judgement:
    """Judge a plan, tables, or both together. Raises BudgetExceeded where the answer is unknown.

    A pair outside the model is ``not-covered``, one without a lawful plan ``refused``, whatever the plan says.
    """
    if not isinstance(scope, Covered):
        return outside(scope)
    findings: list[Finding] = []
    checked: set[Law] = {"partition", "refusal"}
    spans = None
    if plan is not None and scope.tokens is not None:
        spans = judge_spans(scope, plan)
        findings += spans.findings
        checked.update(PLAN_LAWS)
    if tables is not None:
        findings += table_findings(scope, tables)
        checked.update(("bounds", "folding", "descriptor-ids", "parity", "economy"))
    return _answer(findings, checked, spans)


def judge_lists(case: Case, lists: DescriptorFile) -> Judgement:
    """Judge descriptor lists: what they move as a plan, and the lists themselves.

    The lists do not say which layers a row stands for: of L6 only (b) is judged, for the layers of the moved groups.
    """
    return judge_captured(case, lists, {})


def judge_captured(case: Case, lists: DescriptorFile, captured: Captured) -> Judgement:
    """Judge descriptor lists together with the regions that the workers registered, as far as they tell.

    Regions alone can be judged as well: of a case without a request, with lists that move nothing.
    """
    scope = assess(case)
    answer = read_lists(case, lists)
    if not isinstance(scope, Covered):
        return outside(scope)
    if scope.tokens is None and (answer.plan.copies or answer.plan.zeroes):
        raise BadInput(nothing_to_move(case))
    findings = list(answer.findings)
    checked: set[Law] = {"partition", "refusal", "bounds"}
    if lists.transfers or scope.tokens is not None:
        checked.add("parity")
        sides = (side for transfer in lists.transfers for side in (transfer.source, transfer.target))
        if all(side.sections is not None for side in sides):
            checked.add("descriptor-ids")
    spans = None
    if scope.tokens is not None:
        spans = judge_spans(scope, answer.plan)
        findings += spans.findings
        findings += first_of_each_law(rider_findings(scope, answer.moved))
        checked.update(PLAN_LAWS)
    if any(captured.values()):
        findings += captured_findings(scope, captured)
        checked.update(("folding", "economy"))
    return _answer(findings, checked, spans)


def judge_plan_file(case: Case, plan: PlanFile) -> Judgement:
    """Judge a plan file."""
    scope = assess(case)
    spans = expand_plan(case, plan)
    if plan.permutes:
        return Judgement("not-covered", not_applicable=LAWS, reason="the plan has permutes, which are not modelled")
    if isinstance(scope, Covered) and scope.tokens is None:
        raise BadInput(nothing_to_move(case))
    return judge(scope, spans)


def nothing_to_move(case: Case) -> str:
    """Why a plan for a case without a request is bad input."""
    return f"case {case.name} has no [request]: there is nothing that a plan could move"


def outside(scope: NotCovered | Refused) -> Judgement:
    """The verdict on a pair that has no plan, or none that kvproof models."""
    if isinstance(scope, Refused):
        return Judgement("refused", not_applicable=LAWS, reason=scope.reason)
    return Judgement("not-covered", not_applicable=LAWS, reason=scope.reason)


def _answer(findings: list[Finding], checked: set[Law], spans: PlanAnswer | None) -> Judgement:
    checked.update(finding.law for finding in findings)
    return Judgement(
        verdict=verdict_of(findings),
        findings=tuple(sorted(findings, key=lambda finding: (not finding.corrupting, LAWS.index(finding.law)))),
        ratios=spans.ratios if spans else {},
        corrupt=spans.corrupt if spans else (),
        contested=spans.contested if spans else (),
        not_applicable=tuple(law for law in LAWS if law not in checked),
    )
