# SPDX-License-Identifier: Apache-2.0
"""A command that cannot answer: one line for the user, and the exit status."""

from __future__ import annotations

import re

from kvproof.exits import WORDS, Exit

STDIN = "\0-"
"""What the command line turns the argument ``-`` into, so that it is no option; no file can have this name."""

WORD_LIMIT = 240
LINE_LIMIT = 2000
LONG_WORD = re.compile(rf"\S{{{WORD_LIMIT + 1},}}")


class Failure(Exception):
    """Raised by commands, caught by the command line.

    ``source`` is the file that is to blame, if one is; ``verdict`` says more than the exit status does, if anything.
    """

    def __init__(
        self, words: str, *, source: str | None = None, status: Exit = Exit.USAGE, verdict: str | None = None
    ) -> None:
        super().__init__(words)
        self.words = shortened(words)
        self.source = source
        self.status = status
        self.verdict = verdict or WORDS[status]

    @property
    def line(self) -> str:
        """What standard error shows."""
        return f"{self.source or 'kvproof'}: {self.words}"


def shortened(text: str) -> str:
    """The text as a user should see it: the middle of long values, and of a long whole, left out."""
    text = text.replace(STDIN, "-").replace(repr(STDIN)[1:-1], "-")
    text = LONG_WORD.sub(lambda match: _ends(match[0], WORD_LIMIT), text)
    return _ends(text, LINE_LIMIT) if len(text) > LINE_LIMIT else text


def _ends(text: str, limit: int) -> str:
    return f"{text[: limit // 2]}…{text[-limit // 4 :]}"
