# SPDX-License-Identifier: Apache-2.0
"""Plans and tables in their file formats."""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from small_cases import aliased_groups, attention, case, layer, padded_tail, reverse_geometry, worker

from kvproof.reference.derive import Derived, derive
from kvproof.reference.export import descriptor_file, plan_file, synthetic_bases
from kvproof.spec.descriptors import DescriptorList
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, CopyRun, Plan, PlanFile, ZeroRun
from kvproof.spec.vocabulary import Case


def expand(file: PlanFile) -> Plan:
    """The single spans of a plan file, in order."""

    def place(span: tuple[str, str, int], stride: int, number: int, length: int) -> Place:
        return Place(f"{span[0]}/{span[1]}", span[2] + number * stride, length)

    copies = tuple(
        Copy(
            place(run.source, run.source_stride, number, run.bytes),
            place(run.target, run.target_stride, number, run.bytes),
        )
        for run in file.copies
        for number in range(run.count)
    )
    zeroes = tuple(
        place(run.target, run.target_stride, number, run.bytes) for run in file.zeroes for number in range(run.count)
    )
    return Plan(copies, zeroes)


def aliased() -> Case:
    return case(aliased_groups("producer", 1, 3, 2), aliased_groups("consumer", 2, 1, 3), 200)


def scattered() -> Case:
    """Blocks in no order: 5 6 7 1 9 8 4 on P, 2 3 4 5 1 9 6 on D; the strides are 100 and 50."""
    layers = [layer("x", "kv", "s", 0, 40, 100)], [layer("x", "kv", "t", 7, 40, 50)]
    producer = worker("producer", {"s": 1000}, [attention()], layers[0], {"kv": [5, 6, 7, 1, 9, 8, 4]})
    consumer = worker("consumer", {"t": 507}, [attention()], layers[1], {"kv": [2, 3, 4, 5, 1, 9, 6]})
    return case(producer, consumer, 7 * 64)


@pytest.mark.parametrize("found", [padded_tail, reverse_geometry, aliased, scattered])
def test_a_plan_file_holds_the_plan(found: Callable[[], Case]) -> None:
    plan = derive(found()).plan
    file = plan_file(found(), plan)
    assert expand(file) == plan
    assert msgspec.json.decode(msgspec.json.encode(file), type=PlanFile) == file


def test_equal_steps_are_merged() -> None:
    file = plan_file(padded_tail(), derive(padded_tail()).plan)
    assert file.copies == (
        CopyRun(("P0", "main", 1280), ("D0", "host", 1920), 64, 3, 64, 64),
        CopyRun(("P0", "index", 2560), ("D0", "index", 5120), 128, 3, 128, 128),
    )
    assert file.zeroes == ()
    assert plan_file(reverse_geometry(), derive(reverse_geometry()).plan).zeroes == (
        ZeroRun(("D0", "host", 63 * 64), 64),
        ZeroRun(("D0", "index", 83 * 128), 128),
    )


def test_runs_break_where_a_step_changes_or_goes_back() -> None:
    runs = plan_file(scattered(), derive(scattered()).plan).copies
    assert [(run.source[2], run.target[2], run.count, run.source_stride, run.target_stride) for run in runs] == [
        (500, 107, 3, 100, 50),
        (100, 257, 1, 0, 0),
        (900, 57, 1, 0, 0),
        (800, 457, 1, 0, 0),
        (400, 307, 1, 0, 0),
    ]


def test_a_run_keeps_its_step_and_its_storages() -> None:
    def copy(source: str, target: str, start: int) -> Copy:
        return Copy(Place(source, start, 8), Place(target, start, 8))

    def counts(*copies: Copy) -> list[int]:
        return [run.count for run in plan_file(padded_tail(), Plan(copies, ())).copies]

    main, index = ("P0/main", "D0/host"), ("P0/index", "D0/index")
    assert counts(*(copy(*main, start) for start in (0, 10, 30, 50, 70, 80))) == [2, 3, 1]
    assert counts(copy(*main, 0), copy(*main, 10), copy(*index, 20), copy(*index, 30)) == [2, 2]
    assert counts(copy(*main, 0), copy("P0/index", "D0/host", 10)) == [1, 1]
    assert counts(copy(*main, 0), copy("P0/main", "D0/index", 10)) == [1, 1]


def test_the_same_span_twice_is_a_run_without_steps() -> None:
    twice = Copy(Place("P0/main", 0, 8), Place("D0/host", 8, 8))
    file = plan_file(padded_tail(), Plan((twice, twice), (Place("D0/host", 8, 8), Place("D0/host", 8, 4))))
    assert file.copies == (CopyRun(("P0", "main", 0), ("D0", "host", 8), 8, 2),)
    assert len(file.zeroes) == 2
    assert expand(file).copies == (twice, twice)


def test_bases_are_pages_apart() -> None:
    bases = synthetic_bases(padded_tail())
    assert bases == synthetic_bases(padded_tail())
    spans = sorted(
        (bases[w.name][s.name], bases[w.name][s.name] + s.bytes) for w in padded_tail().worker for s in w.storages
    )
    assert all(end < start for (_, end), (start, _) in pairwise(spans))
    assert all(start > 0 and start % 4096 == 0 for start, _ in spans)


def test_lists_are_split_by_memory_and_ids_renumbered() -> None:
    found = padded_tail()
    bases = {"P0": {"main": 4096, "index": 20480}, "D0": {"host": 40960, "index": 81920}}
    file = descriptor_file(found, derive(found), bases)
    device = DescriptorList("VRAM", ((4096, 64, 0, 64, 100), (20480, 128, 0, 128, 100)), {"attention": (0, 200)})
    host, index = file.transfers
    assert (host.producer, host.consumer, host.op) == ("P0", "D0", "READ")
    assert (host.source, index.source) == (device, device)
    assert host.target == DescriptorList("DRAM", ((40960, 64, 0, 64, 100),), {"attention": (0, 100)})
    assert index.target == DescriptorList("VRAM", ((81920, 128, 0, 128, 100),), {"attention": (0, 100)})
    assert (host.source_ids, host.target_ids) == ((20, 21, 22), (30, 31, 32))
    assert (index.source_ids, index.target_ids) == ((120, 121, 122), (40, 41, 42))
    assert file.bases == bases


def addresses(rows: DescriptorList) -> list[tuple[int, int]]:
    """Address and bytes of each descriptor of a list."""
    return [
        (address + page * stride, length) for address, length, _, stride, count in rows.rows for page in range(count)
    ]


@pytest.mark.parametrize("found", [padded_tail, reverse_geometry, aliased, scattered])
def test_descriptors_name_the_bytes_of_the_plan(found: Callable[[], Case]) -> None:
    made: Derived = derive(found())
    bases = synthetic_bases(found())
    file = descriptor_file(found(), made, bases)
    moved = set()
    for transfer in file.transfers:
        sources, targets = addresses(transfer.source), addresses(transfer.target)
        moved |= {(sources[s], targets[t]) for s, t in zip(transfer.source_ids, transfer.target_ids, strict=True)}

    def address(place: Place) -> tuple[int, int]:
        worker_name, storage = place.storage.split("/")
        return bases[worker_name][storage] + place.offset, place.bytes

    assert moved == {(address(copy.source), address(copy.target)) for copy in made.plan.copies}
    assert file.zeroes == plan_file(found(), made.plan).zeroes
