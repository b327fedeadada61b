# SPDX-License-Identifier: Apache-2.0
"""``kvproof fuzz``: do all routes agree on geometries nobody thought of?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from kvproof.exits import Exit, worst
from kvproof.interrupts import Held
from kvproof.options import SEED_LIMIT, FaultName, Json, OutputPath, seconds, whole
from kvproof.output import Output, remark
from kvproof.places import unwritable, usable_folder
from kvproof.sources import fault_named
from kvproof.words import plural

if TYPE_CHECKING:
    from kvproof.fuzzing.run import Finding, FuzzReport

Seconds = Annotated[float, seconds(), Parameter(help="How long to try new cases.")]
Seed = Annotated[int, whole(0, SEED_LIMIT), Parameter(help="Decides the cases; how many, the machine does.")]
Folder = Annotated[Path | None, OutputPath, Parameter(help="Where found cases go; ./kvproof-fuzz by default.")]

UNSEEN_SHOWN = 10

NOT_PROVEN = "A search, not a proof: what it did not try, it does not know."


def command(
    *, seconds: Seconds = 60.0, seed: Seed = 0, fault: FaultName = None, out: Folder = None, json: Json = False
) -> int:
    """Compare all routes on random geometries; what disagrees is shrunk to a case file.

    Exit 0 if nothing disagrees, 5 if something does. With --fault, looks for a case on which that rule goes wrong
    instead: exit 1 if there is one, 3 if none was found.
    """
    output = Output(json)
    fault_named(fault)
    usable_folder("--out", out)
    with Held():
        from kvproof.fuzzing.differ import load_tensors
        from kvproof.fuzzing.run import fuzz

        if fault is None:
            load_tensors()
    report = fuzz(seconds, seed, fault, out, _progress())
    status = _status(report)
    if report.unwritten is not None:
        remark(unwritable("--out", Path(report.unwritten.filename or "."), report.unwritten).line)
        status = worst((status, Exit.USAGE))
    _show(output, report, status)
    output.answer(
        "fuzz",
        status,
        {
            "laws": sorted({law for finding in report.findings for law in finding.laws}),
            "seed": report.seed,
            "fault": report.fault,
            "seconds": report.seconds,
            "cases": report.cases,
            "refused": report.refused,
            "features": report.features,
            "unseen": list(report.unseen),
            "findings": [_data(finding) for finding in report.findings],
            "left_out": _left_out(report),
            "not_proven": [NOT_PROVEN],
        },
    )
    return status


def _status(report: FuzzReport) -> Exit:
    if report.fault is not None:
        return Exit.BROKEN if report.findings else Exit.UNKNOWN
    return worst(Exit.FAULT if finding.check == "reference" else Exit.DISAGREEMENT for finding in report.findings)


def _show(out: Output, report: FuzzReport, status: Exit) -> None:
    style = {Exit.OK: "good", Exit.UNKNOWN: "doubt"}.get(status, "bad")
    for finding in report.findings:
        first, *more = finding.words.splitlines() or [""]
        out.line(f"{finding.check}: {first}", style)
        for text in more:
            out.line(f"    {text}")
        out.line(f"    case {finding.number} of seed {report.seed}, shrunk: {finding.path or 'in no file, see above'}")
    tried = f"{plural(report.cases, 'case')} in {report.seconds:.1f} s, seed {report.seed}"
    if report.fault is None:
        found = plural(len(report.findings), "disagreement") if report.findings else "no disagreement"
    else:
        found = f"{report.fault} goes wrong" if report.findings else f"no case on which {report.fault} goes wrong"
    out.line(f"{found}; {tried}", style)
    if report.fault is None:
        seen = len(report.features)
        rest = f" and {len(report.unseen) - UNSEEN_SHOWN} more" if len(report.unseen) > UNSEEN_SHOWN else ""
        missing = f"; not seen: {', '.join(report.unseen[:UNSEEN_SHOWN])}{rest}" if report.unseen else ""
        out.line(f"{seen} of {seen + len(report.unseen)} features of the geometry exercised{missing}")
    for text in _left_out(report):
        out.line(text, "doubt")
    out.line(NOT_PROVEN, "dim")


def _left_out(report: FuzzReport) -> list[str]:
    """What this installation cannot compare."""
    if report.fault is not None or find_spec("torch") is not None:
        return []
    return ["left out: gpu_impl on tensors, for want of torch: pip install 'kvproof[transfer]'"]


def _data(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "number": finding.number,
        "words": finding.words,
        "laws": list(finding.laws),
        "file": finding.path,
        "case": finding.case.name,
    }


def _progress() -> Callable[[int, float], None] | None:
    """A line on standard error that is rewritten, where somebody can see it."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    shown = -1

    def show(cases: int, seconds: float) -> None:
        nonlocal shown
        if int(seconds) != shown:
            shown = int(seconds)
            remark(f"\r{plural(cases, 'case')}, {shown} s \r", raw=True)

    return show
