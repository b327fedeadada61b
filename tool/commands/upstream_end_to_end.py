# SPDX-License-Identifier: Apache-2.0
"""``kvproof upstream end-to-end``: two whole engines, one computes and the other one pulls."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from kvproof.exits import worst
from kvproof.failure import Failure
from kvproof.options import Json, seconds
from kvproof.output import Output
from kvproof.words import plural, tally

if TYPE_CHECKING:
    from kvproof.upstream.live.rounds import Found
    from kvproof.upstream.live.scenarios import Scenario

Names = Annotated[str, Parameter(help="What to try; nothing: everything.")]
Python = Annotated[Path | None, Parameter(help="A Python, or a virtual environment, with vLLM for CPU and NIXL in it.")]
Deadline = Annotated[float, seconds(), Parameter(help="Seconds that one prompt may take.")]

NOT_PROVEN = (
    "Shown for one tiny random model and these prompts. Tokens that agree do not show that every byte is right; what",
    "the judge says rests on the lists that were posted, pages being opaque. Zeroes after a transfer are not seen.",
)


def command(*scenarios: Names, python: Python = None, deadline: Deadline = 120.0, json: Json = False) -> int:
    """Let two engines share prompts over NIXL on this machine, judge the transfers, and compare what they say.

    Exit 0 if all is as known of the pinned release or, with --python, as it should be; 1 if not.
    """
    from kvproof.upstream.live.engine import engine_target
    from kvproof.upstream.live.rounds import play
    from kvproof.upstream.targets.target import python_target

    output = Output(json)
    chosen = _chosen(scenarios)
    target = engine_target() if python is None else python_target(python)
    found: list[Found] = []

    def begins(scenario: Scenario) -> None:
        _introduce(output, scenario, target.label)

    with closing(play(target, chosen, deadline, begins=begins, known=python is None)) as rounds:
        for one in rounds:
            found.append(one)
            for line, style in _lines(one):
                output.line(line, style)
    status = worst(one.status for one in found)
    output.line()
    count = tally("WRONG" if one.misses else "right" if one.right else "wrong, as known" for one in found)
    output.line(f"{plural(len(found), 'round')}: {count}", "good" if not status else "bad")
    for text in NOT_PROVEN:
        output.line(text, "dim")
    laws = sorted({law for one in found for law in one.outcome.laws})
    data = {"laws": laws, "action": "end-to-end", "target": target.label, "rounds": [_data(one) for one in found]}
    output.answer("upstream", status, {**data, "not_proven": list(NOT_PROVEN)})
    return status


def _chosen(names: tuple[str, ...]) -> list[Scenario]:
    from kvproof.upstream.live.scenarios import SCENARIOS

    known = {scenario.name: scenario for scenario in SCENARIOS}
    for name in names:
        if name not in known:
            raise Failure(f"{name!r} is none of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)] if names else list(SCENARIOS)


def _introduce(output: Output, scenario: Scenario, label: str) -> None:
    reached = scenario.reached
    output.line(f"{scenario.name}: {scenario.words} ({label}; {', '.join(reached.flags)}; {reached.tag})", "head")
    for text in reached.words:
        output.line(f"  {text}", "dim")


def _lines(one: Found) -> list[tuple[str, str | None]]:
    """A round for people: the verdict, the tokens, and what is wrong."""
    outcome = one.outcome
    laws = f" ({', '.join(outcome.laws)})" if outcome.laws else ""
    mark = "WRONG" if one.misses else "ok   " if one.right else "known"
    said = {True: "same tokens", False: "other tokens", None: "no tokens to compare"}[one.agree]
    if one.round.other and one.agree is False:
        said = "other tokens, as it must be"
    head = f"  {mark} {one.round.name}: {outcome.verdict}{laws}, {said}{_request(one)}; {one.seconds:.1f} s"
    lines: list[tuple[str, str | None]] = [(head, "bad" if one.misses else "good" if one.right else "doubt")]
    lines += [(f"        {text}", None) for text in (outcome.words, *one.misses) if text]
    if one.agree is False and one.pulled is not None and one.alone is not None:
        lines.append((f"        pulled {_few(one.pulled)}, alone {_few(one.alone)}", "dim"))
    return lines


def _request(one: Found) -> str:
    if one.case is None or one.case.request is None:
        return ""
    tables = (
        f"{worker.name} blocks {' | '.join(_few(table.blocks) for table in worker.tables.values())}"
        for worker in one.case.worker
    )
    return f"; {one.case.request.tokens} tokens, {', '.join(tables)}"


def _few(numbers: tuple[int, ...]) -> str:
    shown = " ".join(str(number) for number in numbers[:8])
    return shown + (" …" if len(numbers) > 8 else "")


def _data(one: Found) -> dict[str, Any]:
    """A round for programs."""
    outcome = one.outcome
    return {
        "scenario": one.scenario.name,
        "round": one.round.name,
        "tokens": one.round.tokens,
        "cached_tokens": one.round.cached_tokens,
        "appended": one.round.appended,
        "other": one.round.other,
        "exit": int(one.status),
        "verdict": outcome.verdict,
        "laws": list(outcome.laws),
        "reason": outcome.reason,
        "words": outcome.words,
        "agree": one.agree,
        "pulled": one.pulled,
        "alone": one.alone,
        "right": one.right,
        "known": one.known,
        "misses": list(one.misses),
        "reached": msgspec.to_builtins(one.scenario.reached),
        "regions": msgspec.to_builtins(outcome.regions),
        "case": msgspec.to_builtins(one.case) if one.case is not None else None,
        "lists": msgspec.to_builtins(outcome.lists) if outcome.lists is not None else None,
        "seconds": round(one.seconds, 1),
    }
