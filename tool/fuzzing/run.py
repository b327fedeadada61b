# SPDX-License-Identifier: Apache-2.0
"""The loop of ``kvproof fuzz``: random cases, all routes compared, and what disagrees shrunk to a case file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import msgspec

from kvproof.checking import judge_fault
from kvproof.fuzzing.differ import Disagreement, compare, first_words
from kvproof.fuzzing.features import FEATURES, features
from kvproof.fuzzing.generate import generate
from kvproof.fuzzing.model import MEDIUM, SMALL, TINY, Size
from kvproof.fuzzing.shrink import shrink
from kvproof.fuzzing.source import RandomSource
from kvproof.fuzzing.write import save_case
from kvproof.reference.faults.registry import FAULTS, Fault
from kvproof.spec.scope import Covered, assess
from kvproof.spec.validate import check_case
from kvproof.spec.vocabulary import Case, Expect, Verdict

DEFAULT_FOLDER = Path("kvproof-fuzz")
SHRINK_SECONDS = 5.0
FINDINGS_LIMIT = 5
"""Disagreements, each of another check, after which a run ends."""

WORST: tuple[Verdict, ...] = ("corrupt", "hazard", "wasteful")

OnProgress = Callable[[int, float], None]
"""Told the cases tried and the seconds gone, after each case."""


class Finding(msgspec.Struct, frozen=True):
    """A case on which something is wrong. ``check`` names what disagreed, or the faulty rule that was caught."""

    check: str
    number: int
    words: str
    case: Case
    laws: tuple[str, ...] = ()
    path: str | None = None


class FuzzReport(msgspec.Struct, frozen=True):
    """What a run tried and found.

    ``features`` counts the cases that exercise each feature. Without a fault every finding is a disagreement; with one
    the only finding is the counterexample, and none means that the rule was not caught. ``refused`` counts the pairs
    that the faulty rule refused. ``unwritten``: why a case found is in no file.
    """

    seed: int
    fault: str | None
    seconds: float
    cases: int
    features: dict[str, int]
    findings: tuple[Finding, ...]
    refused: int = 0
    unwritten: OSError | None = None

    @property
    def unseen(self) -> tuple[str, ...]:
        """Features that no case exercised."""
        return tuple(name for name in FEATURES if name not in self.features)


def size_of(number: int) -> Size:
    """Mostly tiny worlds, which brute force can check; some small, few medium ones."""
    if number % 50 == 49:
        return MEDIUM
    return SMALL if number % 3 == 2 else TINY


def case_of(seed: int, number: int) -> Case:
    """The case of a seed by its number."""
    return generate(RandomSource(f"{seed}/{number}"), size_of(number), name=f"fuzz-{seed}-{number}")


def fuzz(
    seconds: float,
    seed: int,
    fault: str | None = None,
    out: Path | None = None,
    on_progress: OnProgress | None = None,
    cases: int | None = None,
) -> FuzzReport:
    """Try random cases for so many seconds. The cases depend on the seed alone, how many on the machine.

    With ``cases``, no more than so many: then a run is the same everywhere, if the time suffices.
    Findings go to case files in ``out`` (``./kvproof-fuzz`` if None), a folder that is made when there is one.
    """
    run = Run(seconds, seed, out or DEFAULT_FOLDER, on_progress, cases)
    if fault is None:
        run.compare_routes()
    else:
        run.catch(FAULTS[fault])
    return FuzzReport(
        seed=seed,
        fault=fault,
        seconds=monotonic() - run.started,
        cases=run.cases,
        features=dict(run.features),
        findings=tuple(run.findings),
        refused=run.refused,
        unwritten=run.unwritten,
    )


class Run:
    """One run, and what it has seen so far."""

    def __init__(
        self, seconds: float, seed: int, folder: Path, on_progress: OnProgress | None, limit: int | None
    ) -> None:
        self.started = monotonic()
        self.seconds = seconds
        self.seed = seed
        self.folder = folder
        self.on_progress = on_progress
        self.limit = limit
        self.cases = 0
        self.refused = 0
        self.unwritten: OSError | None = None
        self.features: Counter[str] = Counter()
        self.findings: list[Finding] = []

    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (monotonic() - self.started)

    def drawn(self) -> Iterator[tuple[int, Case, Covered]]:
        """Case after case, until the time is over; at least one. A case that is not in scope is a finding."""
        while (self.cases == 0 or self.left() > 0) and self.cases != self.limit:
            number = self.cases
            case = case_of(self.seed, number)
            self.cases += 1
            check_case(case)
            scope = assess(case)
            assert isinstance(scope, Covered), f"case {number} of seed {self.seed}: {scope}"
            self.features.update(features(scope))
            yield number, case, scope
            if self.on_progress is not None:
                self.on_progress(self.cases, monotonic() - self.started)

    def compare_routes(self) -> None:
        """All routes on every case."""
        for number, case, covered in self.drawn():
            found = compare(case, covered)
            if found is not None and found.check not in {finding.check for finding in self.findings}:
                self._disagreement(number, case, found)
                if len(self.findings) >= FINDINGS_LIMIT:
                    return

    def _disagreement(self, number: int, case: Case, found: Disagreement) -> None:
        def fails(candidate: Case, covered: Covered) -> bool:
            again = compare(candidate, covered, _checks(found))
            return again is not None and again.check == found.check

        small = shrink(case, fails, SHRINK_SECONDS)
        scope = assess(small)
        again = compare(small, scope, _checks(found)) if isinstance(scope, Covered) else None
        words = (again or found).words
        small = msgspec.structs.replace(
            small,
            name=f"fuzz-{found.check}",
            title=f"found by kvproof fuzz: {found.check}",
            expect=Expect(verdict="lawful"),
        )
        path = self._write(small, number, found.check, words)
        self.findings.append(Finding(found.check, number, words, small, path=path))

    def catch(self, fault: Fault) -> None:
        """The first case on which the faulty rule corrupts; if there is none in time, the next worst that it does."""
        best: tuple[int, int, Case] | None = None
        for number, case, covered in self.drawn():
            verdict = judge_fault(case, covered, fault).verdict
            if verdict == "refused":
                self.refused += 1
            elif verdict in WORST:
                rank = WORST.index(verdict)
                if best is None or rank < best[0]:
                    best = (rank, number, case)
                if rank == 0:
                    break
        if best is not None:
            self._counterexample(fault, *best)

    def _counterexample(self, fault: Fault, rank: int, number: int, case: Case) -> None:
        def fails(candidate: Case, covered: Covered) -> bool:
            return judge_fault(candidate, covered, fault).verdict == WORST[rank]

        small = shrink(case, fails, SHRINK_SECONDS)
        judgement = judge_fault(small, assess(small), fault)
        small = msgspec.structs.replace(
            small,
            name=f"fuzz-{fault.name}",
            title=f"found by kvproof fuzz: {fault.title}",
            expect=Expect(verdict="lawful", faults={fault.name: judgement.laws}),
        )
        words = f"{judgement.verdict}: {first_words(judgement)}"
        path = self._write(small, number, fault.name, words)
        self.findings.append(Finding(fault.name, number, words, small, judgement.laws, path))

    def _write(self, case: Case, number: int, check: str, words: str) -> str | None:
        path = self.folder / f"{check}-seed-{self.seed}-case-{number}.toml"
        remarks = [f"Case {number} of kvproof fuzz --seed {self.seed}, shrunk. {check}:", *words.splitlines()]
        try:
            save_case(path, case, remarks)
        except OSError as error:
            self.unwritten = error
            return None
        return str(path)


def _checks(found: Disagreement) -> tuple[str, ...] | None:
    """What to repeat while shrinking: the check alone; all where the reference itself failed."""
    return None if found.check == "reference" else (found.check,)
