# SPDX-License-Identifier: Apache-2.0
"""What one of vLLM's own tests pins, in kvproof's terms: a case and descriptor lists, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Row, Transfer
from kvproof.spec.judge.captured import Captured
from kvproof.spec.plan import ZeroRun
from kvproof.spec.tables import Section
from kvproof.spec.vocabulary import Case, Group, Layer, Pool, Request, Storage, Table, Worker

SOURCE, TARGET = "P0", "D0"
"""The producer and the consumer of every case that is made of a test."""

SSM_ROOT = "MambaSpec"
RING_ROOT = "CircularBufferSpec"
ATTENTION_ROOT = "AttentionSpec"


class Pin(msgspec.Struct, frozen=True):
    """A plan to be judged. ``real``: its memory is the test's own; else numbers that were given a memory here.

    ``notes``: what of the record is left out, and why.
    """

    about: str
    case: Case
    lists: DescriptorFile
    regions: Captured = {}
    real: bool = True
    notes: tuple[str, ...] = ()


class Uncovered(msgspec.Struct, frozen=True):
    """Something that kvproof has no words for yet. ``reason`` is one of few, so that they can be counted."""

    about: str
    reason: str


class Declined(msgspec.Struct, frozen=True):
    """The test pins that the target refuses."""

    about: str
    words: str


class Misfit(msgspec.Struct, frozen=True):
    """Memory of a test that cannot be: in no engine would bytes lie so."""

    about: str
    words: str


Pinned = Pin | Uncovered | Declined | Misfit


class NoWords(Exception):
    """The record cannot be said in kvproof's terms: the reason, for an ``Uncovered``."""


class Reading(msgspec.Struct, frozen=True):
    """What a test says about its request outside the calls that were captured: in a parameter, or in its text.

    ``tokens`` on the producer. ``cached_pages``: pages of the prompt that the consumer has already, of an attention
    group, and ``pages`` that the prompt fills.
    """

    tokens: int | None = None
    cached_pages: int | None = None
    pages: int | None = None


class Side(msgspec.Struct, frozen=True):
    """One worker of a case that is being put together, and the addresses of its storages."""

    storages: tuple[Storage, ...]
    pools: tuple[Pool, ...]
    groups: tuple[Group, ...]
    layers: tuple[Layer, ...]
    tables: Mapping[str, Table]
    bases: dict[str, int]


def case_of(about: str, source: Side, target: Side, tokens: int) -> Case:
    """A case of two workers."""
    sides = ((SOURCE, "producer", source), (TARGET, "consumer", target))
    workers = tuple(
        Worker(
            name=name,
            role="producer" if role == "producer" else "consumer",
            storages=side.storages,
            pools=side.pools,
            groups=side.groups,
            layers=side.layers,
            tables=dict(side.tables),
        )
        for name, role, side in sides
    )
    return Case(format=1, name=about[:200], worker=workers, request=Request(tokens))


def lists_of(
    about: str, source: Side, target: Side, transfers: Sequence[Transfer], zeroes: Sequence[ZeroRun] = ()
) -> DescriptorFile:
    """The descriptor lists of such a case."""
    return DescriptorFile(
        format=1,
        case=about[:200],
        bases={SOURCE: source.bases, TARGET: target.bases},
        transfers=tuple(transfers),
        zeroes=tuple(zeroes),
    )


def transfer_of(source: DescriptorList, target: DescriptorList, source_ids: Any, target_ids: Any) -> Transfer:
    """A transfer from the producer to the consumer."""
    return Transfer(SOURCE, TARGET, source, target, tuple(source_ids), tuple(target_ids))


def prepared(rows: Sequence[Row], sections: Mapping[Section, int]) -> DescriptorList:
    """A prepared list. ``sections``: how many of its last rows belong to each but the first, attention's."""
    counts = [row[4] for row in rows]
    end = sum(counts)
    found: dict[Section, tuple[int, int]] = {}
    left = list(counts)
    for section in ("replicated-ssm", "ssm"):
        taken = [left.pop() for _ in range(sections.get(section, 0))]
        found[section] = (end - sum(taken), end)
        end -= sum(taken)
    found["attention"] = (0, end)
    return DescriptorList("VRAM", tuple(rows), {name: one for name, one in found.items() if one[0] < one[1]})
