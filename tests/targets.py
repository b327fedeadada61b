# SPDX-License-Identifier: Apache-2.0
"""Targets that never ran: what a probe would have seen of a connector that follows the reference or a faulty rule."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvproof.reference.derive import derive
from kvproof.reference.export import descriptor_file, synthetic_bases
from kvproof.reference.pairing import Registered
from kvproof.reference.rules import LAWFUL, Rules
from kvproof.reference.side import Side
from kvproof.reference.simulator import execute, patterned
from kvproof.spec.plan import Plan
from kvproof.spec.vocabulary import Case, Worker
from kvproof.upstream.protocol import Observed, Reached, SeenRegion, SeenWorker, SeenZero

SYNTHETIC = Reached("synthetic", ("made up",))


def observed(case: Case, rules: Rules = LAWFUL) -> Observed:
    """An answer that says what the rules do, regions and all. Raises Refusal where they refuse."""
    bases = synthetic_bases(case)
    derived = derive(case, rules)
    lists = descriptor_file(case, derived, bases)
    zeroes = (
        SeenZero(zero.storage.split("/", 1)[0], _address(bases, zero.storage, zero.offset), zero.bytes)
        for zero in derived.plan.zeroes
    )
    workers = {worker.name: SeenWorker(bases[worker.name], _regions(worker, rules, bases)) for worker in case.worker}
    return Observed(workers, lists.transfers, SYNTHETIC, tuple(zeroes))


def _regions(worker: Worker, rules: Rules, bases: dict[str, dict[str, int]]) -> tuple[SeenRegion, ...]:
    side = Side(worker)
    registered = Registered(side, rules.register(side))
    addressed = {group.name: rules.address(registered, group) for group in worker.groups}
    return tuple(
        SeenRegion(
            _address(bases, region.storage, region.offset),
            region.bytes,
            region.stride,
            region.pages,
            groups=tuple(group for group, indices in addressed.items() if number in indices),
        )
        for number, region in enumerate(registered.regions)
    )


def _address(bases: dict[str, dict[str, int]], storage: str, offset: int) -> int:
    worker, name = storage.split("/", 1)
    return bases[worker][name] + offset


def with_memory(case: Case, seen: Observed, plan: Plan, folder: Path) -> Observed:
    """The answer with memory written down in the folder: patterns before, and what the plan makes of them after."""
    before, after = patterned(case), patterned(case)
    execute(plan, after)
    workers = {}
    for worker in case.worker:
        files = {}
        for number, storage in enumerate(worker.storages):
            names = f"{worker.role}-{number}.before", f"{worker.role}-{number}.after"
            for name, contents in zip(names, (before, after), strict=True):
                (folder / name).write_bytes(contents[f"{worker.name}/{storage.name}"])
            files[storage.name] = names
        workers[worker.name] = msgspec.structs.replace(seen.workers[worker.name], memory=files)
    return msgspec.structs.replace(seen, workers=workers)
