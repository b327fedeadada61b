# SPDX-License-Identifier: Apache-2.0
"""Runs the registry: ``prove`` yields one result a claim, in order. Importing this needs no solver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kvproof.proofs import engines as _engines
from kvproof.proofs import registry, replay
from kvproof.proofs.claim import Claim, Kind, Refutation
from kvproof.proofs.engines import MissingExtra, UnknownEngine
from kvproof.proofs.engines.answer import Answer, Engine, Question, Status
from kvproof.proofs.registry import Incomplete
from kvproof.proofs.verdict import Verdict, worst
from kvproof.spec.vocabulary import Law

if TYPE_CHECKING:
    from kvproof.proofs.decide import Outcome

__all__ = [
    "EngineResult",
    "Incomplete",
    "MissingExtra",
    "Result",
    "UnknownClaim",
    "UnknownEngine",
    "Unwritten",
    "prove",
]


class Unwritten(Exception):
    """The proofs are done, but not all queries could be written down."""


class UnknownClaim(ValueError):
    """There is no claim of that id or name."""


class EngineResult(NamedTuple):
    """What one engine answered to all queries of a claim, and the resource units that took."""

    answer: Status
    units: int


class Result(NamedTuple):
    """What became of a claim. ``counterexample`` is numbers by name, or empty."""

    id: str
    name: str
    claim: str
    law: Law | None
    kind: Kind
    verdict: Verdict
    engines: dict[str, EngineResult]
    reason: str
    counterexample: dict[str, int]
    words: str


def prove(
    only: Sequence[str] | None = None,
    engines: Sequence[str] = ("z3", "cvc5"),
    smt2: Path | None = None,
    seed: int = 0,
) -> Iterator[Result]:
    """Prove the claims of those ids or names (None: all), each by each engine; dump the queries where told.

    Raises UnknownClaim, UnknownEngine or MissingExtra before the first result.
    """
    chosen = select(only)
    solvers = _engines.load(engines)
    return run(chosen, solvers, smt2, seed)


def select(only: Sequence[str] | None) -> tuple[Claim[Any], ...]:
    """The claims of those ids or names, in the registry's order."""
    everything = registry.claims()
    if only is None:
        return everything
    known = {_key(name): claim for claim in everything for name in (claim.id, claim.name())}
    unknown = [name for name in only if _key(name) not in known]
    if unknown:
        raise UnknownClaim(f"no claim is called {unknown[0]!r}; there are {everything[0].id} to {everything[-1].id}")
    wanted = {known[_key(name)].id for name in only}
    return tuple(claim for claim in everything if claim.id in wanted)


def _key(name: str) -> str:
    """An id or a name, however its words are joined."""
    return re.sub(r"[\s_-]+", "_", name.strip()).lower()


def run(claims: Sequence[Claim[Any]], solvers: Sequence[Engine], smt2: Path | None, seed: int) -> Iterator[Result]:
    """One result a claim. Raises Incomplete where fewer came out than were asked for, Unwritten where a dump failed."""
    from kvproof.proofs.decide import decide

    unwritten: list[OSError] = []

    def ask(engine: Engine, question: Question) -> Answer:
        if smt2 is not None and not unwritten:
            try:
                _dump(smt2, question)
            except OSError as error:
                unwritten.append(error)
        return engine.check(question, seed)

    done = 0
    for claim in claims:
        yield result(claim, [(variant, decide(claim, variant, solvers, ask)) for variant in claim.variants])
        done += 1
    if done != len(claims):
        raise Incomplete(f"{done} of {len(claims)} claims ran")
    for error in unwritten:
        raise Unwritten from error


def result(claim: Claim[Any], outcomes: Sequence[tuple[str, Outcome]]) -> Result:
    """The outcomes of all variants together: the worst decides, and gives the reason and the counterexample."""
    verdict = worst(outcome.verdict for _, outcome in outcomes)
    variant, outcome = next(((v, o) for v, o in outcomes if o.verdict == verdict), outcomes[0])
    reason = f"{variant}: {outcome.reason}" if variant and outcome.reason else outcome.reason
    numbers = outcome.counterexample
    found = {} if numbers is None else replay.as_dict(numbers, outcome.relevant)
    words = claim.words(claim.world(numbers, variant)) if numbers is not None and isinstance(claim, Refutation) else ""
    answers = _answers([outcome for _, outcome in outcomes])
    sentence = claim.sentence()
    return Result(claim.id, claim.name(), sentence, claim.law, claim.kind, verdict, answers, reason, found, words)


def _answers(outcomes: Sequence[Outcome]) -> dict[str, EngineResult]:
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.answers)
    return {name: _together([o.answers[name] for o in outcomes if name in o.answers]) for name in names}


def _together(answers: Sequence[Answer]) -> EngineResult:
    statuses = {answer.status for answer in answers}
    order: tuple[Status, ...] = ("error", "unknown", "sat", "unsat")
    return EngineResult(next(s for s in order if s in statuses), sum(answer.units for answer in answers))


def _dump(folder: Path, question: Question) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = f"(set-logic {question.logic})\n{question.text.strip()}\n(check-sat)\n"
    (folder / f"{question.name}.smt2").write_text(text, encoding="utf-8")
