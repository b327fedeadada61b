# SPDX-License-Identifier: Apache-2.0
"""Cases put to one target, one after the other, in as few processes as its behaviour allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from kvproof.interrupts import Held
from kvproof.spec.vocabulary import Case
from kvproof.upstream.protocol import Answer, AskHello, AskRun, Hello, Nixl, NotDriven
from kvproof.upstream.running.lost import Lost
from kvproof.upstream.running.process import PROBES, Seat
from kvproof.upstream.running.scratch import delete, new_folder, scratch
from kvproof.upstream.targets.target import Target

START_SECONDS = 120.0
"""For the imports of a target: 6 s as a rule, a minute on a slow disk with nothing compiled yet."""
STARTS = 2
"""A target that fails to start this often in a row is not started again."""

PROBE_FILES = {
    "nixl-pull": PROBES / "vllm_nixl.py",
    "nixl-push": PROBES / "vllm_nixl.py",
    "mooncake": PROBES / "vllm_mooncake.py",
}


class Way(msgspec.Struct, frozen=True):
    """What is run: which connector, and who moves the bytes. ``seconds`` for one case."""

    connector: str
    nixl: Nixl
    seconds: float


class Session:
    """One target, one connector, one way of moving bytes. Starts the target when first needed, and again after a Lost.

    A context manager: at its end no process of the target, and none of its files, is left.
    """

    def __init__(
        self,
        target: Target,
        connector: str,
        nixl: Nixl = "fake",
        *,
        probe: Path | None = None,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.target = target
        self.connector = connector
        self.nixl: Nixl = nixl
        self.hello: Hello | None = None
        self._probe = probe or PROBE_FILES[connector]
        self._start_seconds = start_seconds
        self._folder = new_folder("kvproof-upstream-")
        self._seat: Seat | None = None
        self._failed_starts = 0
        self._asked = 0
        self._standing: Answer | Lost | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> Hello | Answer | Lost:
        """Make sure that the target is there. Anything but Hello is what every case will get, or this one (Lost)."""
        if self._standing is not None:
            return self._standing
        if self.hello is not None and self._seat is not None and self._seat.quiet():
            return self.hello
        try:
            return self._start()
        except Lost as lost:
            return lost

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder for one `run`. What the target left in it is deleted at the end."""
        with scratch("case-", self._folder) as folder:
            yield folder

    def run(self, case: Case, folder: Path, seconds: float) -> Answer | Lost:
        """Put one case. The time limit is for the case alone: a start has one of its own.

        ``folder`` comes from `scratch`; read what is named in the answer before it closes.
        """
        started = self.start()
        if not isinstance(started, Hello):
            return started
        assert self._seat is not None
        self._asked += 1
        try:
            answer = self._seat.ask(AskRun(self.connector, self.nixl, case, str(folder), self._asked), seconds)
        except Lost as lost:
            return lost
        if isinstance(answer, Hello):
            self._drop()
            return Lost("garbage", f"{self.target.label}: said hello when asked to run a case")
        if answer.number != self._asked:
            self._drop()
            return Lost("garbage", f"{self.target.label}: answered question {answer.number} when asked {self._asked}")
        return answer

    def close(self) -> None:
        """End the target's process, and delete its files."""
        with Held():
            self._drop()
            delete(self._folder)

    def _start(self) -> Hello | Answer:
        """Start a process and say hello. Raises Lost."""
        self._drop()
        home = new_folder("home-", self._folder)
        self._seat = Seat(self.target, self._probe, home, litter=self._folder)
        try:
            answer = self._seat.ask(AskHello(), self._start_seconds)
        except Lost as lost:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                self._standing = lost
            raise
        self._failed_starts = 0
        if not isinstance(answer, Hello):
            self._standing = answer
        elif (unknown := self._unknown(answer)) is not None:
            self._standing = unknown
        else:
            self.hello = answer
            return answer
        self._drop()
        return self._standing

    def _unknown(self, hello: Hello) -> NotDriven | None:
        """What the probe knows of this target does not include what is asked for."""
        modes = hello.connectors.get(self.connector)
        if modes is None:
            known = ", ".join(sorted(hello.connectors)) or "none"
            return NotDriven(
                f"{self.target.label}: the probe drives no {self.connector} here, only {known}", "connector"
            )
        if self.nixl not in modes:
            reason = f"{self.target.label}: the probe drives {self.connector} with {', '.join(modes)} NIXL only"
            return NotDriven(reason, f"{self.nixl} NIXL")
        return None

    def _drop(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.close()
            delete(seat.folder)
