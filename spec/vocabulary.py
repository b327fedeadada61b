# SPDX-License-Identifier: Apache-2.0
"""The words of a case: workers with storages, pools, groups, layers and tables, and one request.

These frozen structs *are* the case format (docs/formats.md). All sizes are bytes, all lengths tokens; ids, counts and
ordinals have no unit.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

INTEGER_LIMIT = 2**48

Count = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_LIMIT)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=INTEGER_LIMIT)]
NO_CONTROLS = r"^(?![\s\S]*[\x00-\x1f\x7f-\x9f\u2028\u2029])"
"""Names stand in lines for the terminal."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=NO_CONTROLS)]

Role = Literal["producer", "consumer"]
Kind = Literal["attention", "sliding", "ssm", "ring", "replicated-ssm"]
Order = Literal["unit-major", "state-major"]
Memory = Literal["VRAM", "DRAM"]
Verdict = Literal["lawful", "wasteful", "hazard", "corrupt", "refused", "not-covered"]
Law = Literal[
    "coverage",
    "alignment",
    "confinement",
    "bounds",
    "single-writer",
    "folding",
    "descriptor-ids",
    "parity",
    "zeroing",
    "partition",
    "economy",
    "refusal",
]

TOKEN_KINDS = ("attention", "sliding")
"""Kinds whose blocks hold tokens by position. The others hold one state (or ring) a request."""


class Format(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all structs that are read from files: frozen, unknown keys are errors."""


class Storage(Format, frozen=True):
    """One allocation of a worker. ``shared`` names it where several workers see the same one."""

    name: Name
    bytes: Positive
    memory: Memory
    shared: Name | None = None


class Pool(Format, frozen=True):
    """One id space of logical blocks, ``[0, blocks)``. ``null`` is an id that holds nothing."""

    name: Name
    blocks: Positive
    null: Count | None = None


class Group(Format, frozen=True):
    """Layers that share a block table. ``block_tokens`` is absent for ssm kinds, a ring's capacity for rings."""

    name: Name
    kind: Kind
    pool: Name
    block_tokens: Positive | None = None
    pages_per_block: Positive = 1
    window_tokens: Positive | None = None
    retained_tokens: Count = 0


class Part(Format, frozen=True):
    """A slice of a page cut along a shard axis: this worker holds units ``[first, first + count)`` of ``units``.

    ``unit_bytes`` is the bytes of one unit per state, or of the whole unit in ssm, ring and replicated-ssm groups.
    """

    name: Name
    unit_bytes: Positive
    units: Positive = 1
    first: Count = 0
    count: Positive = 1
    order: Order = "unit-major"


class Layer(Format, frozen=True):
    """A view of a storage: page p is the bytes ``[offset + p * page_stride, + page_bytes)``. No parts: opaque."""

    name: Name
    group: Name
    storage: Name
    offset: Count
    page_bytes: Positive
    page_stride: Positive
    tokens_per_state: Positive = 1
    parts: tuple[Part, ...] = ()
    key: Name | None = None

    @property
    def match_key(self) -> str:
        """What the layers of producer and consumer are matched by."""
        return self.name if self.key is None else self.key


class Table(Format, frozen=True):
    """A group's blocks for the request: ``blocks[i]`` is the block of ordinal ``first + i``.

    ``live`` is the index of the block that holds the state, for ssm and ring kinds.
    """

    blocks: tuple[Count, ...]
    first: Count = 0
    cached_tokens: Count | None = None
    live: Count | None = None


class Worker(Format, frozen=True):
    """One rank of one engine."""

    name: Name
    role: Role
    storages: Annotated[tuple[Storage, ...], msgspec.Meta(min_length=1)]
    pools: Annotated[tuple[Pool, ...], msgspec.Meta(min_length=1)]
    groups: Annotated[tuple[Group, ...], msgspec.Meta(min_length=1)]
    layers: Annotated[tuple[Layer, ...], msgspec.Meta(min_length=1)]
    tables: dict[Name, Table] = {}
    tp: tuple[Count, Positive] = (0, 1)
    pp: tuple[Count, Positive] = (0, 1)
    context: tuple[Count, Positive] = (0, 1)
    interleave_tokens: Positive = 1


class Request(Format, frozen=True):
    """What is moved: ``tokens`` are available on the producer."""

    tokens: Positive


RegionRow = tuple[Name, Count, Positive, Positive, Count]
"""Storage, offset, bytes, stride, pages."""


class Expect(Format, frozen=True):
    """The outcome of a case, worked out by hand. Everything is optional."""

    verdict: Verdict | None = None
    reason: str | None = None
    pages: dict[Name, dict[Name, tuple[Count, ...]]] = {}
    zeroed: dict[Name, dict[Name, tuple[Count, ...]]] = {}
    regions: dict[Name, tuple[RegionRow, ...]] = {}
    ids: dict[Name, tuple[Count, ...]] = {}
    faults: dict[Name, tuple[Law, ...] | Literal["refused"]] = {}
    ratio: dict[Name, dict[Name, tuple[Positive, Positive]]] = {}


class Case(Format, frozen=True):
    """One geometry: a producer, a consumer, a request (or none) and what is expected."""

    format: Literal[1]
    name: Name
    worker: Annotated[tuple[Worker, ...], msgspec.Meta(min_length=1)]
    title: str = ""
    source: tuple[str, ...] = ()
    request: Request | None = None
    expect: Expect = Expect()

    def workers(self, role: Role) -> tuple[Worker, ...]:
        """The workers of one role, in the order of the file."""
        return tuple(worker for worker in self.worker if worker.role == role)


Raw = dict[str, Any]
"""A decoded file before it is typed."""
