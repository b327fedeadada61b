# SPDX-License-Identifier: Apache-2.0
"""Judgements in JSON: what ``--json`` prints and ``kvproof schema judgement`` describes."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvproof.spec.judge.verdict import Finding, Judgement, Subject, Witness
from kvproof.spec.place import Place
from kvproof.spec.vocabulary import Law, Verdict

ErrorVerdict = Literal["bad-input", "refused", "not-covered", "unknown", "fault", "interrupted"]


class SpanShape(msgspec.Struct, frozen=True):
    """The bytes ``[offset, offset + bytes)`` of a storage, which is named ``worker/storage``."""

    storage: str
    offset: int
    bytes: int


class FindingShape(msgspec.Struct, frozen=True):
    """One law broken, by the plan or by the tables. ``corrupting``: it shows wrong bytes."""

    law: Law
    subject: Subject
    words: str
    corrupting: bool
    witness: Witness | None


class JudgementShape(msgspec.Struct, frozen=True):
    """A judgement. ``words`` is the finding to read first, or the reason; ``ratios``: group -> bytes moved, useful."""

    verdict: Verdict
    laws: tuple[Law, ...]
    reason: str | None
    words: str | None
    findings: tuple[FindingShape, ...]
    ratios: dict[str, tuple[int, int]]
    corrupt: tuple[SpanShape, ...]
    contested: tuple[SpanShape, ...]
    not_applicable: tuple[Law, ...]


class JudgeAnswer(JudgementShape, frozen=True):
    """What ``kvproof judge --json`` prints."""

    format: Literal[1]
    command: Literal["judge"]
    exit: int
    case: str
    plan: str
    strict: bool
    not_proven: tuple[str, ...]


class ErrorAnswer(msgspec.Struct, frozen=True):
    """What every command prints with ``--json`` where it cannot answer. ``file`` is the one to blame, if one is."""

    format: Literal[1]
    command: str | None
    verdict: ErrorVerdict
    exit: int
    laws: tuple[Law, ...]
    file: str | None
    error: str


def judgement_shape(judgement: Judgement, words: str | None) -> JudgementShape:
    """A judgement as it is printed."""
    return JudgementShape(
        verdict=judgement.verdict,
        laws=judgement.laws,
        reason=judgement.reason,
        words=words,
        findings=tuple(finding_shape(finding) for finding in judgement.findings),
        ratios=judgement.ratios,
        corrupt=spans(judgement.corrupt),
        contested=spans(judgement.contested),
        not_applicable=judgement.not_applicable,
    )


def finding_shape(finding: Finding) -> FindingShape:
    """A finding as it is printed."""
    return FindingShape(finding.law, finding.subject, finding.words, finding.corrupting, finding.witness)


def spans(places: tuple[Place, ...]) -> tuple[SpanShape, ...]:
    """Places as they are printed."""
    return tuple(SpanShape(str(place.storage), int(place.offset), int(place.bytes)) for place in places)
