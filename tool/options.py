# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, for cyclopts: strict about numbers and about paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from kvproof.failure import STDIN, Failure

SEED_LIMIT = 2**31 - 1
SECONDS_LIMIT = 7 * 86_400
WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def whole(low: int, high: int) -> Parameter:
    """An option that is a whole number: no fraction, no word."""

    def convert(option: str, text: str) -> int:
        if not WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise Failure(f"{option}: {text!r} is not a whole number from {low} to {high}")
        return int(text)

    return Parameter(converter=_one(convert))


def seconds() -> Parameter:
    """An option that is a time."""

    def convert(option: str, text: str) -> float:
        if not NUMBER.fullmatch(text) or not 0 < float(text) <= SECONDS_LIMIT:
            raise Failure(f"{option}: {text!r} is not a number of seconds above 0, and at most {SECONDS_LIMIT}")
        return float(text)

    return Parameter(converter=_one(convert))


def output_path(option: str, text: str) -> Path:
    """A path to write to."""
    if text == STDIN:
        raise Failure(f"{option}: '-' is for standard input; this needs a path to write to")
    if not text:
        raise Failure(f"{option}: the path is empty")
    return Path(text)


def _one(convert: Callable[[str, str], Any]) -> Callable[[Any, Sequence[Token]], Any]:
    """A converter of one word, in the form that cyclopts wants."""
    return lambda _kind, tokens: convert(tokens[0].keyword or "", tokens[0].value)


OutputPath = Parameter(converter=_one(output_path))
Seed = whole(0, SEED_LIMIT)
Json = Annotated[bool, Parameter(negative=(), help="Answer in JSON, errors too.")]
Junit = Annotated[Path | None, OutputPath, Parameter(help="Write a JUnit report to this file, too.")]
FaultName = Annotated[str | None, Parameter(help="A faulty rule by name; `kvproof faults` lists them.")]
Flag = Annotated[bool, Parameter(negative=())]
CaseFile = Annotated[str, Parameter(help="A case file, the name of a built-in case, or - for standard input.")]
CaseFiles = Annotated[str, Parameter(help="Case files, folders, or names of built-in cases; nothing: all of those.")]
