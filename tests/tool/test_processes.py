# SPDX-License-Identifier: Apache-2.0
"""The entry point as a process of its own."""

import os
import pty
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from commands import PADDED_TAIL, REGRESSIONS, kvproof

from kvproof import application

KVPROOF = Path(sys.executable).with_name("kvproof")
ROOT = Path(__file__).parent.parent.parent


def run(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    words = [str(KVPROOF), *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120, env=environment)


def test_plain_text_without_escapes_when_piped() -> None:
    done = run("check", "--fault", "suffix-selection", PADDED_TAIL)
    assert done.returncode == 1
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "tokens 0–63 come from P0 page 21, which holds tokens 64–127" in done.stdout.splitlines()[0]


def test_colours_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen([KVPROOF, "check", PADDED_TAIL], stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    assert process.returncode == 0
    assert b"\x1b[32mok    hisparse-padded-tail" in shown


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


def test_reader_that_goes_away_changes_nothing() -> None:
    with subprocess.Popen([KVPROOF, "check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        words = process.stderr.read()
    assert (process.returncode, words) == (0, b"")


def test_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([KVPROOF, "faults"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "kvproof: cannot write the answer: No space left on device\n")


def test_ascii_output_is_escaped() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run("check", "--fault", "suffix-selection", PADDED_TAIL, environment=environment)
    assert done.returncode == 1
    assert "tokens 0\\u201363" in done.stdout


def test_interrupt_is_exit_130() -> None:
    process = subprocess.Popen(
        [KVPROOF, "check", PADDED_TAIL, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"ok")
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=120)
    assert (process.returncode, words) == (130, b"kvproof: interrupted\n")


def test_internal_error_is_one_line_and_exit_70(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(words: list[str]) -> int:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(application, "run", fails)
    ran = kvproof("check", "--json")
    assert ran.status == 70
    assert ran.err.startswith("kvproof: internal error: ZeroDivisionError: division by zero")
    assert ran.err.count("\n") == 1
    assert (ran.data["verdict"], ran.data["exit"]) == ("fault", 70)


def test_wheel_elsewhere_finds_its_cases(tmp_path: Path) -> None:
    source = tmp_path / "source"
    ignored = ignore_patterns(".venv", ".git", "build", "tests", ".*_cache", "__pycache__")
    copytree(ROOT, source, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", tmp_path, source], check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    script = "import sys, kvproof; print(kvproof.__file__); from kvproof.cli import main; sys.exit(main(['check']))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(str(site))
    assert f"{len(list(REGRESSIONS.glob('*.toml')))} cases" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
