# SPDX-License-Identifier: Apache-2.0
"""Large cases, which took minutes while things were looked at pair by pair. Limits are of CPU time, and generous."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

from small_cases import attention, case, layer, ssm, worker

from kvproof.gpu_impl import tables as implementation
from kvproof.reference.derive import derive
from kvproof.reference.export import descriptor_file, synthetic_bases
from kvproof.spec.descriptors import DescriptorFile, DescriptorList, Transfer
from kvproof.spec.judge.judge import judge, judge_lists
from kvproof.spec.scope import Covered, assess
from kvproof.spec.validate import check_case
from kvproof.spec.vocabulary import Case, Part


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = process_time()
    yield
    assert process_time() - start < seconds


def layers_of_parts(count: int, parts: int) -> Case:
    """So many ssm layers of so many parts of a byte, each in a group of its own, side by side in rows."""
    names = [f"m{number}" for number in range(count)]
    pieces = tuple(Part(f"part{number}", 1) for number in range(parts))
    views = [layer(name, name, "s", parts * at, parts, parts * count, *pieces) for at, name in enumerate(names)]
    sides = []
    for role, shift in (("producer", 0), ("consumer", 1)):
        tables = {name: [(at + shift) % count] for at, name in enumerate(names)}
        groups = [ssm(name) for name in names]
        sides.append(worker(role, {"s": parts * count * count}, groups, views, tables, {"device": count}))
    return case(sides[0], sides[1], 1)


def test_sixty_layers_of_a_hundred_parts() -> None:
    found = layers_of_parts(60, 100)
    with within(10):
        check_case(found)
        scope = assess(found)
        assert isinstance(scope, Covered)
        derived = derive(found)
        assert len(derived.tables.target) == 6000
        assert judge(scope, derived.plan, derived.tables).findings == ()
        lists = descriptor_file(found, derived, synthetic_bases(found))
        assert judge_lists(found, lists).findings == ()
    with within(10):
        assert implementation.as_tables(found) == derived.tables


def test_hundreds_of_layers_in_one_group() -> None:
    """Packed, each registered by itself: that of none may lie in another's descriptors."""
    count = 400
    views = [layer(f"l{at}", "kv", "s", 8 * at + at % 2, 7, 8 * count) for at in range(count)]
    twins = [layer(f"l{at}", "kv", f"s{at}", 0, 7, 7) for at in range(count)]
    found = case(
        worker("producer", {f"s{at}": 70 for at in range(count)}, [attention()], twins, {"kv": [3]}),
        worker("consumer", {"s": 8 * count * 10}, [attention()], views, {"kv": [5]}),
        64,
    )
    with within(10):
        check_case(found)
        derived = derive(found)
        assert len(derived.tables.target) == count
        assert judge(assess(found), derived.plan, derived.tables).findings == ()


def test_many_ids_over_many_layers() -> None:
    """Blocks that nobody lists, so that each descriptor is held against every layer of its storage in vain."""
    count, pages = 400, 200
    views = [layer(f"l{at}", "kv", "s", 8 * pages * at, 8, 8) for at in range(count)]
    size = 8 * pages * count
    found = case(
        worker("producer", {"s": size}, [attention()], views, {"kv": [3]}, {"device": pages}),
        worker("consumer", {"s": size}, [attention()], views, {"kv": [5]}, {"device": pages}),
        64,
    )
    ids = tuple(range(pages * count))
    prepared = [DescriptorList("VRAM", ((base, 8, 0, 8, pages * count),)) for base in (0, 2**32)]
    unlisted = tuple(one for one in ids if one % pages != 5)
    transfer = Transfer("P0", "D0", prepared[0], prepared[1], unlisted, unlisted)
    lists = DescriptorFile(1, "small", {"P0": {"s": 0}, "D0": {"s": 2**32}}, (transfer,))
    with within(20):
        assert judge_lists(found, lists).laws == ("coverage", "confinement")


def test_many_rows_over_many_storages() -> None:
    """Each of the rows has a descriptor in every storage."""
    count = 300
    views = [layer(f"l{at}", "kv", f"s{at}", 0, 8, 8) for at in range(count)]
    sizes = {f"s{at}": 80 for at in range(count)}
    found = case(
        worker("producer", sizes, [attention()], views, {"kv": [3]}),
        worker("consumer", sizes, [attention()], views, {"kv": [5]}),
        64,
    )
    bases = {name: {f"s{at}": start + 1000 * at for at in range(count)} for name, start in (("P0", 0), ("D0", 2**32))}
    prepared = [
        DescriptorList("VRAM", tuple((base + 8 * page, 8, 0, 1000, count) for page in range(10) for _ in range(20)))
        for base in (0, 2**32)
    ]
    ids = [tuple(20 * count * block + at for at in range(count)) for block in (3, 5)]
    lists = DescriptorFile(1, "small", bases, (Transfer("P0", "D0", *prepared, ids[0], ids[1]),))
    with within(10):
        assert judge_lists(found, lists).findings == ()
