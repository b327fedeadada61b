# SPDX-License-Identifier: Apache-2.0
"""``kvproof prove``: the claims, for all sizes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from kvproof.exits import PROOF_EXITS, Exit, worst
from kvproof.failure import Failure
from kvproof.junit import TestCase, outcome_of, write_junit
from kvproof.options import Json, Junit, OutputPath
from kvproof.output import Output
from kvproof.words import plural, tally

if TYPE_CHECKING:
    from kvproof.proofs.run import Result

ASSUMED = (
    "Proved of the reference's own functions and the laws' own kernels, for all sizes, ids and tables.",
    "Taken on trust: z3 and cvc5 (every claim needs both), the translation of these functions into formulas, that the",
    "engines' worlds are well-formed (W1–W20), and that sources stay unchanged and each byte ends as one of its writes",
    "(W18). Of other code nothing is claimed; `kvproof check` and `kvproof transfer` try it on cases.",
)

Only = Annotated[tuple[str, ...], Parameter(negative=(), help="Only the claim of this id or name; repeatable.")]
Engines = Annotated[str, Parameter(help="The engines that must agree, comma-separated.")]
Smt2 = Annotated[Path | None, OutputPath, Parameter(help="Write every query to this folder, as SMT-LIB.")]
Seed = Annotated[int, Parameter(help="The engines' random seed.")]


def command(
    *,
    only: Only = (),
    engine: Engines = "z3,cvc5",
    smt2: Smt2 = None,
    seed: Seed = 0,
    json: Json = False,
    junit: Junit = None,
) -> int:
    """Prove the claims for all sizes, each by two engines.

    Exit 0 only if all are proved; refuted is 1, unknown 3, vacuous 4, two engines that disagree 5.
    """
    out = Output(json)
    if smt2 is not None:
        try:
            smt2.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"--smt2: cannot be made a folder: {error.strerror}", source=str(smt2)) from None
    if seed < 0 or seed >= 2**31:
        raise Failure(f"--seed: {seed} is not in 0 to {2**31 - 1}")
    names = [name.strip() for name in engine.split(",") if name.strip()]
    results = _run(only or None, names, smt2, seed)
    shown: list[Result] = []
    reports: list[TestCase] = []
    started = monotonic()
    for result in results:
        shown.append(result)
        seconds, started = monotonic() - started, monotonic()
        _show(out, result)
        name, outcome = f"{result.id} {result.name}", outcome_of(PROOF_EXITS[result.verdict])
        reports.append(TestCase(name, outcome, result.reason or result.words, result.claim, seconds))
    status = worst(PROOF_EXITS[result.verdict] for result in shown)
    _conclude(out, shown, names, status)
    write_junit(junit, "prove", reports)
    out.answer(
        "prove",
        status,
        {
            "laws": sorted({result.law for result in shown if result.law and result.verdict != "proved"}),
            "engines": names,
            "seed": seed,
            "obligations": [_data(result) for result in shown],
            "assumed": list(ASSUMED),
        },
    )
    return status


def _run(only: tuple[str, ...] | None, engines: list[str], smt2: Path | None, seed: int) -> Iterable[Result]:
    from kvproof.proofs.run import MissingExtra, UnknownClaim, UnknownEngine, prove

    try:
        return prove(only, engines, smt2, seed)
    except MissingExtra as error:
        raise Failure(str(error)) from None
    except UnknownEngine as error:
        raise Failure(f"--engine: {error}") from None
    except UnknownClaim as error:
        raise Failure(f"--only: {error}") from None


def _show(out: Output, result: Result) -> None:
    engines = "  ".join(f"{name} {answer.answer} ({answer.units:,} units)" for name, answer in result.engines.items())
    style = "good" if result.verdict == "proved" else "bad"
    out.line(f"{result.id:<4} {result.verdict:<9} {result.name.replace('_', ' ')}", style)
    false = result.kind == "refutation" and result.verdict == "proved"
    out.line(f"     {'Shown false, as it must be: ' if false else ''}{result.claim}")
    out.line(f"     {engines}", "dim")
    if result.reason:
        out.line(f"     {result.reason}")
    if result.words:
        out.line(f"     {result.words}")
    if result.verdict != "proved" and result.counterexample:
        numbers = ", ".join(f"{name} = {value}" for name, value in result.counterexample.items())
        out.line(f"     where {numbers}")


def _conclude(out: Output, results: list[Result], engines: list[str], status: Exit) -> None:
    out.line()
    kinds = ", ".join(
        plural(sum(result.kind == kind for result in results), kind)
        for kind in ("lemma", "theorem", "refutation")
        if any(result.kind == kind for result in results)
    )
    verdicts = tally(result.verdict for result in results)
    style = "good" if status == Exit.OK else "bad"
    out.line(f"{plural(len(results), 'claim')} by {' and '.join(engines)}: {verdicts} ({kinds})", style)
    for text in ASSUMED:
        out.line(text, "dim")


def _data(result: Result) -> dict[str, Any]:
    return {
        "id": result.id,
        "name": result.name,
        "claim": result.claim,
        "kind": result.kind,
        "law": result.law,
        "verdict": result.verdict,
        "engines": {name: {"answer": answer.answer, "units": answer.units} for name, answer in result.engines.items()},
        "reason": result.reason or None,
        "words": result.words or None,
        "witness": {name: str(value) if is_wide(value) else value for name, value in result.counterexample.items()},
    }


def is_wide(value: Any) -> bool:
    """An integer that JSON readers may not hold exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53
