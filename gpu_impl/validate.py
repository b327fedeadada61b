# SPDX-License-Identifier: Apache-2.0
"""Checks before NIXL sees anything.

NIXL casts id arrays silently, checks rows with arithmetic that wraps at 2^64, takes duplicate targets, and reports some
local mistakes as a lost peer. So descriptor lists are checked here, in exact integers, and moved from the addresses
they were written for to the real ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvproof.gpu_impl.errors import ProgramInvalid, Unsupported
from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Transfer
from kvproof.spec.laws.bounds import ADDRESS_LIMIT
from kvproof.spec.vocabulary import Case, Storage, Worker

Ids = NDArray[np.int32]

ID_LIMIT = 2**31
"""Descriptor ids go to NIXL as ``int32``; it would silently wrap or truncate anything else."""


class PlacedRow(msgspec.Struct, frozen=True):
    """A row by storage: descriptor k is ``[offset + k * stride, + bytes)`` of storage ``storage``, k in [0, count)."""

    storage: int
    offset: int
    bytes: int
    stride: int
    count: int


class PlacedList(msgspec.Struct, frozen=True):
    """A descriptor list by storages, all of one memory kind."""

    memory: str
    rows: tuple[PlacedRow, ...]


class PlacedTransfer(msgspec.Struct, frozen=True):
    """A checked transfer: as many ids on both sides, and the descriptors they name have equal lengths."""

    source: PlacedList
    target: PlacedList
    source_ids: Ids
    target_ids: Ids


class PlacedZero(msgspec.Struct, frozen=True):
    """A checked zero run in storage ``storage`` of the consumer."""

    storage: int
    offset: int
    bytes: int
    stride: int
    count: int


class Program(msgspec.Struct, frozen=True):
    """Descriptor lists that fit the case's storages. Storages are indices into their worker's list."""

    transfers: tuple[PlacedTransfer, ...]
    zeroes: tuple[PlacedZero, ...]


def check_program(case: Case, program: DescriptorFile) -> Program:
    """Check all lists against the case's storages; ``ProgramInvalid`` or ``Unsupported`` names what is wrong."""
    [producer], [consumer] = case.workers("producer"), case.workers("consumer")
    transfers = []
    for number, transfer in enumerate(program.transfers):
        where = f"transfer {number}"
        if transfer.op != "READ":
            raise Unsupported(f"{where}: {transfer.op}; only READ is implemented")
        if (transfer.producer, transfer.consumer) != (producer.name, consumer.name):
            raise ProgramInvalid(
                f"{where}: it goes from {transfer.producer} to {transfer.consumer}, "
                f"the case from {producer.name} to {consumer.name}"
            )
        transfers.append(_transfer(where, transfer, producer, consumer, program.bases))
    return Program(tuple(transfers), tuple(_zero(consumer, program, number) for number in range(len(program.zeroes))))


def index_ids(ids: Sequence[int], limit: int, where: str) -> Ids:
    """The ids as ``int32``, each in ``[0, limit)``."""
    if limit > ID_LIMIT:
        raise ProgramInvalid(f"{where}: {limit} descriptors; 32 bits do not number them")
    wrong = next((each for each in ids if type(each) is not int or not 0 <= each < limit), None)
    if wrong is not None:
        raise ProgramInvalid(f"{where}: id {wrong!r} is not in [0, {limit})")
    return np.array(ids, dtype=np.int32)


def _transfer(
    where: str, transfer: Transfer, producer: Worker, consumer: Worker, bases: Mapping[str, Mapping[str, int]]
) -> PlacedTransfer:
    source = _list(f"{where}, source", transfer.source, producer, bases)
    target = _list(f"{where}, target", transfer.target, consumer, bases)
    source_ids = index_ids(transfer.source_ids, sum(row.count for row in source.rows), f"{where}, source_ids")
    target_ids = index_ids(transfer.target_ids, sum(row.count for row in target.rows), f"{where}, target_ids")
    if len(source_ids) != len(target_ids):
        raise ProgramInvalid(f"{where}: {len(source_ids)} source ids, {len(target_ids)} target ids")
    distinct, counts = np.unique(target_ids, return_counts=True)
    if len(distinct) != len(target_ids):
        raise ProgramInvalid(f"{where}: target id {int(distinct[counts > 1][0])} is listed twice")
    lengths = _lengths(source, source_ids), _lengths(target, target_ids)
    unequal = np.flatnonzero(lengths[0] != lengths[1])
    if len(unequal):
        at = int(unequal[0])
        raise ProgramInvalid(
            f"{where}, position {at}: source descriptor {int(source_ids[at])} has {int(lengths[0][at])} bytes, "
            f"target descriptor {int(target_ids[at])} has {int(lengths[1][at])}"
        )
    return PlacedTransfer(source, target, source_ids, target_ids)


def _list(where: str, given: DescriptorList, worker: Worker, bases: Mapping[str, Mapping[str, int]]) -> PlacedList:
    places = _address_map(worker, bases)
    rows = []
    for number, (address, length, device, stride, count) in enumerate(given.rows):
        what = f"{where}, row {number}"
        if device != 0:
            raise Unsupported(f"{what}: device {device}; only device 0 is implemented")
        if length < 1 or count < 1:
            raise ProgramInvalid(f"{what}: {count} descriptors of {length} bytes")
        if stride < length:
            raise ProgramInvalid(f"{what}: descriptors of {length} bytes are {stride} apart")
        at = bisect_right(places, address, key=lambda place: place[0]) - 1
        if at < 0 or address >= places[at][0] + places[at][2].bytes:
            raise ProgramInvalid(f"{what}: address {address} lies in no storage of {worker.name}")
        base, index, storage = places[at]
        end = address + stride * (count - 1) + length
        if end > base + storage.bytes:
            raise ProgramInvalid(f"{what}: it ends {end - base - storage.bytes} bytes past storage {storage.name}")
        if storage.memory != given.memory:
            raise ProgramInvalid(f"{what}: storage {storage.name} is {storage.memory}, the list {given.memory}")
        rows.append(PlacedRow(index, address - base, length, stride, count))
    return PlacedList(given.memory, tuple(rows))


def _address_map(worker: Worker, bases: Mapping[str, Mapping[str, int]]) -> list[tuple[int, int, Storage]]:
    """Base address, index and storage, in ascending order; they must not overlap."""
    places = []
    for index, storage in enumerate(worker.storages):
        base = bases.get(worker.name, {}).get(storage.name)
        if base is None:
            raise ProgramInvalid(f"bases: storage {storage.name} of {worker.name} has none")
        if base + storage.bytes > ADDRESS_LIMIT:
            raise ProgramInvalid(f"bases: storage {storage.name} of {worker.name} ends past 2^64")
        places.append((base, index, storage))
    places.sort(key=lambda place: place[0])
    for (base, _, first), (following, _, second) in pairwise(places):
        if following < base + first.bytes:
            raise ProgramInvalid(f"bases: storages {first.name} and {second.name} of {worker.name} overlap")
    return places


def _lengths(given: PlacedList, ids: Ids) -> NDArray[np.int64]:
    """Bytes of each descriptor named. Lengths fit a storage, hence 64 bits."""
    ends = np.cumsum([row.count for row in given.rows], dtype=np.int64)
    lengths = np.array([row.bytes for row in given.rows], dtype=np.int64)
    return np.asarray(lengths[np.searchsorted(ends, ids, side="right")])


def _zero(consumer: Worker, program: DescriptorFile, number: int) -> PlacedZero:
    run = program.zeroes[number]
    worker, name, offset = run.target
    where = f"zero {number}"
    if worker != consumer.name:
        raise ProgramInvalid(f"{where}: worker {worker} is not the consumer")
    index = next((index for index, storage in enumerate(consumer.storages) if storage.name == name), None)
    if index is None:
        raise ProgramInvalid(f"{where}: {worker} has no storage {name}")
    excess = offset + run.target_stride * (run.count - 1) + run.bytes - consumer.storages[index].bytes
    if excess > 0:
        raise ProgramInvalid(f"{where}: it ends {excess} bytes past storage {name}")
    return PlacedZero(index, offset, run.bytes, run.target_stride, run.count)
