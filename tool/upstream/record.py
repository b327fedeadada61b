# SPDX-License-Identifier: Apache-2.0
"""Writes ``expected.toml`` from what releases did: ``python -m kvproof.upstream.record ANSWER.json…``.

The answers are those of ``kvproof upstream --release all --json``, one for each connector. What comes out is to be read
before it is committed: it says that the releases do this, not that it is right.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from kvproof.upstream.matrix.expectations import Expected
from kvproof.upstream.targets.releases import SUPPORTED

HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# What each supported release does with each built-in case: written by `python -m kvproof.upstream.record`, then read.
# A release that does something else fails `make upstream`. It is an observation, not a judgement of what is right.
format = 1
"""
REASON_LENGTH = 70
WITH_REASON = ("refused", "crashed", "not-covered")


def main(files: Sequence[str]) -> None:
    """Print the file."""
    answers = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    sys.stdout.write(recorded(answers))


def recorded(answers: Sequence[dict[str, Any]]) -> str:
    """The text of the file."""
    blocks = [HEAD]
    for answer in answers:
        blocks.append(f"[connector.{answer['connector']}]\n" + "".join(_case(*item) for item in _by_case(answer)))
    return "\n".join(blocks)


def _by_case(answer: dict[str, Any]) -> list[tuple[str, list[tuple[str, Expected]]]]:
    """Case: releases, from old to new, and what each did."""
    found: dict[str, dict[str, Expected]] = {}
    for row in answer["rows"]:
        found.setdefault(row["case"], {})[row["target"]] = expected_of(row)
    return [
        (case, [(release, did[release]) for release in SUPPORTED if release in did])
        for case, did in sorted(found.items())
    ]


def expected_of(row: dict[str, Any]) -> Expected:
    """What is to be expected of a release that gave this row of an answer."""
    over = {
        group: (Fraction(*ratio).numerator, Fraction(*ratio).denominator)
        for group, ratio in row["ratios"].items()
        if ratio[0] > ratio[1] > 0
    }
    return Expected(
        verdict=row["verdict"],
        needless=bool(row["needless"]),
        laws=tuple(row["laws"]),
        reach=row["reached"]["tag"] if row["reached"] is not None else None,
        ratio=over,
        reason=_gist(row["reason"]) if row["verdict"] in WITH_REASON else None,
    )


def _gist(reason: str) -> str:
    """The beginning of a reason, without the target's name before it and the line number after it."""
    reason = re.sub(r"^vllm [^:]*: ", "", reason)
    reason = re.sub(r" \(\S+:\d+, [^)]*\)$", "", reason)
    return reason if len(reason) <= REASON_LENGTH else reason[:REASON_LENGTH].rpartition(" ")[0]


def _case(name: str, did: Sequence[tuple[str, Expected]]) -> str:
    """The lines of one case: neighbours that do the same are one line."""
    runs: list[tuple[list[str], Expected]] = []
    for release, expected in did:
        if runs and runs[-1][1] == expected and _follows(runs[-1][0][-1], release):
            runs[-1][0].append(release)
        else:
            runs.append(([release], expected))
    lines = "".join(f"  {_line(*run)},\n" for run in runs)
    return f"{name} = [\n{lines}]\n"


def _follows(earlier: str, later: str) -> bool:
    return SUPPORTED.index(later) == SUPPORTED.index(earlier) + 1


def _line(releases: Sequence[str], expected: Expected) -> str:
    first = None if releases[0] == SUPPORTED[0] else releases[0]
    last = None if releases[-1] == SUPPORTED[-1] else releases[-1]
    data = msgspec.to_builtins(msgspec.structs.replace(expected, first=first, last=last))
    kept = {key: value for key, value in data.items() if value not in (None, (), [], {}, False)}
    return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in kept.items()) + " }"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return "true" if value is True else json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main(sys.argv[1:])
