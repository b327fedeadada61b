# SPDX-License-Identifier: Apache-2.0
"""A small process between the stand and a target: it sees to it that nothing of the target outlives the stand's wish.

Its input is a `Launch` as one line, and then a byte. When that comes, when the input ends as the stand is dead, or when
the target ends, every descendant is killed, however it hid. Its output is one `Report`. It also takes what the target
prints, and keeps the end of it.

A target that kills its keeper dies with it; only its children, if they hid, are then beyond our reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NotRequired, TypedDict

LOG_BYTES = 4096
END_SECONDS = 10.0
"""How long to go on killing. What the kernel holds on to for longer is named in the report."""

_READ_BYTES = 2**16
_DRAIN_READS = 64
_PAUSE_SECONDS = 0.005
_STDIN = 0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Launch(TypedDict):
    """What to start. ``keep``: descriptors that the target inherits. ``cores``: where it may run, at first.

    ``litter``: a folder to delete if the stand dies, which would have done it.
    """

    command: list[str]
    environment: dict[str, str]
    folder: str
    keep: list[int]
    cores: list[int]
    litter: NotRequired[str]


class Report(TypedDict):
    """How it went. ``status``: as in subprocess; None: the target had to be ended. ``log``: the last it printed.

    ``failed``: what kept the target from being started, or kept. ``left``: process ids that could not be killed.
    """

    status: int | None
    log: str
    failed: str | None
    left: list[int]


def main() -> None:
    """Keep one target. Leaves with its report written, if anybody still reads it."""
    launch: Launch = json.loads(_first_line())
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    log, theirs = os.pipe()
    woken = _wakes()
    try:
        process = _started(launch, theirs)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _write({"status": None, "log": "", "failed": f"could not be started: {error}", "left": []})
    finally:
        for descriptor in (theirs, *launch["keep"]):
            os.close(descriptor)
    printed = _Tail(log)
    status = _watch(process, printed, woken)
    left = end_descendants()
    printed.drain()
    if "litter" in launch and _stand_died():
        shutil.rmtree(launch["litter"], ignore_errors=True)
    return _write({"status": status, "log": printed.text(), "failed": None, "left": left})


def descendants(root: int) -> list[int]:
    """All processes below ``root``, from /proc. Those that end meanwhile may be in it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything, parentheses included.
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def end_descendants() -> list[int]:
    """Kill and reap until there is no child: orphans become children of ours. Returns those that would not go."""
    until = time.monotonic() + END_SECONDS
    while True:
        alive = descendants(os.getpid())
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        if time.monotonic() > until:
            return alive
        time.sleep(_PAUSE_SECONDS)


def _started(launch: Launch, log: int) -> subprocess.Popen[bytes]:
    keeper = os.getpid()

    def prepare() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
        os.sched_setaffinity(0, launch["cores"])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # if memory runs out, it is the target that goes
            Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")

    return subprocess.Popen(
        launch["command"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=launch["folder"],
        env=launch["environment"],
        pass_fds=launch["keep"],
        start_new_session=True,
        preexec_fn=prepare,  # noqa: PLW1509 -- this process has one thread
    )


class _Tail:
    """The end of what comes through a pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor: int | None = descriptor
        self._kept = b""

    def take(self) -> bool:
        """Read once. False: nothing there."""
        if self.descriptor is None:
            return False
        try:
            read = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not read:
            self.descriptor = None
        self._kept = (self._kept + read)[-LOG_BYTES:]
        return bool(read)

    def drain(self) -> None:
        """Read what is still in the pipe."""
        for _ in range(_DRAIN_READS):
            if not self.take():
                return

    def text(self) -> str:
        return self._kept.decode(errors="replace")


def _watch(process: subprocess.Popen[bytes], printed: _Tail, woken: int) -> int | None:
    """Wait for the end of the target or of our input. Returns the target's status, if it ended."""
    while True:
        watched = [_STDIN, woken, *([] if printed.descriptor is None else [printed.descriptor])]
        ready = select.select(watched, [], [])[0]
        if printed.descriptor in ready:
            printed.take()
        if woken in ready:
            os.read(woken, _READ_BYTES)
            if (status := process.poll()) is not None:
                return status
        if _STDIN in ready:
            return process.poll()


def _stand_died() -> bool:
    """Our input ended without the byte that is the stand's wish."""
    return bool(select.select([_STDIN], [], [], 0)[0]) and not os.read(_STDIN, 1)


def _wakes() -> int:
    """A descriptor that can be read from when a child has ended."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken


def _first_line() -> bytes:
    """The launch. Where the stand's byte came with it, there is nothing to start any more: we leave."""
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(_STDIN, _READ_BYTES)
        if not read:
            raise SystemExit(1)
        line += read
    return line


def _write(report: Report) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(report).encode())


_LIBC = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


if __name__ == "__main__":
    main()
    sys.exit()
