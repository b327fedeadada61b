# SPDX-License-Identifier: Apache-2.0
"""Running kvproof's commands in this process, as the command line does."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvproof.cli import main

REGRESSIONS = Path(__file__).parent.parent / "cases" / "regressions"
PADDED_TAIL = REGRESSIONS / "hisparse-padded-tail.toml"


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def kvproof(*arguments: object, stdin: bytes = b"") -> Ran:
    out, err = io.StringIO(), io.StringIO()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = main([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    return Ran(status, out.getvalue(), err.getvalue())


def edited(folder: Path, *edits: tuple[str, str], name: str = "case.toml", source: Path = PADDED_TAIL) -> Path:
    """A case of ours with some text replaced."""
    text = source.read_text(encoding="utf-8")
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
