# SPDX-License-Identifier: Apache-2.0
"""The entry point. It imports next to nothing, so that an interrupt during imports is answered like any other."""

from __future__ import annotations

import os
import signal
import sys

from kvproof.interrupts import Held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit status."""
    own = arguments is None
    words: list[str] = []
    try:
        words += sys.argv[1:] if arguments is None else arguments
        _open_streams()
        with Held():
            from kvproof import application
        if own:
            sys.unraisablehook = application.quiet
        status = application.answer(words)
        if own:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the answer is given, Python only has to end
        return status
    except KeyboardInterrupt:
        if own:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends the process at once
        from kvproof import application

        return application.interrupted(words)


def _open_streams() -> None:
    """Standard streams that are closed lead nowhere: no other file may get their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
