# SPDX-License-Identifier: Apache-2.0
"""``kvproof judge``: is somebody else's plan lawful?"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from kvproof.exits import Exit, exit_of, worst
from kvproof.failure import STDIN, Failure
from kvproof.junit import TestCase, outcome_of, write_junit
from kvproof.options import CaseFile, Flag, Json, Junit
from kvproof.output import Output
from kvproof.places import writable_file
from kvproof.sources import case_source, read_case, read_plan, source_of
from kvproof.spec.decode import BadInput
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge.judge import judge_lists, judge_plan_file
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.plan import PlanFile
from kvproof.spec.vocabulary import Case
from kvproof.words import (
    NOT_PROVEN_BY_JUDGE,
    headline,
    judgement_data,
    main_finding,
    other_findings,
    summary,
    witness_words,
)

Strict = Annotated[Flag, Parameter(help="A plan that is only wasteful is exit 1, too.")]
PlanName = Annotated[str, Parameter(help="A plan file or descriptor lists (JSON), or - for standard input.")]


def command(
    case: CaseFile,
    plan: PlanName,
    /,
    *,
    strict: Strict = False,
    json: Json = False,
    junit: Junit = None,
) -> int:
    """Judge a plan file, or descriptor lists captured from a connector, against a case.

    Exit 0 if it is lawful (or only wasteful), 1 if a law is broken or the pair is refused, 3 if it is not covered.
    """
    out = Output(json)
    if case == STDIN and plan == STDIN:
        raise Failure("standard input can be read only once: '-' is given twice")
    writable_file("--junit", junit)
    about, source = case_source(case), source_of(plan)
    loaded = read_case(about)
    file = read_plan(source)
    if file.case != loaded.name:
        raise Failure(f"the plan is for case {file.case!r}, not for {loaded.name!r} ({about.name})", source=source.name)
    judgement = _judge(loaded, file, source.name)
    status = exit_of(judgement.verdict, strict=strict)
    lines = list(_lines(loaded, judgement, status))
    for text, style in lines:
        out.line(text, style)
    details = "\n".join(text for text, _ in lines)
    report = TestCase(loaded.name, outcome_of(status), headline(judgement), details)
    status = worst((status, write_junit(junit, "judge", [report])))
    out.answer(
        "judge",
        status,
        {
            "case": loaded.name,
            "plan": source.name,
            "strict": strict,
            **judgement_data(judgement),
            "not_proven": list(NOT_PROVEN_BY_JUDGE),
        },
    )
    return status


def _judge(case: Case, file: PlanFile | DescriptorFile, name: str) -> Judgement:
    try:
        return judge_lists(case, file) if isinstance(file, DescriptorFile) else judge_plan_file(case, file)
    except BadInput as error:
        raise Failure(str(error), source=name) from None
    except BudgetExceeded as error:
        raise Failure(f"unknown: {error}", source=name, status=Exit.UNKNOWN) from None


def _lines(case: Case, judgement: Judgement, status: Exit) -> list[tuple[str, str | None]]:
    style = {Exit.OK: "good", Exit.UNKNOWN: "doubt"}.get(status, "bad")
    lines: list[tuple[str, str | None]] = []
    if headline(judgement):
        lines.append((f"{case.name}: {headline(judgement)}", style))
    lines.append((f"{case.name}: {summary(judgement)}", None if lines else style))
    finding = main_finding(judgement)
    if finding is not None and finding.witness is not None:
        lines.append((f"    {witness_words(finding)}", None))
    lines += [(f"    {text}", None) for text in other_findings(judgement)]
    if judgement.not_applicable and judgement.verdict not in ("refused", "not-covered"):
        lines.append((f"    not applicable to what was given: {', '.join(judgement.not_applicable)}", "dim"))
    return [*lines, *((text, "dim") for text in NOT_PROVEN_BY_JUDGE)]
