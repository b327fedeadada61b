# SPDX-License-Identifier: Apache-2.0
"""A plan file's runs as single spans."""

from __future__ import annotations

from collections.abc import Iterator

from kvproof.spec.decode import BadInput
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, CopyRun, Plan, PlanFile, Target, ZeroRun
from kvproof.spec.vocabulary import Case
from kvproof.spec.world import storage_bytes, storage_id

SPANS_LIMIT = 1_000_000
"""Most single spans a plan may have."""


def expand_plan(case: Case, plan: PlanFile) -> Plan:
    """The plan's copies and zeroes one by one. Raises BadInput for a storage the case has not, or too many spans."""
    sizes = storage_bytes(case)
    _check_count(sum(run.count for run in plan.copies) + sum(run.count for run in plan.zeroes))
    for index, run in enumerate(plan.copies):
        _check(run.source, sizes, f"copies[{index}].source")
        _check(run.target, sizes, f"copies[{index}].target")
    copies = tuple(copy for run in plan.copies for copy in _copies(run))
    return Plan(copies, expand_zeroes(case, plan.zeroes))


def expand_zeroes(case: Case, zeroes: tuple[ZeroRun, ...]) -> tuple[Place, ...]:
    """Zero runs one by one. Raises BadInput for a storage the case has not, or too many spans."""
    sizes = storage_bytes(case)
    _check_count(sum(run.count for run in zeroes))
    for index, run in enumerate(zeroes):
        _check(run.target, sizes, f"zeroes[{index}].target")
    return tuple(_place(run.target, i * run.target_stride, run.bytes) for run in zeroes for i in range(run.count))


def _check_count(count: int) -> None:
    if count > SPANS_LIMIT:
        raise BadInput(f"the plan has {count} single spans; at most {SPANS_LIMIT} are judged")


def _copies(run: CopyRun) -> Iterator[Copy]:
    for i in range(run.count):
        source = _place(run.source, i * run.source_stride, run.bytes)
        yield Copy(source, _place(run.target, i * run.target_stride, run.bytes))


def _place(target: Target, shift: int, length: int) -> Place:
    worker, storage, offset = target
    return Place(storage_id(worker, storage), offset + shift, length)


def _check(target: Target, sizes: dict[str, int], path: str) -> None:
    # A storage's name may contain a slash, a worker's may not.
    if "/" in target[0] or storage_id(target[0], target[1]) not in sizes:
        raise BadInput(f"{path}: {target[0]} has no storage {target[1]!r}; the case has {', '.join(sorted(sizes))}")
