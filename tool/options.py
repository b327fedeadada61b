# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, for cyclopts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kvproof.sources import STDIN


def not_stdin(_kind: object, path: Path | None) -> None:
    """Standard input is nothing to write to."""
    if path is not None and str(path) == STDIN:
        raise ValueError("'-' is standard input, nothing to write to")


OutputPath = Parameter(validator=not_stdin)
Json = Annotated[bool, Parameter(negative=(), help="Answer in JSON, errors too.")]
Junit = Annotated[Path | None, OutputPath, Parameter(help="Write a JUnit report to this file, too.")]
FaultName = Annotated[str | None, Parameter(help="A faulty rule by name; `kvproof faults` lists them.")]
Flag = Annotated[bool, Parameter(negative=())]
CaseFile = Annotated[str, Parameter(help="A case file, or - for standard input.")]
CaseFiles = Annotated[str, Parameter(help="Case files or folders; - is standard input. Nothing: the built-in cases.")]
