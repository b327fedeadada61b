# SPDX-License-Identifier: Apache-2.0
"""One of the two processes of a transfer: it plays the producer or the consumer, and does what its parent asks.

Run as ``python -P -m kvproof.gpu_impl.child FD ROLE DEVICE PARENT``. It never outlives its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from typing import Any

from kvproof.gpu_impl.channel import Channel, ChannelClosed
from kvproof.gpu_impl.errors import NixlFailure
from kvproof.gpu_impl.messages import (
    Failed,
    Hello,
    Landed,
    Leave,
    Missing,
    Prepare,
    Prepared,
    Read,
    Release,
    Released,
    Verified,
    VerifyLanded,
    VerifyUnchanged,
)

PROGRESS_SECONDS = 0.001
"""How long the producer sleeps between two looks at what the consumer's connection asks for."""

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG in <linux/prctl.h>


class Child:
    """The process's state: an agent for its whole life, and the storages of the job at hand."""

    def __init__(self, channel: Channel, role: str, device: str) -> None:
        import torch

        from kvproof.gpu_impl.agent import Agent

        self.channel = channel
        self.role = role
        self.cuda = device != "cpu" and bool(torch.cuda.is_available())
        if self.cuda:
            torch.zeros(1, device="cuda:0")  # UCX looks for a context when the agent starts
        self.agent = Agent(f"kvproof-{role}-{os.getpid()}")
        self.storages: Any = None
        self.allocations: tuple[Any, ...] = ()
        self.seed = 0
        self.registrations: list[Any] = []
        self.peer: str | None = None

    def serve(self) -> None:
        """Answer requests until told to leave or the parent is gone."""
        self.channel.send(Hello(self.agent.version, self.cuda), None)
        while True:
            while self.role == "producer" and self.registrations and not self.channel.readable(PROGRESS_SECONDS):
                self.agent.progress()
            request = self.channel.receive(None)
            if isinstance(request, Leave):
                return
            try:
                answer = self._answer(request)
            except (NixlFailure, MemoryError, RuntimeError) as error:  # torch reports a full device as RuntimeError
                short = "not enough memory: " if isinstance(error, MemoryError) else ""
                answer = Failed(f"{self.role}, {short}{str(error) or type(error).__name__}")
            self.channel.send(answer, None)

    def _answer(self, request: object) -> object:
        match request:
            case Prepare():
                return self._prepare(request)
            case Read():
                return self._read(request)
            case VerifyUnchanged():
                return self._verify_unchanged(request)
            case VerifyLanded():
                return self._verify_landed(request)
            case Release():
                return self._release()
        raise NixlFailure("reading a request", f"{type(request).__name__} is not known")

    def _prepare(self, request: Prepare) -> Prepared:
        from kvproof.gpu_impl.memory import Storages

        self.storages = Storages(request.allocations, request.device, request.seed)
        self.allocations = request.allocations
        self.seed = request.seed
        indices = range(len(request.allocations))
        addresses = tuple(self.storages.address(index) for index in indices)
        for index in indices:
            registration = self.agent.register(
                addresses[index], self.allocations[index].bytes, self.storages.kind(index)
            )
            self.registrations.append(registration)
        return Prepared(addresses, self.agent.metadata() if self.role == "producer" else b"")

    def _read(self, request: Read) -> Landed:
        started = time.monotonic()
        until = started + request.seconds
        self.peer = self.agent.connect(request.metadata)
        lists = [
            (
                self.agent.prepare("", each.target_rows, each.target_memory),
                self.agent.prepare(self.peer, each.source_rows, each.source_memory),
            )
            for each in request.transfers
        ]
        prepared = time.monotonic()
        for (target, source), each in zip(lists, request.transfers, strict=True):
            self.agent.read(target, each.target_ids, source, each.source_ids, until)
        read = time.monotonic()
        # Only now: a failed read zeroes nothing.
        for zero in request.zeroes:
            self.storages.zero(zero.storage, zero.offset, zero.bytes, zero.stride, zero.count)
        self.storages.synchronize()
        ended = time.monotonic()
        for target, source in lists:
            self.agent.release(target)
            self.agent.release(source)
        return Landed(prepared - started, read - prepared, ended - read)

    def _verify_unchanged(self, request: VerifyUnchanged) -> Verified:
        from kvproof.gpu_impl.verify import unchanged

        return Verified(unchanged(self._memory(), self.seed, request.limit))

    def _verify_landed(self, request: VerifyLanded) -> Verified:
        from kvproof.gpu_impl.verify import arrived, as_planned, zeroed

        memory = self._memory()
        return Verified(
            as_planned(memory, request.sizes, self.seed, request.copies, request.zeroes, request.limit),
            arrived(memory, request.sizes, self.seed, request.required, request.limit),
            zeroed(memory, request.owed, request.limit),
        )

    def _memory(self) -> dict[int, Any]:
        return {each.number: self.storages.host(index) for index, each in enumerate(self.allocations)}

    def _release(self) -> Released:
        if self.peer is not None:
            self.agent.disconnect(self.peer)
            self.peer = None
        while self.registrations:
            self.agent.deregister(self.registrations.pop())
        self.storages, self.allocations = None, ()
        return Released()


def main(arguments: list[str]) -> None:
    """Serve the parent that started this process."""
    descriptor, role, device, parent = arguments
    _die_with(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    channel = Channel(socket.socket(fileno=int(descriptor)))
    with contextlib.suppress(ChannelClosed):
        try:
            child = Child(channel, role, device)
        except ImportError as error:
            channel.send(Missing(str(error)), None)
            return
        except (NixlFailure, RuntimeError) as error:
            channel.send(Failed(f"{role}, {error}"), None)
            return
        child.serve()


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when the parent ends, even while it is stopped or inside NIXL."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # UCX's own tear-down is of no use to anybody, and may wait for a peer that is gone
