# SPDX-License-Identifier: Apache-2.0
"""One target under generated cases: the case put to it, what came of it, and why."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

import msgspec

from kvproof.reference.faults.registry import FAULTS
from kvproof.spec.vocabulary import Case
from kvproof.upstream.judging.cause import cause_of
from kvproof.upstream.judging.lookalike import lookalike_of
from kvproof.upstream.judging.outcome import Outcome, outcome_of
from kvproof.upstream.running.session import Session, Way
from kvproof.upstream.targets.target import Target

CASE_SECONDS = 10.0
"""The most for one case. They take milliseconds, unless the target hangs."""

FAULTY = ("corrupt", "hazard", "wasteful", "crashed", "hung", "garbage", "fault")
"""Verdicts that are findings. ``fault`` is the stand's own."""


class Key(msgspec.Struct, frozen=True, order=True):
    """What makes two findings the same. ``cause``: a known faulty rule, or how it went wrong in a few words."""

    target: str
    verdict: str
    laws: tuple[str, ...]
    cause: str


class Tried(msgspec.Struct, frozen=True):
    """A case put to a target. ``key`` None: nothing is wrong."""

    outcome: Outcome
    key: Key | None


class Bench(Protocol):
    """Something that cases can be put to."""

    @property
    def label(self) -> str:
        """What it is called in reports."""
        ...

    def attempt(self, case: Case) -> Tried:
        """Put one case to it."""
        ...


class SessionBench:
    """A bench for a real target. A context manager, since a process stands behind it."""

    def __init__(self, target: Target, way: Way) -> None:
        self._session = Session(target, way.connector, way.nixl)
        self._seconds = min(way.seconds, CASE_SECONDS)

    @property
    def label(self) -> str:
        return self._session.target.label

    def __enter__(self) -> Self:
        self._session.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)

    def attempt(self, case: Case) -> Tried:
        with self._session.scratch() as folder:
            answer = self._session.run(case, folder, self._seconds)
            outcome = outcome_of(case, answer, folder)
        return Tried(outcome, key_of(self.label, case, outcome))


def key_of(label: str, case: Case, outcome: Outcome) -> Key | None:
    """Under which key the outcome is a finding; None if it is none.

    A needless refusal is one if it breaks the law of refusals: a limit that a target names itself is no news.
    """
    if outcome.verdict not in FAULTY and not (outcome.verdict == "refused" and outcome.laws):
        return None
    cause = cause_of(case, outcome)
    if cause not in FAULTS:
        cause = lookalike_of(case, outcome) or cause
    if outcome.told is not None and not outcome.told.message.strip():
        # A bare assertion says nothing but where it stands.
        cause = f"{cause}, line {outcome.told.place[1]}"
    return Key(label, outcome.verdict, outcome.laws, cause)
