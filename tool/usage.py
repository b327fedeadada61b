# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command line, in our words."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from cyclopts import CycloptsError
from cyclopts.exceptions import UnknownCommandError, UnusedCliTokensError

HINT = "(see `kvproof --help`)"
NO = ("no", "n", "0", "false", "f")
"""Values of a flag that the parser takes for no."""


def usage_words(error: CycloptsError, words: Sequence[str], commands: Sequence[str]) -> str:
    """One line on what the parser objects to."""
    if isinstance(error, UnknownCommandError) and words:
        return f"{_unknown_command(words[0], commands)} {HINT}"
    if isinstance(error, UnusedCliTokensError):
        tokens = [repr(token) for token in error.unused_tokens or ()]
        return f"more arguments than {words[0]} takes: {', '.join(tokens)} {HINT}"
    return f"{' '.join(str(error).split()).rstrip('.')} {HINT}"


def _unknown_command(word: str, commands: Sequence[str]) -> str:
    known = f"there are {', '.join(commands)}"
    if word.startswith("-"):
        return f"no command before {word!r}; {known}"
    close = get_close_matches(word, commands, 1)
    return f"no command is called {word!r}{f', perhaps {close[0]}' if close else ''}; {known}"


def json_asked(words: Sequence[str]) -> bool:
    """Whether the words ask for JSON, as the parser decides it: the last --json counts, nothing after `--` does."""
    asked = False
    for word in words:
        if word == "--":
            break
        if word == "--json":
            asked = True
        elif word.startswith("--json="):
            asked = word.removeprefix("--json=").lower() not in NO
    return asked
