# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed or full: the exit status stays what the answer deserves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import PADDED_TAIL, edited

KVPROOF = Path(sys.executable).with_name("kvproof")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "K": str(KVPROOF), "P": str(PADDED_TAIL), **environment}
    return subprocess.run(["bash", "-c", command], capture_output=True, timeout=120, env=environment, check=False)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("check $P", 0),
        ("check --json $P", 0),
        ("check --fault suffix-selection $P", 1),
        ("plan $P", 0),
        ("explain $P", 0),
        ("--help", 0),
        ("chekc", 2),
        ("chekc --json", 2),
        ("check missing.toml", 2),
    ],
)
def test_closed_streams(command: str, status: int, closed: str) -> None:
    done = shell(f'"$K" {command} {closed}')
    assert done.returncode == status
    assert b"Traceback" not in done.stdout + done.stderr
    assert b"internal" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["--help", "chekc", "chekc --json", "check missing.toml", "faults", "check $P"])
@pytest.mark.parametrize("full", [">/dev/full", ">/dev/full 2>/dev/full"])
def test_full_disk(command: str, full: str) -> None:
    done = shell(f'"$K" {command} {full}')
    assert done.returncode == 2
    assert b"internal" not in done.stderr
    assert done.stderr.count(b"\n") == (
        1 if full == ">/dev/full" and "missing" not in command else done.stderr.count(b"\n")
    )


@pytest.mark.parametrize("full", ["2>/dev/full", "2>&-", "2>/dev/full >&-"])
def test_usage_errors_whose_words_cannot_be_written(full: str) -> None:
    assert shell(f'"$K" check --quick {full}').returncode == 2
    assert shell(f'"$K" fuzz --seed 1.5 {full}').returncode == 2


def test_closed_standard_input() -> None:
    done = shell('"$K" check - <&-')
    assert (done.returncode, done.stderr) == (2, b"<stdin>: standard input is closed\n")


@pytest.mark.skipif(
    not Path("/proc/self").exists() or sys.getfilesystemencoding() != "utf-8", reason="names are bytes on Linux"
)
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "utf-16"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_json_is_always_utf_8(tmp_path: Path, environment: dict[str, str]) -> None:
    case = edited(tmp_path, ('title = "P block', 'title = "→ P block'), name=os.fsdecode(b"b\xff\xe9.toml"))
    done = shell(f'"$K" check --json "{tmp_path}"/b*.toml', **environment)
    [entry] = json.loads(done.stdout.decode("utf-8"))["cases"]
    assert entry["file"] == str(case.with_name("b\\xff\\xe9.toml"))
    assert entry["title"].startswith("→ P block")


def test_process_substitution() -> None:
    done = shell('"$K" judge <(cat "$P") <("$K" plan "$P")')
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, b"hisparse-padded-tail: lawful")
