# SPDX-License-Identifier: Apache-2.0
"""Targets × cases: each case put to each target, judged, and held against what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from time import monotonic

import msgspec

from kvproof.exits import Exit
from kvproof.sources import Source, read_case
from kvproof.spec.vocabulary import Case
from kvproof.upstream.judging.outcome import Outcome, outcome_of, status_of
from kvproof.upstream.matrix.expectations import Expected, book, is_built_in, misses
from kvproof.upstream.running.session import Session, Way
from kvproof.upstream.targets.entrants import Entrant
from kvproof.upstream.targets.releases import CURRENT, SUPPORTED

OnRow = Callable[[str, int, int], None]
"""Told the target, the cases done and all of them."""


class Subject(msgspec.Struct, frozen=True):
    """A case as the user named it. ``built_in``: it is the built-in case of its name, which something is known of."""

    source: Source
    case: Case
    built_in: bool


class Row(msgspec.Struct, frozen=True):
    """What one target did with one case. ``expected`` None: nothing is known, and the outcome speaks for itself.

    ``version``: what the target calls itself; None if it never said hello.
    """

    entrant: Entrant
    subject: Subject
    outcome: Outcome
    expected: Expected | None
    misses: tuple[str, ...]
    status: Exit
    seconds: float
    version: str | None = None

    @property
    def plain(self) -> bool:
        """There is nothing to say of it."""
        return self.status == Exit.OK and self.outcome.verdict in ("lawful", "not-covered")


class Bar(msgspec.Struct, frozen=True):
    """What is a pass where nothing is known. ``strict``: wasteful is not. ``named``: the user asked for these cases."""

    strict: bool = False
    named: bool = True


def subject(source: Source) -> Subject:
    """Read a case. Raises Failure, with the file's name."""
    case = read_case(source)
    return Subject(source, case, is_built_in(case))


def rows(
    targets: Sequence[Entrant], subjects: Sequence[Subject], way: Way, bar: Bar, progress: OnRow | None = None
) -> Generator[Row, None, None]:
    """Target after target, case after case. Close it: a process stands behind it."""
    for entrant in targets:
        with Session(entrant.target, way.connector, way.nixl) as session:
            for number, one in enumerate(subjects):
                if progress is not None:
                    progress(entrant.name, number, len(subjects))
                yield _row(session, entrant, one, way, bar)


def _row(session: Session, entrant: Entrant, one: Subject, way: Way, bar: Bar) -> Row:
    started = monotonic()
    with session.scratch() as folder:
        outcome = outcome_of(one.case, session.run(one.case, folder, way.seconds), folder)
    expected = known(entrant, one, way.connector)
    wrong = tuple(misses(expected, outcome)) if expected is not None else ()
    status = _status(one, outcome, expected, wrong, way.connector, bar)
    version = session.hello.version if session.hello is not None else None
    return Row(entrant, one, outcome, expected, wrong, status, monotonic() - started, version)


def known(entrant: Entrant, one: Subject, connector: str) -> Expected | None:
    """What is expected of this target with this case."""
    if entrant.release is None or not one.built_in:
        return None
    return book().of(connector, one.case.name, entrant.release, SUPPORTED)


def _status(
    one: Subject, outcome: Outcome, expected: Expected | None, wrong: tuple[str, ...], connector: str, bar: Bar
) -> Exit:
    if expected is not None and outcome.verdict != "fault":
        return Exit.BROKEN if wrong else Exit.OK
    if outcome.verdict == "not-covered" and expected is None and not _asked_for(one, connector, bar):
        return Exit.OK
    return status_of(outcome, strict=bar.strict)


def _asked_for(one: Subject, connector: str, bar: Bar) -> bool:
    """Whether somebody who ran this waits for an answer: not where the case itself, or the file, says there is none."""
    if one.case.expect.verdict == "not-covered":
        return False
    current = book().of(connector, one.case.name, CURRENT, SUPPORTED) if one.built_in else None
    return bar.named or current is None or current.verdict != "not-covered"
