# SPDX-License-Identifier: Apache-2.0
"""Which commands there are, and what happens when one cannot answer."""

from __future__ import annotations

import os
import sys
import traceback
from _thread import interrupt_main
from importlib import import_module
from pathlib import Path
from threading import Timer

from cyclopts import App, CycloptsError
from rich.console import Console

from kvproof.exits import Exit
from kvproof.failure import STDIN, Failure
from kvproof.output import answer_stream, emit, envelope, remark
from kvproof.usage import json_asked, usage_words

COMMANDS = ("prove", "check", "plan", "judge", "transfer", "explain", "fuzz", "upstream", "faults", "schema")
HELP_COLUMNS = 120
"""Where nobody's terminal has a width."""


def application() -> App:
    """The application. Its commands import solvers, torch and NIXL only when they are called."""
    terminal = sys.stdout.isatty()
    app = App(
        name="kvproof",
        help="Does every byte of a moved KV cache land where its token belongs?",
        help_flags=("--help", "-h"),
        help_formatter="default" if terminal else "plain",
        console=Console(file=answer_stream(), width=None if terminal else HELP_COLUMNS),
        version_flags=(),
        suppress_keyboard_interrupt=False,
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
    )
    for name in COMMANDS:
        app.command(import_module(f"kvproof.commands.{name}").command, name=name)
    app.command(import_module("kvproof.commands.version").command, name="--version")
    return app


def answer(words: list[str]) -> int:
    """Run one command, whatever comes of it; the return value is the exit status."""
    try:
        return run(words)
    except Failure as error:
        failure = error
    except CycloptsError as error:
        failure = Failure(usage_words(error, words, COMMANDS))
    except Exception as error:
        failure = internal(error)
    return report(failure, words)


def interrupted(words: list[str]) -> int:
    """The answer to an interrupt."""
    return report(Failure("interrupted", status=Exit.INTERRUPTED), words)


def run(words: list[str]) -> int:
    """Run one command; whatever goes wrong is raised."""
    result = application()([STDIN if word == "-" else word for word in words])
    return int(result) if isinstance(result, int) else Exit.OK


def quiet(unraisable: sys.UnraisableHookArgs) -> None:
    """An interrupt may hit a clean-up, where Python drops it: send it again. What else fails there is not for users."""
    if unraisable.exc_type is KeyboardInterrupt:
        Timer(0.05, interrupt_main).start()
    elif os.environ.get("KVPROOF_TRACEBACK"):
        sys.__unraisablehook__(unraisable)


def internal(error: Exception) -> Failure:
    """An error that is kvproof's own."""
    if os.environ.get("KVPROOF_TRACEBACK"):
        remark("".join(traceback.format_exception(error)), raw=True)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    hint = "a fault in kvproof, please report it; KVPROOF_TRACEBACK=1 shows the traceback"
    return Failure(f"internal error: {type(error).__name__}: {error}{where} ({hint})", status=Exit.FAULT)


def report(failure: Failure, words: list[str]) -> Exit:
    """One line on standard error; and the same as JSON where JSON was asked for. Never fails itself."""
    remark(failure.line)
    if json_asked(words):
        command = words[0] if words and words[0] in COMMANDS else None
        data = {"verdict": failure.verdict, "file": failure.source, "error": failure.words}
        try:
            emit(envelope(command, failure.status, data))
        except Failure:
            return failure.status
    return failure.status
