# SPDX-License-Identifier: Apache-2.0
"""What README.md shows is what the commands print. A line of `…` stands for any lines."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VERIFY = "kvproof prove && kvproof check && kvproof transfer"
VARIES = (
    (re.compile(r"in [0-9.]+ s\b"), "in N s"),
    (re.compile(r"[0-9,]+ units"), "N units"),
    (re.compile(r"\((cpu|cuda)\)$"), "(device)"),
)
"""Times, the solvers' resource units, and whether there is a GPU."""


def samples() -> Iterator[tuple[str, list[str]]]:
    """Each shell line with kvproof in it, after the settings before it, and the lines shown for it."""
    for block in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        if block.startswith("P01 "):
            yield VERIFY, block.splitlines()
            continue
        settings = ""
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            if re.fullmatch(r"[A-Z]+=\S+", command):
                settings += f"{command}; "
            elif command.startswith("kvproof"):
                yield settings + command, shown


def fits(shown: list[str], lines: list[str]) -> bool:
    """The lines are those shown."""
    if not shown:
        return not lines
    if shown[0] == "…":
        return any(fits(shown[1:], lines[start:]) for start in range(len(lines) + 1))
    return bool(lines) and shown[0] == lines[0] and fits(shown[1:], lines[1:])


def even(lines: list[str]) -> list[str]:
    for pattern, word in VARIES:
        lines = [pattern.sub(word, line) for line in lines]
    return lines


@pytest.mark.parametrize(("command", "shown"), list(samples()))
def test_readme_shows_what_is_printed(command: str, shown: list[str], tmp_path: Path) -> None:
    if command == VERIFY:
        for package in ("z3", "cvc5", "torch", "nixl"):
            pytest.importorskip(package)
    (tmp_path / "cases").symlink_to(ROOT / "cases")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert fits(even(shown), even(done.stdout.splitlines())), done.stdout


def test_readme_has_samples() -> None:
    assert len(list(samples())) >= 7
