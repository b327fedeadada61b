# SPDX-License-Identifier: Apache-2.0
"""The loop of ``kvproof upstream --fuzz``: generated cases for every target, what goes wrong shrunk to a case file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Literal

import msgspec

from kvproof.checking import judge_fault
from kvproof.fuzzing.features import features
from kvproof.fuzzing.shrink import shrink
from kvproof.fuzzing.write import save_case
from kvproof.output import clean
from kvproof.reference.faults.registry import FAULTS
from kvproof.spec.scope import Covered, assess
from kvproof.spec.vocabulary import Case, Expect, Law
from kvproof.upstream.fuzzing.bench import Bench, Key, SessionBench, Tried
from kvproof.upstream.fuzzing.generate import case_of
from kvproof.upstream.fuzzing.refit import REFITTED
from kvproof.upstream.judging.outcome import Outcome
from kvproof.upstream.protocol import Reach
from kvproof.upstream.running.session import Way
from kvproof.upstream.targets.target import Target

DEFAULT_FOLDER = Path("kvproof-fuzz")
SHRINK_SECONDS = 8.0
SHRINK_SHARE = 0.1
"""Of the time that is left, no more goes into making one case small."""

LOST_LIMIT = 5
"""A target that died, hung or babbled so often is left alone: every time costs a start."""

REACHES: tuple[Reach | None, ...] = ("reachable", "worker-level", None, "synthetic")
"""From what a user meets to what nobody does."""

RAN = ("lawful", "wasteful", "hazard", "corrupt")
VERDICTS = ("corrupt", "hazard", "crashed", "hung", "garbage", "fault", "refused", "wasteful")
"""From the worst to the least."""

OnProgress = Callable[[int, float], None]
"""Told the cases tried and the seconds gone, after each case."""


class Finding(msgspec.Struct, frozen=True):
    """Something wrong with a target. ``case`` is small, ``number`` that of the case it was drawn from.

    ``cases`` is how many drawn cases showed it, ``reachable`` how many of these a user can get to by launch flags.
    ``seconds``: when the first was met. ``path`` None: it could not be written.
    """

    key: Key
    number: int
    seconds: float
    cases: int
    reachable: int
    outcome: Outcome
    case: Case
    path: str | None


class Share(msgspec.Struct, frozen=True):
    """What became of the cases that one target was given. ``lost``: the target was given up for its crashes."""

    target: str
    cases: int
    verdicts: dict[str, int]
    reaches: dict[str, int]
    reasons: dict[str, int]
    lost: bool = False

    @property
    def ran(self) -> int:
        """Cases that ended in a plan which could be judged, whatever the verdict."""
        return sum(self.verdicts.get(verdict, 0) for verdict in RAN)


class FuzzReport(msgspec.Struct, frozen=True):
    """What a run tried and found. ``features`` counts the cases that exercise each feature of the geometry."""

    seed: int
    seconds: float
    cases: int
    shares: tuple[Share, ...]
    findings: tuple[Finding, ...]
    features: dict[str, int]
    unwritten: OSError | None = None


def fuzz(
    targets: Sequence[Target],
    seconds: float,
    seed: int,
    way: Way,
    out: Path | None = None,
    progress: OnProgress | None = None,
) -> FuzzReport:
    """Put generated cases to the targets for so many seconds, each case to all of them.

    The cases depend on the seed alone, how many on the machine. Findings go to case files in ``out``
    (``./kvproof-fuzz`` if None), a folder that is made when there is one.
    """
    with ExitStack() as stack:
        benches = [stack.enter_context(SessionBench(target, way)) for target in targets]
        return Run(benches, seconds, seed, out or DEFAULT_FOLDER, progress).all()


class Run:
    """One run, and what it has seen so far."""

    def __init__(
        self,
        benches: Sequence[Bench],
        seconds: float,
        seed: int,
        folder: Path,
        progress: OnProgress | None = None,
        limit: int | None = None,
    ) -> None:
        self.started = monotonic()
        self.benches = benches
        self.seconds = seconds
        self.seed = seed
        self.folder = folder
        self.progress = progress
        self.limit = limit
        self.tallies = {bench.label: Tally(bench.label) for bench in benches}
        self.features: Counter[str] = Counter()
        self.findings: dict[Key, Finding] = {}
        self.unwritten: OSError | None = None

    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (monotonic() - self.started)

    def all(self) -> FuzzReport:
        """Case after case, until the time is over or no target is left; at least one."""
        number = 0
        while number == 0 or (self._on() and number != self.limit):
            self.one(number)
            number += 1
            if self.progress is not None:
                self.progress(number, monotonic() - self.started)
        return FuzzReport(
            seed=self.seed,
            seconds=monotonic() - self.started,
            cases=number,
            shares=tuple(tally.share() for tally in self.tallies.values()),
            findings=tuple(sorted(self.findings.values(), key=_rank)),
            features=dict(self.features),
            unwritten=self.unwritten,
        )

    def _on(self) -> bool:
        return self.left() > 0 and not all(tally.lost for tally in self.tallies.values())

    def one(self, number: int) -> None:
        """One case, by all targets that are still there."""
        case = case_of(self.seed, number)
        scope = assess(case)
        assert isinstance(scope, Covered), f"case {number} of seed {self.seed}: {scope}"
        self.features.update(features(scope))
        for bench in self.benches:
            tally = self.tallies[bench.label]
            if tally.lost or (number and self.left() <= 0):
                continue
            tried = bench.attempt(case)
            tally.add(tried.outcome)
            if tried.key is not None:
                self._wrong(bench, number, case, tried, tried.key)

    def _wrong(self, bench: Bench, number: int, case: Case, tried: Tried, key: Key) -> None:
        """Count it; shrink and write the first of its kind, and a later one that is easier to reach."""
        known = self.findings.get(key)
        cases = (known.cases if known else 0) + 1
        reachable = (known.reachable if known else 0) + (_reach(tried.outcome) == "reachable")
        if known is not None and _reach_rank(tried.outcome) >= _reach_rank(known.outcome):
            self.findings[key] = msgspec.structs.replace(known, cases=cases, reachable=reachable)
            return
        seconds = known.seconds if known else monotonic() - self.started
        small, outcome = self._small(bench, case, tried, key)
        small = named(small, key)
        path = self._write(small, key, number, outcome)
        self.findings[key] = Finding(key, number, seconds, cases, reachable, outcome, small, path)

    def _small(self, bench: Bench, case: Case, tried: Tried, key: Key) -> tuple[Case, Outcome]:
        """The case made small, as long as its key stays and it gets no harder to reach; and what came of it."""
        if was_lost(tried.outcome):
            return case, tried.outcome  # every try would cost a start
        last = [tried.outcome]

        def fails(candidate: Case, _covered: Covered) -> bool:
            again = bench.attempt(candidate)
            if again.key != key or _reach_rank(again.outcome) > _reach_rank(tried.outcome):
                return False
            last[0] = again.outcome
            return True

        small = shrink(case, fails, min(SHRINK_SECONDS, self.left() * SHRINK_SHARE), REFITTED)
        return small, last[0]

    def _write(self, case: Case, key: Key, number: int, outcome: Outcome) -> str | None:
        path = self.folder / f"{case.name}.toml"
        laws, reach = ", ".join(key.laws) or "no law", _reach(outcome) or "reach unknown"
        remarks = [
            f"Case {number} of kvproof upstream --fuzz --seed {self.seed}, shrunk.",
            f"{key.target}: {key.verdict} ({laws}), {reach}: {key.cause}",
            *(outcome.reason or "").splitlines(),
        ]
        try:
            save_case(path, case, remarks)
        except OSError as error:
            self.unwritten = error
            return None
        return str(path)


class Tally:
    """The counts of one target while a run goes on."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.cases = 0
        self.verdicts: Counter[str] = Counter()
        self.reaches: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.losses = 0

    @property
    def lost(self) -> bool:
        """It cost too many starts."""
        return self.losses >= LOST_LIMIT

    def add(self, outcome: Outcome) -> None:
        """Count one case."""
        self.cases += 1
        self.losses += was_lost(outcome)
        needless = outcome.verdict == "refused" and outcome.needless
        self.verdicts["refused needlessly" if needless else outcome.verdict] += 1
        self.reaches[_reach(outcome) or "unknown"] += 1
        if outcome.verdict not in RAN:
            self.reasons[_bare_reason(outcome)] += 1

    def share(self) -> Share:
        """The counts so far."""
        return Share(
            self.label, self.cases, dict(self.verdicts), dict(self.reaches), dict(self.reasons.most_common()), self.lost
        )


def was_lost(outcome: Outcome) -> bool:
    """The target gave no answer: it died, hung or babbled. One that crashed and could say where is still there."""
    return outcome.verdict in ("hung", "garbage") or (outcome.verdict == "crashed" and outcome.told is None)


def named(case: Case, key: Key) -> Case:
    """The case under a name of its own, that of what it shows, and with what it is to hold everybody to."""
    words = re.sub(r"[^a-z0-9.]+", "-", f"{key.verdict}-{key.cause}-{key.target}".lower()).strip("-")
    mark = sha256(repr(key).encode()).hexdigest()[:6]
    faults: dict[str, tuple[Law, ...] | Literal["refused"]] = {}
    if key.cause in FAULTS:
        faults = {key.cause: judge_fault(case, assess(case), FAULTS[key.cause]).laws}
    return msgspec.structs.replace(
        case,
        name=f"fuzz-{words[:80]}-{mark}",
        title=clean(f"found by kvproof upstream --fuzz on {key.target}: {key.verdict}, {key.cause}")[:200],
        expect=Expect(verdict="lawful", faults=faults),
    )


def _bare_reason(outcome: Outcome) -> str:
    """Why it did not run, without the numbers of the case."""
    return re.sub(r"\d+", "N", (outcome.reason or outcome.verdict).splitlines()[0])[:160]


def _reach(outcome: Outcome) -> Reach | None:
    return outcome.reached.tag if outcome.reached is not None else None


def _reach_rank(outcome: Outcome) -> int:
    return REACHES.index(_reach(outcome))


def _rank(finding: Finding) -> tuple[int, int, Key]:
    return VERDICTS.index(finding.key.verdict), _reach_rank(finding.outcome), finding.key
