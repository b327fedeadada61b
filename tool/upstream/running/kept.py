# SPDX-License-Identifier: Apache-2.0
"""A process with a keeper of its own (kvproof.upstream.running.keeper), seen from the stand."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time

import msgspec

from kvproof.upstream.running.keeper import END_SECONDS, Launch, Report

CORES = sorted(os.sched_getaffinity(0))
"""Where targets may run: what this process was given, whatever a target did to it since."""

_GRACE_SECONDS = 2.0
_READ_BYTES = 2**16


class Kept:
    """Started when made. Whoever makes one calls `end`, whatever happens; if the stand dies, its keeper sees to it."""

    def __init__(self, launch: Launch) -> None:
        self._keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", "kvproof.upstream.running.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=launch["keep"],
            start_new_session=True,
        )
        try:
            # The keeper reads this first of all, so it need not fit into the pipe at once.
            self._say(json.dumps(launch).encode() + b"\n")
        except BaseException:
            self.end()
            raise

    def ended_within(self, seconds: float) -> bool:
        """Wait for the process to end on its own."""
        assert self._keeper.stdout is not None
        return bool(select.select([self._keeper.stdout], [], [], seconds)[0])

    def end(self) -> Report:
        """End the process and all that it started, at once, and wait until they are gone. To be called once."""
        keeper = self._keeper
        assert keeper.stdin is not None and keeper.stdout is not None
        self._say(b".")
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.close()
        until, said = time.monotonic() + END_SECONDS + _GRACE_SECONDS, b""
        # An interrupt here leaves the keeper alone: it goes on with its work, and then ends.
        with keeper.stdout:
            while self.ended_within(max(0.0, until - time.monotonic())):
                read = os.read(keeper.stdout.fileno(), _READ_BYTES)
                if not read:
                    break
                said += read
        keeper.kill()
        keeper.wait()
        try:
            return msgspec.json.decode(said, type=Report)
        except msgspec.MsgspecError:
            return {"status": None, "log": "", "failed": "its keeper was killed", "left": []}

    def _say(self, data: bytes) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._keeper.stdin.write(data)
            self._keeper.stdin.flush()
