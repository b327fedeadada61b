# SPDX-License-Identifier: Apache-2.0
"""The two processes of a transfer, seen from their parent: started together, asked together, ended together.

They are killed by the kernel when the thread that started them ends; start and use a pair in one thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import IO

from kvproof.gpu_impl.channel import Channel, ChannelClosed, ChannelSlow
from kvproof.gpu_impl.errors import MissingExtra, TransferUnfinished
from kvproof.gpu_impl.messages import Failed, Hello, Leave, Missing
from kvproof.spec.vocabulary import Role

ROLES: tuple[Role, ...] = ("producer", "consumer")
LEAVE_SECONDS = 2.0
KILL_SECONDS = 10.0
_LOG_BYTES = 400

_ENVIRONMENT = {
    "NIXL_LOG_LEVEL": "ERROR",
    "UCX_LOG_LEVEL": "error",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
    "OMP_NUM_THREADS": "1",
}


class Process:
    """One child with its channel and its log."""

    def __init__(self, role: Role, device: str) -> None:
        ours, theirs = socket.socketpair()
        self.role = role
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- it lives as long as the process
        self.channel = Channel(ours)
        command = [sys.executable, "-P", "-m", "kvproof.gpu_impl.child"]
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [*command, str(theirs.fileno()), role, device, str(os.getpid())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=self.log,
                    stderr=self.log,
                    env={**_ENVIRONMENT, **os.environ},
                )
        except OSError:
            self.channel.close()
            self.log.close()
            raise

    def kill(self) -> None:
        """End the process, whatever it does, and wait until it is gone."""
        if self.process.poll() is None:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(KILL_SECONDS)
        self.channel.close()
        self.log.close()

    def ended(self) -> str:
        """How it ended, for a reader, with the last words of its log."""
        try:
            code = self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            return f"the {self.role}'s process closed its channel"
        how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
        return f"the {self.role}'s process ended ({how}){self.last_words()}"

    def last_words(self) -> str:
        """The end of its log, where it wrote one."""
        self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, self.log.tell() - _LOG_BYTES))
        text = " ".join(self.log.read().decode(errors="replace").split())
        return f"; its log ends: {text}" if text else ""


class Pair:
    """A producer and a consumer process, both ready. Any failure means that the pair should be killed."""

    def __init__(self, device: str, until: float) -> None:
        self.processes: dict[Role, Process] = {}
        self._open = True
        try:
            for role in ROLES:
                self.processes[role] = Process(role, device)
            hellos = self._collect(ROLES, until, "starting")
        except BaseException:
            self.kill()
            raise
        for hello in hellos.values():
            if not isinstance(hello, Hello):
                self.kill()
                raise TransferUnfinished(f"a process answered {type(hello).__name__} when started")
        producer, consumer = (hellos[role] for role in ROLES)
        assert isinstance(producer, Hello) and isinstance(consumer, Hello)
        self.version = consumer.version
        self.cuda = producer.cuda and consumer.cuda

    def ask(self, requests: Mapping[Role, object], until: float, doing: str) -> dict[Role, object]:
        """Send requests, and wait for all answers. ``TransferUnfinished`` if any of it fails."""
        for role, request in requests.items():
            try:
                self.processes[role].channel.send(request, until)
            except ChannelClosed:
                raise TransferUnfinished(f"{self.processes[role].ended()} while {doing}") from None
            except ChannelSlow:
                raise self._late(role, doing) from None
        return self._collect(tuple(requests), until, doing)

    def close(self) -> None:
        """Let both processes leave, and kill whichever does not."""
        until = time.monotonic() + LEAVE_SECONDS
        for process in self.processes.values() if self._open else ():
            with contextlib.suppress(ChannelClosed, ChannelSlow):
                process.channel.send(Leave(), until)
        for process in self.processes.values() if self._open else ():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.process.wait(max(0.0, until - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """Kill both processes."""
        if self._open:
            self._open = False
            for process in self.processes.values():
                process.kill()

    def _collect(self, roles: tuple[Role, ...], until: float, doing: str) -> dict[Role, object]:
        answers: dict[Role, object] = {}
        # Every process is watched, asked or not: that one ended is a reason at once, not at the deadline.
        watched = {process.channel.fileno(): process for process in self.processes.values()}
        while len(answers) < len(roles):
            left = until - time.monotonic()
            ready = select.select(list(watched), [], [], max(left, 0.0))[0]
            if not ready:
                raise self._late(next(role for role in roles if role not in answers), doing)
            for descriptor in ready:
                process = watched[descriptor]
                try:
                    answer = process.channel.receive(until)
                except ChannelClosed:
                    raise TransferUnfinished(f"{process.ended()} while {doing}") from None
                except ChannelSlow:
                    raise self._late(process.role, doing) from None
                if isinstance(answer, Missing):
                    raise MissingExtra(answer.detail)
                if isinstance(answer, Failed):
                    raise TransferUnfinished(f"{answer.words}{process.last_words()}")
                answers[process.role] = answer
        return answers

    def _late(self, role: Role, doing: str) -> TransferUnfinished:
        return TransferUnfinished(f"the deadline passed while {doing}, waiting for the {role}")
