# SPDX-License-Identifier: Apache-2.0
"""Writing answers: to a terminal with colours, to anything else as plain text, or as JSON. Notes go to standard error.

Whatever comes out of a file is printed with its control characters escaped: a case cannot drive anybody's terminal.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any, TextIO, cast

import msgspec

from kvproof.exits import WORDS, Exit
from kvproof.failure import Failure, shortened

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
SURROGATE = re.compile(r"[\ud800-\udfff]")
"""What no encoding can write: Python's spelling of bytes in file names that are no text."""
NOT_ASCII = re.compile(r"[^\x00-\x7f]")
PADDING = re.compile(r"[ ]+\n")
LATE_CONTROL = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

STYLES = {"good": "green", "bad": "bold red", "doubt": "yellow", "dim": "dim", "head": "bold"}


def clean(text: str) -> str:
    """The text as one line without control characters, and all of it text."""
    text = SURROGATE.sub(lambda match: _byte_words(match[0]), text)
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def _byte_words(surrogate: str) -> str:
    number = ord(surrogate)
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else f"\\u{number:04x}"


class AnswerStream(io.TextIOBase):
    """Standard output for libraries that print: what goes wrong there goes wrong in our way."""

    def write(self, text: str) -> int:
        write(sys.stdout, text if self.isatty() else PADDING.sub("\n", text))
        return len(text)

    def isatty(self) -> bool:
        return sys.stdout.isatty()


def answer_stream() -> IO[str]:
    """An AnswerStream for those who want a file."""
    return cast(IO[str], AnswerStream())


class Output:
    """Where one command writes its answer."""

    def __init__(self, json: bool = False) -> None:
        self.json = json
        self.terminal = not json and sys.stdout.isatty()

    def line(self, text: str = "", style: str | None = None) -> None:
        """One line of the answer. Nothing where the answer is JSON."""
        if self.json:
            return
        if self.terminal and style is not None:
            from rich.console import Console
            from rich.text import Text

            words = Text(clean(text), style=STYLES[style])
            Console(file=answer_stream(), highlight=False, soft_wrap=True).print(words)
        else:
            write(sys.stdout, clean(text) + "\n")

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]], indent: int = 2) -> None:
        """Columns. All but the last are as wide as their widest value."""
        if self.json:
            return
        cells = [[clean(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        for number, row in enumerate([list(heads), *cells]):
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.line(" " * indent + text.rstrip(), "dim" if number == 0 else None)

    def note(self, text: str) -> None:
        """A remark beside the answer."""
        remark(text)

    def answer(self, command: str, status: Exit, data: dict[str, Any]) -> None:
        """The whole answer, where JSON was asked for."""
        if self.json:
            emit(envelope(command, status, data))


def envelope(command: str | None, status: Exit, data: dict[str, Any]) -> dict[str, Any]:
    """What every JSON answer begins with. A judgement in the data brings its own verdict and laws."""
    return {"format": 1, "command": command, "verdict": WORDS[status], "exit": int(status), "laws": [], **data}


def emit(data: Any) -> None:
    """JSON to standard output, indented, one document, always UTF-8: ASCII where another encoding is set."""
    plain = codecs.lookup(getattr(sys.stdout, "encoding", None) or "ascii").name != "utf-8"
    if plain and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="ascii")
    text = json.dumps(msgspec.to_builtins(data, str_keys=True), indent=2, ensure_ascii=False)
    text = SURROGATE.sub(lambda match: "\\" + _byte_words(match[0]), text)
    text = LATE_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    if plain:
        text = NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)
    write(sys.stdout, text + "\n")


def remark(text: str, *, raw: bool = False) -> None:
    """A line on standard error, or the text as it is. One that cannot be written changes nothing."""
    with contextlib.suppress(Failure, ValueError):
        write(sys.stderr, text if raw else clean(shortened(text)) + "\n")


def write(stream: TextIO, text: str) -> None:
    """Write and flush. A reader that went away ends the writing, not the answer: the exit status still counts."""
    try:
        stream.write(text)
        stream.flush()
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        write(stream, text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError:
        _silence(stream)
    except OSError as error:
        _silence(stream)
        raise Failure(f"cannot write the answer: {error.strerror}") from None


def _silence(stream: TextIO) -> None:
    """Whatever else is written there, by Python's own last flush too, leads nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
