# SPDX-License-Identifier: Apache-2.0
"""What the judge answers: findings with witnesses, and the verdict they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from kvproof.spec.place import Place
from kvproof.spec.vocabulary import Law, Verdict

Subject = Literal["plan", "tables"]

LAWS: tuple[Law, ...] = get_args(Law)


class Witness(msgspec.Struct, frozen=True, omit_defaults=True):
    """A byte that shows the breach, and the run of ``bytes`` it begins. Tokens are a half-open range."""

    worker: str
    storage: str
    byte: int
    bytes: int = 1
    layer: str | None = None
    page: int | None = None
    tokens: tuple[int, int] | None = None
    part: str | None = None
    units: tuple[int, int] | None = None


class Finding(msgspec.Struct, frozen=True):
    """One law broken: by the plan (then wrong bytes are shown if ``corrupting``) or by the tables."""

    law: Law
    subject: Subject
    words: str
    corrupting: bool = False
    witness: Witness | None = None


class Judgement(msgspec.Struct, frozen=True):
    """The answer for one case.

    ``ratios`` has, for each moved group ("worker.group"), the bytes moved and the useful ones among them, counted
    once. ``corrupt`` are the spans of required bytes that end wrong unless contested, merged; ``contested`` get two
    values, so that what they end as depends on which copy comes last. ``not_applicable`` are laws nobody could check
    here: a plan file has no tables.
    """

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    ratios: dict[str, tuple[int, int]] = {}
    corrupt: tuple[Place, ...] = ()
    contested: tuple[Place, ...] = ()
    not_applicable: tuple[Law, ...] = ()
    reason: str | None = None

    @property
    def laws(self) -> tuple[Law, ...]:
        """The laws broken, in the order of L1–L12; economy is listed only when alone."""
        broken = {finding.law for finding in self.findings}
        return tuple(law for law in LAWS if law in broken and (law != "economy" or broken == {"economy"}))


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """The worst that the findings show."""
    verdict: Verdict = "lawful"
    for finding in findings:
        if finding.corrupting:
            return "corrupt"
        if finding.law != "economy":
            verdict = "hazard"
        elif verdict == "lawful":
            verdict = "wasteful"
    return verdict


def first_of_each_law(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a law is enough for a reader."""
    first: dict[Law, Finding] = {}
    for finding in findings:
        first.setdefault(finding.law, finding)
    return list(first.values())
