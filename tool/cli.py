# SPDX-License-Identifier: Apache-2.0
"""The command line: which commands there are, and what happens when one cannot answer."""

from __future__ import annotations

import os
import sys
import traceback
from _thread import interrupt_main
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import Timer

from cyclopts import App, CycloptsError

from kvproof.exits import Exit
from kvproof.failure import Failure
from kvproof.output import clean, emit, envelope, write
from kvproof.sources import STDIN

COMMANDS = ("prove", "check", "plan", "judge", "transfer", "explain", "fuzz", "faults", "schema")


def application() -> App:
    """The application. Its commands import solvers, torch and NIXL only when they are called."""
    app = App(
        name="kvproof",
        help="Does every byte of a moved KV cache land where its token belongs?",
        help_flags=("--help", "-h"),
        help_formatter="default" if sys.stdout.isatty() else "plain",
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit status."""
    if arguments is None:
        sys.unraisablehook = _quiet
    words = list(sys.argv[1:] if arguments is None else arguments)
    status, failure = Exit.FAULT, None
    try:
        return run(words)
    except Failure as error:
        status, failure = error.status, error
    except CycloptsError as error:
        failure = Failure(_usage_words(error))
        status = failure.status
    except KeyboardInterrupt:
        status, failure = Exit.INTERRUPTED, Failure("interrupted", status=Exit.INTERRUPTED)
    except BrokenPipeError:
        return Exit.OK
    except Exception as error:
        failure = internal(error)
    report(failure, words)
    return status


def _quiet(unraisable: sys.UnraisableHookArgs) -> None:
    """An interrupt may hit a clean-up, where Python drops it: send it again. What else fails there is not for users."""
    if unraisable.exc_type is KeyboardInterrupt:
        Timer(0.05, interrupt_main).start()
    elif os.environ.get("KVPROOF_TRACEBACK"):
        sys.__unraisablehook__(unraisable)


def run(words: list[str]) -> int:
    """Run one command; whatever goes wrong is raised."""
    result = application()([STDIN if word == "-" else word for word in words])
    return int(result) if isinstance(result, int) else Exit.OK


def internal(error: Exception) -> Failure:
    """An error that is kvproof's own."""
    if os.environ.get("KVPROOF_TRACEBACK"):
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    hint = "a fault in kvproof, please report it; KVPROOF_TRACEBACK=1 shows the traceback"
    return Failure(f"internal error: {type(error).__name__}: {error}{where} ({hint})", status=Exit.FAULT)


def report(failure: Failure, words: list[str]) -> None:
    """One line on standard error; and the same as JSON where JSON was asked for."""
    write(sys.stderr, clean(failure.line) + "\n")
    if "--json" in words:
        command = words[0] if words and words[0] in COMMANDS else None
        data = {"verdict": failure.verdict, "file": failure.source, "error": failure.words}
        emit(envelope(command, failure.status, data))


def _usage_words(error: CycloptsError) -> str:
    return f"{' '.join(str(error).split()).rstrip('.')} (see `kvproof --help`)"
