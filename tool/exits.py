# SPDX-License-Identifier: Apache-2.0
"""Exit statuses: what each means, which wins, and which one a verdict deserves. Decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from kvproof.spec.vocabulary import Verdict


class Exit(IntEnum):
    """The exit statuses of every command."""

    OK = 0
    BROKEN = 1  # a law is broken, a hazard, a claim refuted, an expectation missed, a plan asked for a refused pair
    USAGE = 2  # usage, bad or ill-formed input, a missing extra
    UNKNOWN = 3  # unknown (budget), not covered, a transfer that did not finish
    VACUOUS = 4  # a claim that says nothing
    DISAGREEMENT = 5  # two routes or two engines contradict each other
    FAULT = 70  # a fault in kvproof itself
    INTERRUPTED = 130


SEVERITY = (
    Exit.INTERRUPTED, Exit.FAULT, Exit.DISAGREEMENT, Exit.BROKEN, Exit.VACUOUS, Exit.USAGE, Exit.UNKNOWN, Exit.OK,
)  # fmt: skip

WORDS = {
    Exit.OK: "passed",
    Exit.BROKEN: "failed",
    Exit.USAGE: "bad-input",
    Exit.UNKNOWN: "unknown",
    Exit.VACUOUS: "vacuous",
    Exit.DISAGREEMENT: "disagreement",
    Exit.FAULT: "fault",
    Exit.INTERRUPTED: "interrupted",
}
"""The verdict on a whole run, in JSON and in summaries."""


def worst(exits: Iterable[Exit]) -> Exit:
    """The status of a run of several answers."""
    found = set(exits)
    return next((status for status in SEVERITY if status in found), Exit.OK)


def exit_of(verdict: Verdict, *, strict: bool = False) -> Exit:
    """The status of a judged plan that nothing was expected of. ``strict``: wasteful is broken, too."""
    if verdict == "lawful" or (verdict == "wasteful" and not strict):
        return Exit.OK
    return Exit.UNKNOWN if verdict == "not-covered" else Exit.BROKEN


PROOF_EXITS = {
    "proved": Exit.OK,
    "refuted": Exit.BROKEN,
    "vacuous": Exit.VACUOUS,
    "unknown": Exit.UNKNOWN,
    "disagreement": Exit.DISAGREEMENT,
    "error": Exit.FAULT,
}
"""The status of each verdict of a proof. Only ``proved`` is a pass."""
