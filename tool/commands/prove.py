# SPDX-License-Identifier: Apache-2.0
"""``kvproof prove``: the claims, for all sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from kvproof.exits import PROOF_EXITS, Exit, worst
from kvproof.failure import Failure
from kvproof.interrupts import Held, between
from kvproof.junit import TestCase, outcome_of, write_junit
from kvproof.options import SEED_LIMIT, Json, Junit, OutputPath, whole
from kvproof.output import Output, remark
from kvproof.places import unwritable, usable_folder, writable_file
from kvproof.words import plural, tally

if TYPE_CHECKING:
    from kvproof.proofs.run import Result

PROVED = "Proved of the reference's own functions and the laws' own kernels, for all sizes, ids and tables."
TRUSTED = (
    "Taken on trust: {engines}, the translation of these functions into formulas, that the engines' worlds are "
    "well-formed (W1–W20), and that sources stay unchanged and each byte ends as one of its writes (W18). Of other "
    "code nothing is claimed; `kvproof check` and `kvproof transfer` try it on cases."
)
ONE_ENGINE = "{engine} alone (a weaker claim than that of two engines, which is the default)"
COLUMNS = 116

Only = Annotated[tuple[str, ...], Parameter(negative=(), help="Only the claim of this id or name; repeatable.")]
Engines = Annotated[str, Parameter(help="The engines that must agree, comma-separated.")]
Smt2 = Annotated[Path | None, OutputPath, Parameter(help="Write every query to this folder, as SMT-LIB.")]
Seed = Annotated[int, whole(0, SEED_LIMIT), Parameter(help="The engines' random seed.")]


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
    usable_folder("--smt2", smt2)
    writable_file("--junit", junit)
    names = _engines(engine)
    trouble: list[Exit] = []
    results = _run(only or None, names, smt2, seed, trouble)
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
    status = worst((status, *trouble, write_junit(junit, "prove", reports)))
    out.answer(
        "prove",
        status,
        {
            "laws": sorted({result.law for result in shown if result.law and result.verdict != "proved"}),
            "engines": names,
            "seed": seed,
            "obligations": [_data(result) for result in shown],
            "assumed": assumed(names),
        },
    )
    return status


def assumed(engines: list[str]) -> list[str]:
    """What is taken on trust where these engines agreed."""
    both = f"{' and '.join(engines)} (every claim needs both)"
    trusted = both if len(engines) > 1 else ONE_ENGINE.format(engine=engines[0])
    return [PROVED, *wrap(TRUSTED.format(engines=trusted), COLUMNS)]


def _engines(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if names.count(name) > 1:
            raise Failure(f"--engine: {name} is given twice; one engine cannot agree with itself")
    return names


def _run(
    only: tuple[str, ...] | None, engines: list[str], smt2: Path | None, seed: int, trouble: list[Exit]
) -> Iterator[Result]:
    """The results; and what else went wrong on the way."""
    from kvproof.proofs.run import Unwritten

    try:
        yield from between(iter(_started(only, engines, smt2, seed)))
    except Unwritten as error:
        if smt2 is not None and isinstance(error.__cause__, OSError):
            remark(unwritable("--smt2", smt2, error.__cause__).line)
        trouble.append(Exit.USAGE)


def _started(only: tuple[str, ...] | None, engines: list[str], smt2: Path | None, seed: int) -> Iterable[Result]:
    with Held():
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
    for text in assumed(engines):
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
