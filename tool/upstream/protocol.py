# SPDX-License-Identifier: Apache-2.0
"""What the stand and a probe say to each other: one JSON document a line, one answer for each question.

A probe is one file that runs inside the target's process and Python environment and knows nothing of kvproof but this
protocol (docs/upstream.md). Addresses and sizes are bytes; ids and counts have no unit.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from kvproof.spec.descriptors import Address, Transfer
from kvproof.spec.vocabulary import Case, Count, Name

PROTOCOL = 1

Nixl = Literal["fake", "real"]
"""``fake``: an agent that records and copies within the process. ``real``: the NIXL library moves the bytes."""

Reach = Literal["reachable", "worker-level", "synthetic"]
"""How a user gets there: by launch flags alone; only where a stub stands in; not, as the target's planner refuses."""

Text = Annotated[str, msgspec.Meta(max_length=20_000)]
Line = tuple[Text, Count]
"""File within the target, and line number."""


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all messages: frozen, unknown keys are errors, since a hostile target may write anything."""


class AskHello(Words, frozen=True, tag_field="ask", tag="hello"):
    """Who are you? Sent first, once."""

    protocol: int = PROTOCOL


class AskRun(Words, frozen=True, tag_field="ask", tag="run"):
    """Build the workers of the case, let them move the request, say what they did.

    ``folder`` is empty and the probe's alone: memory before and after goes there. ``number`` tells this question from
    all others put to the process, and comes back with the answer: a second one to an earlier question is known as such.
    """

    connector: str
    nixl: Nixl
    case: Case
    folder: str
    number: int


class Reply(Words, frozen=True, kw_only=True):
    """Base of all answers to ``run``. ``number`` is the question's."""

    number: int = 0


class Hello(Words, frozen=True, tag_field="answer", tag="hello"):
    """The target: its project and version, and which connectors this probe drives, in which ways."""

    project: str
    version: str
    connectors: dict[str, tuple[Nixl, ...]]
    nixl: str | None = None
    notes: tuple[Text, ...] = ()


class Reached(Words, frozen=True):
    """How far the geometry is the target's own. ``words`` say why; ``flags`` are what to launch the engines with."""

    tag: Reach
    words: tuple[Text, ...] = ()
    flags: tuple[Text, ...] = ()


class SeenRegion(Words, frozen=True):
    """One region as the worker registered it. ``groups`` are the case's groups whose ids address it; None: unknown."""

    address: Address
    bytes: Address
    stride: Address
    pages: Address
    name: Text | None = None
    groups: tuple[Name, ...] | None = None


class SeenWorker(Words, frozen=True):
    """One worker after registration. ``bases``: address of each storage of the case.

    ``registered`` is what NIXL was told to register (address, bytes, device, memory). ``not_exposed`` names what this
    release keeps to itself. ``memory``: storage name to the files (in the folder) of its bytes before and after.
    """

    bases: dict[Name, Address]
    regions: tuple[SeenRegion, ...] | None = None
    registered: tuple[tuple[Address, Address, Count, Text], ...] = ()
    memory: dict[Name, tuple[Text, Text]] = {}
    not_exposed: tuple[Text, ...] = ()


class SeenZero(Words, frozen=True):
    """Bytes that the connector zeroed after the transfer."""

    worker: Name
    address: Address
    bytes: Address


class Observed(Reply, frozen=True, tag_field="answer", tag="observed"):
    """What the target did. No transfers: a case without a request, or nothing to move."""

    workers: dict[Name, SeenWorker]
    transfers: tuple[Transfer, ...]
    reached: Reached
    zeroes: tuple[SeenZero, ...] = ()
    notes: tuple[Text, ...] = ()


class RefusedBy(Reply, frozen=True, tag_field="answer", tag="refused"):
    """The target refused, on purpose: its own error, at which stage, where."""

    stage: Text
    error: Text
    message: Text
    place: Line
    reached: Reached


class Crashed(Reply, frozen=True, tag_field="answer", tag="crashed"):
    """The target fell over: an error that nobody there raises to refuse something (an IndexError, say)."""

    stage: Text
    error: Text
    message: Text
    place: Line
    reached: Reached | None = None


class NotDriven(Reply, frozen=True, tag_field="answer", tag="not-driven"):
    """The probe cannot build this case with this target, and why. ``missing`` names the feature in a few words."""

    reason: Text
    missing: Text = ""


class ProbeFailed(Reply, frozen=True, tag_field="answer", tag="probe-failed"):
    """An error in the probe itself: a fault in kvproof, or a release it does not know."""

    error: Text
    message: Text
    traceback: Text = ""


Ask = AskHello | AskRun
Answer = Observed | RefusedBy | Crashed | NotDriven | ProbeFailed
AnyAnswer = Hello | Answer


def question(ask: Ask) -> bytes:
    """A question as one line."""
    return msgspec.json.encode(ask) + b"\n"


def answer_of(line: bytes) -> AnyAnswer:
    """Decode one answer. Raises msgspec.DecodeError (its ValidationError included) for anything else."""
    found: AnyAnswer = msgspec.json.decode(line, type=AnyAnswer)
    return found
