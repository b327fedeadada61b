# SPDX-License-Identifier: Apache-2.0
"""pip as a process: it follows the user's own configuration, mirrors and proxies included."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kvproof.failure import Failure

UNREACHED = " (no package index that pip is configured with was reached, or none has it)"

_NO_VERSION = "(from versions: none)"
_SHOWN_LINES = 3
_IDLE = ("WARNING", "[notice]")


def run(python: Path, *words: str, doing: str, seconds: float) -> str:
    """The standard output of ``python -m pip …`` (any module in place of pip). Raises Failure with its last lines."""
    try:
        done = subprocess.run(
            [str(python), "-I", "-m", *words],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{doing}: not done after {seconds:g} s") from None
    except OSError as error:
        raise Failure(f"{doing}: {python} cannot be run: {error.strerror or error}") from None
    if done.returncode:
        said = last_lines(done.stderr) or last_lines(done.stdout) or f"exit status {done.returncode}"
        raise Failure(f"{doing}: {said}{UNREACHED if _NO_VERSION in said else ''}")
    return done.stdout


def last_lines(text: str) -> str:
    """The last lines that say something, as one."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_IDLE)]
    return " / ".join(lines[-_SHOWN_LINES:])
