# SPDX-License-Identifier: Apache-2.0
"""A command that cannot answer: one line for the user, and the exit status."""

from __future__ import annotations

from kvproof.exits import WORDS, Exit


class Failure(Exception):
    """Raised by commands, caught by the command line.

    ``source`` is the file that is to blame, if one is; ``verdict`` says more than the exit status does, if anything.
    """

    def __init__(
        self, words: str, *, source: str | None = None, status: Exit = Exit.USAGE, verdict: str | None = None
    ) -> None:
        super().__init__(words)
        self.words = words
        self.source = source
        self.status = status
        self.verdict = verdict or WORDS[status]

    @property
    def line(self) -> str:
        """What standard error shows."""
        return f"{self.source or 'kvproof'}: {self.words}"
