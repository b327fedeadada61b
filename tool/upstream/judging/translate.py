# SPDX-License-Identifier: Apache-2.0
"""What a probe saw, in the terms of the judge: descriptor lists and regions of the case's own storages.

A target may say anything. What cannot be said of the case at all is `Untranslatable`; what can be said and is wrong,
a row outside every storage say, is the judge's affair.
"""

from __future__ import annotations

from collections.abc import Collection

from kvproof.spec.decode import BadInput
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge.captured import CapturedRegion
from kvproof.spec.judge.lists import Memory
from kvproof.spec.plan import ZeroRun
from kvproof.spec.tables import Region
from kvproof.spec.vocabulary import Case, Worker
from kvproof.upstream.protocol import Observed, SeenRegion, SeenZero

NOWHERE = "no storage"
"""The storage of a region that begins in none."""


class Untranslatable(Exception):
    """The answer does not fit the case: it names what the case has not, or lacks what it has. One line of words."""


class Atlas:
    """The storages of all workers of a case by address. Raises Untranslatable where they are not all there, apart."""

    def __init__(self, case: Case, observed: Observed) -> None:
        known = {worker.name: worker for worker in case.worker}
        _same_names("workers", known, observed.workers)
        self.workers: dict[str, Worker] = known
        self._memories: dict[str, Memory] = {}
        for name, seen in observed.workers.items():
            _same_names(f"workers.{name}.bases", [storage.name for storage in known[name].storages], seen.bases)
            try:
                self._memories[name] = Memory(case, name, seen.bases)
            except BadInput as error:
                raise Untranslatable(str(error)) from None

    def find(self, worker: str, address: int) -> tuple[str, int, str] | None:
        """Storage, offset and memory kind of the byte at an address of a worker; None outside every storage."""
        found = self._memories[worker].find(address, 1)
        if found is None:
            return None
        place, memory = found
        return str(place.storage).split("/", 1)[1], int(place.offset), memory


def descriptor_lists(case: Case, observed: Observed) -> DescriptorFile:
    """The transfers as they are, with the bases of all storages, and the zeroes by storage and offset.

    Raises Untranslatable for workers, storages or zeroes that the case has no place for.
    """
    atlas = Atlas(case, observed)
    roles = {worker.name: worker.role for worker in case.worker}
    for number, transfer in enumerate(observed.transfers):
        for name, role in ((transfer.producer, "producer"), (transfer.consumer, "consumer")):
            if roles.get(name) != role:
                raise Untranslatable(f"transfers[{number}]: {name!r} is no {role} of the case")
    return DescriptorFile(
        format=1,
        case=case.name,
        bases={name: seen.bases for name, seen in observed.workers.items()},
        transfers=observed.transfers,
        zeroes=tuple(_zero(atlas, number, zero) for number, zero in enumerate(observed.zeroes) if zero.bytes),
    )


def captured_regions(case: Case, observed: Observed) -> dict[str, tuple[CapturedRegion, ...]]:
    """Worker: the regions that it registered, by storage and offset. A worker that does not expose them has none.

    Raises Untranslatable for groups that the case has not.
    """
    atlas = Atlas(case, observed)
    return {
        name: tuple(_region(atlas, name, number, region) for number, region in enumerate(seen.regions or ()))
        for name, seen in observed.workers.items()
    }


def _zero(atlas: Atlas, number: int, zero: SeenZero) -> ZeroRun:
    if zero.worker not in atlas.workers:
        raise Untranslatable(f"zeroes[{number}]: the case has no worker {zero.worker!r}")
    found = atlas.find(zero.worker, zero.address)
    if found is None:
        words = f"{zero.bytes} bytes at {zero.address} begin in no storage of {zero.worker}"
        raise Untranslatable(f"zeroes[{number}]: {words}")
    storage, offset, _ = found
    return ZeroRun(target=(zero.worker, storage, offset), bytes=zero.bytes)


def _region(atlas: Atlas, worker: str, number: int, seen: SeenRegion) -> CapturedRegion:
    known = {group.name for group in atlas.workers[worker].groups}
    for group in seen.groups or ():
        if group not in known:
            raise Untranslatable(f"workers.{worker}.regions[{number}]: {worker} has no group {group!r}")
    storage, offset, memory = atlas.find(worker, seen.address) or (NOWHERE, 0, "")
    # The section is the prepared lists' to say; nothing that is judged of a captured region asks for it.
    region = Region(f"{worker}/{storage}", offset, seen.bytes, seen.stride, seen.pages, memory, "attention")
    return CapturedRegion(region, seen.groups, None if memory else seen.address)


def _same_names(where: str, wanted: Collection[str], found: Collection[str]) -> None:
    for name in found:
        if name not in wanted:
            raise Untranslatable(f"{where}: the case has no {name!r}; it has {', '.join(wanted)}")
    for name in wanted:
        if name not in found:
            raise Untranslatable(f"{where}: {name!r} of the case is missing")
