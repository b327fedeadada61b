# SPDX-License-Identifier: Apache-2.0
"""Targets that never ran, under `kvproof upstream`: each follows the reference's rules, or a faulty one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import msgspec
import pytest
from targets import observed

from kvproof.reference.faults.registry import FAULTS
from kvproof.reference.rules import LAWFUL, Refusal
from kvproof.spec.scope import Covered, assess
from kvproof.spec.vocabulary import Case
from kvproof.upstream.fuzzing import bench
from kvproof.upstream.matrix import rows
from kvproof.upstream.protocol import Answer, Hello, NotDriven, ProbeFailed, Reached, RefusedBy
from kvproof.upstream.running.lost import Lost
from kvproof.upstream.targets import entrants
from kvproof.upstream.targets.target import Target

REACHED = Reached("worker-level", ("the kernel page is a stub's",), ("P: --block-size 128",))
PLACE = ("vllm/worker.py", 7)
ANSWERS: dict[str, Answer | Lost] = {
    "refuses": RefusedBy("transfer", "ValueError", "no such thing", PLACE, REACHED),
    "refuses politely": RefusedBy("transfer", "ValueError", "this is not supported", PLACE, REACHED),
    "is not driven": NotDriven("this release has no rings", "rings"),
    "breaks the probe": ProbeFailed("KeyError", "'x'", "Traceback"),
    "hangs": Lost("hung", "no answer within 60 s"),
    "dies": Lost("crashed", "ended by signal 11"),
}
"""What a target may do besides following rules."""


class StandIn:
    """In place of `kvproof.upstream.running.session.Session`. ``habits``: target label -> what it does."""

    habits: ClassVar[dict[str, str]] = {}
    versions: ClassVar[dict[str, str]] = {}
    opened: ClassVar[list[str]] = []
    closed: ClassVar[list[str]] = []

    def __init__(self, target: Target, connector: str, nixl: str) -> None:
        self.target = target
        self.hello = Hello("vllm", self.versions.get(target.label, "0.33.0"), {})
        self.opened.append(f"{target.label} {connector} {nixl}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed.append(self.target.label)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        yield Path("nowhere")

    def run(self, case: Case, folder: Path, seconds: float) -> Answer | Lost:
        habit = self.habits.get(self.target.label, "lawful")
        if habit in ANSWERS:
            return ANSWERS[habit]
        scope = assess(case)
        if not isinstance(scope, Covered):
            return RefusedBy("transfer", "ValueError", scope.reason, PLACE, REACHED)
        try:
            seen = observed(case, LAWFUL if habit == "lawful" else FAULTS[habit].rules)
        except Refusal as refusal:
            return RefusedBy("transfer", "ValueError", refusal.reason, PLACE, REACHED)
        return msgspec.structs.replace(seen, reached=REACHED)


def stand_in(monkeypatch: pytest.MonkeyPatch, habits: dict[str, str]) -> None:
    """Let these take the place of all targets, whose labels are releases or paths."""
    StandIn.habits, StandIn.opened[:], StandIn.closed[:] = habits, [], []
    monkeypatch.setattr(rows, "Session", StandIn)
    monkeypatch.setattr(bench, "Session", StandIn)
    monkeypatch.setattr(entrants, "release_target", lambda version: Target(version, Path("python")))
    monkeypatch.setattr(entrants, "source_target", lambda path: Target(str(path), Path("python")))


def know(monkeypatch: pytest.MonkeyPatch, text: str = "") -> None:
    """Let this be all that is known of any release."""
    from kvproof.upstream.matrix.expectations import book_of

    monkeypatch.setattr(rows, "book", lambda: book_of("format = 1\n[connector.nixl-pull]\n" + text))
