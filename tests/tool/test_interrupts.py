# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any moment: exit status 130 soon, and one line."""

import os
import signal
import subprocess
import sys
import time

import pytest
from commands import PADDED_TAIL

from kvproof.interrupts import Held

START = "import sys; from kvproof.cli import main; print('ready', flush=True); sys.exit(main())"
"""What the console script does, with a sign that Python itself has started, and the few lines of `kvproof.cli`."""


def started(*arguments: object) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", START, *map(str, arguments)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def interrupt(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    os.killpg(os.getpgid(process.pid), signal.SIGINT)  # a terminal sends it to all processes
    asked = time.monotonic()
    _, words = process.communicate(timeout=120)
    assert time.monotonic() - asked < 20
    return process.returncode, words


@pytest.mark.parametrize("delay", [0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("command", [["prove"], ["transfer"], ["check"], ["fuzz", "--seconds", "60"]])
def test_interrupt_during_imports(command: list[str], delay: float) -> None:
    process = started(*command)
    time.sleep(delay)
    # A fast machine may be done by then: the answer counts, whatever was sent after it.
    assert interrupt(process) in ((130, b"kvproof: interrupted\n"), (0, b""))


@pytest.mark.parametrize("command", [["prove"], ["transfer"], ["check", PADDED_TAIL, "-"]])
def test_interrupt_of_the_work(command: list[object]) -> None:
    if command == ["prove"]:
        pytest.importorskip("z3")
        pytest.importorskip("cvc5")
    elif command == ["transfer"]:
        pytest.importorskip("nixl")
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as waiting:
        words = [sys.executable, "-c", START, *map(str, command)]
        process = subprocess.Popen(
            words, stdin=waiting.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        for _ in range(5 if command != ["check", PADDED_TAIL, "-"] else 2):
            process.stdout.readline()
        assert interrupt(process) == (130, b"kvproof: interrupted\n")
        waiting.kill()


def test_interrupt_of_a_search() -> None:
    process = started("fuzz", "--seconds", "60")
    time.sleep(4)
    assert interrupt(process) == (130, b"kvproof: interrupted\n")


def test_interrupt_is_json_where_asked_for() -> None:
    process = started("fuzz", "--seconds", "60", "--json")
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b'"verdict": "interrupted"' in out


def test_entry_point_imports_next_to_nothing() -> None:
    script = "import sys; before = set(sys.modules); import kvproof.cli; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.split(".")[0] not in sys.stdlib_module_names}
    assert loaded == {"kvproof", "kvproof.cli", "kvproof.interrupts"}
    assert len(done.stdout.split()) < 20


def test_interrupt_is_held_back_to_the_end_of_the_block() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), Held():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        reached = True
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with Held():
        pass


def test_ignored_interrupts_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Held():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
