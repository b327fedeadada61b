# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of gpu_impl: base addresses, jobs, and the child processes of this one."""

from pathlib import Path

from kvproof.gpu_impl.jobs import Job
from kvproof.gpu_impl.processes import ROLES
from kvproof.gpu_impl.tables import descriptor_file, plan
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.vocabulary import Case


def bases(case: Case) -> dict[str, dict[str, int]]:
    """Addresses that are nobody's: storages in order from 2^40 on, a page apart."""
    address, found = 2**40, {}
    for worker in case.worker:
        found[worker.name] = {}
        for storage in worker.storages:
            found[worker.name][storage.name] = address
            address += storage.bytes + 4096
    return found


def program(case: Case) -> DescriptorFile:
    return descriptor_file(case, bases(case))


def spans(*lines: tuple[str, int, str, int, int]) -> list[tuple[Place, Place]]:
    """Source storage and offset, target storage and offset, bytes."""
    return [(Place(source, start, count), Place(target, end, count)) for source, start, target, end, count in lines]


def job(case: Case, expected: Plan | None = None, given: DescriptorFile | None = None) -> Job:
    """A job verified against a plan; the case's own if none is given."""
    expected = expected or plan(case)
    required = [(copy.source, copy.target) for copy in expected.copies]
    return Job(case, given or program(case), expected, required, expected.zeroes)


def planned(copies: list[tuple[Place, Place]], *zeroes: Place) -> Plan:
    return Plan(tuple(Copy(source, target) for source, target in copies), zeroes)


def children(parent: int | str = "self") -> dict[str, int]:
    """Role to process id of the transfer processes below a process (zombies are none)."""
    found = {}
    pid = Path("/proc", str(parent)).resolve().name
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if status[1] == pid and status[0] != "Z" and b"kvproof.gpu_impl.child" in words:
            found[next(role for role in ROLES if role.encode() in words)] = int(entry.name)
    return found
