# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while a target hangs: exit status 130 soon, one line, and nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import PADDED_TAIL

START = "import sys; from kvproof.cli import main; sys.exit(main())"
SECONDS = 30.0


def hanging_environment(folder: Path) -> Path:
    """A virtual environment, to all appearances, whose vllm never comes to be imported. It writes its process id."""
    package = folder / "lib" / "vllm"
    package.mkdir(parents=True)
    words = f"import os, time\nopen({str(folder / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    (package / "__init__.py").write_text(words, encoding="utf-8")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder / "lib"}" exec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return folder


def waited_for(path: Path) -> int:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if path.is_file() and path.read_text(encoding="utf-8"):
            return int(path.read_text(encoding="utf-8"))
        time.sleep(0.05)
    raise AssertionError(f"{path} did not come")


@pytest.mark.parametrize("words", [["upstream"], ["upstream", "--fuzz", "60"]])
@pytest.mark.parametrize("whole_group", [True, False])
def test_interrupt_of_a_hanging_target(tmp_path: Path, words: list[str], whole_group: bool) -> None:
    cases = [] if "--fuzz" in words else [str(PADDED_TAIL)]
    place = ["--python", str(hanging_environment(tmp_path))]
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words, *cases, *place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    pid = waited_for(tmp_path / "pid")
    os.killpg(process.pid, signal.SIGINT) if whole_group else process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (130, b"", b"kvproof: interrupted\n")
    until = time.monotonic() + SECONDS
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, "the target lives on"
        time.sleep(0.05)
