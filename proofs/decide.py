# SPDX-License-Identifier: Apache-2.0
"""What becomes of one claim: vacuity first, then the engines, then, where they object, a counterexample to replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kvproof.proofs import budgets, questions, replay
from kvproof.proofs.claim import Claim, Refutation
from kvproof.proofs.engines.answer import Answer, Engine, Question
from kvproof.proofs.engines.z3_engine import ENGINE as Z3
from kvproof.proofs.source import Numbers
from kvproof.proofs.verdict import Verdict

Ask = Callable[[Engine, Question], Answer]
"""How an engine is asked: with a seed, noting the question down where that is wanted."""


class Outcome(NamedTuple):
    """The verdict on one variant of a claim."""

    verdict: Verdict
    answers: Mapping[str, Answer]
    reason: str = ""
    counterexample: Numbers | None = None
    relevant: frozenset[str] = frozenset()
    """Names of the integers that the counterexample depends on."""


def decide(claim: Claim[Any], variant: str, engines: Sequence[Engine], ask: Ask) -> Outcome:
    """The verdict on one variant. Whatever goes wrong on the way is an error, never a pass."""
    try:
        if isinstance(claim, Refutation):
            return refute(claim, variant, engines, ask)
        return establish(claim, variant, engines, ask)
    except Exception as error:
        return Outcome("error", {}, f"{type(error).__name__}: {error}")


def establish(claim: Claim[Any], variant: str, engines: Sequence[Engine], ask: Ask) -> Outcome:
    """The verdict on a lemma or theorem: proved if every engine finds that its negation cannot be satisfied."""
    example = claim.example(variant)
    if not replay.assumed(claim, variant, example):
        return Outcome("vacuous", {}, "the hypotheses do not hold in the example")
    if not replay.holds(claim, variant, example):
        return Outcome("refuted", {}, "the claim is false in its own example", example, frozenset(example.integers))
    wrong = [instance.claim for instance in claim.lemmas(claim.world(example, variant)) if not instance.formula]
    if wrong:
        return Outcome("error", {}, f"an instance of {wrong[0]} is false in the example")
    query = questions.raw(claim, variant)
    question = questions.direct(query) if claim.kind == "lemma" else questions.lifted(query)
    answers = {engine.name: ask(engine, question) for engine in engines}
    outcome = judge(answers)
    if outcome.verdict != "refuted":
        return outcome
    found = search(claim, variant, query, ask)
    if found is None:
        return Outcome("unknown", answers, "the engines object, but no small counterexample replays")
    return Outcome("refuted", answers, "a counterexample replays", found, query.names)


def judge(answers: Mapping[str, Answer]) -> Outcome:
    """What the answers to the negation of a claim add up to. Never a majority."""
    statuses = {answer.status for answer in answers.values()}
    told = "; ".join(f"{name}: {answer.reason}" for name, answer in answers.items() if answer.reason)
    if "error" in statuses or not statuses:
        return Outcome("error", answers, told or "no engine answered")
    if statuses >= {"sat", "unsat"}:
        return Outcome("disagreement", answers, ", ".join(f"{name} says {a.status}" for name, a in answers.items()))
    if "sat" in statuses:
        return Outcome("refuted", answers, told)
    if "unknown" in statuses:
        return Outcome("unknown", answers, told)
    return Outcome("proved", answers)


def refute(claim: Refutation[Any], variant: str, engines: Sequence[Engine], ask: Ask) -> Outcome:
    """The verdict on a refutation: proved if a counterexample is found, replays, and no engine objects to it.

    z3 searches, whichever engines are asked for; each of them then says whether the numbers are a counterexample.
    """
    query = questions.raw(claim, variant)
    found = search(claim, variant, query, ask)
    if found is not None:
        if not claim.on_reference(claim.world(found, variant)):
            return Outcome("unknown", {}, "the counterexample does not replay on the reference", found, query.names)
        confirm = questions.fixed(query, found)
        answers = {engine.name: ask(engine, confirm) for engine in engines}
        against = [name for name, answer in answers.items() if answer.status == "unsat"]
        if against:
            return Outcome(
                "disagreement", answers, f"{against[0]} says that the counterexample is none", found, query.names
            )
        unsure = [f"{name}: {a.reason}" for name, a in answers.items() if a.status != "sat"]
        if unsure:
            failed = any(answer.status == "error" for answer in answers.values())
            return Outcome("error" if failed else "unknown", answers, "; ".join(unsure), found, query.names)
        return Outcome("proved", answers, counterexample=found, relevant=query.names)
    answers = {engine.name: ask(engine, questions.lifted(query)) for engine in engines}
    if all(answer.status == "unsat" for answer in answers.values()):
        return Outcome("refuted", answers, "there is no counterexample: the fault it stands for is lawful")
    return Outcome("unknown", answers, "no small counterexample replays")


def search(claim: Claim[Any], variant: str, query: questions.Raw, ask: Ask) -> Numbers | None:
    """The first counterexample, by growing bounds, that replays on integers; made as small as it gets."""
    for bound in budgets.BOUNDS:
        question = questions.bounded(query, bound)
        answer = ask(Z3, question)
        if answer.status == "error":
            raise RuntimeError(answer.reason)
        if answer.status == "sat":
            numbers = query.terms.numbers(answer.model, question.formulas)
            if replay.contradicts(claim, variant, numbers):
                return replay.smallest(claim, variant, numbers)
    return None
