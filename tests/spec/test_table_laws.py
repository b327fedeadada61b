# SPDX-License-Identifier: Apache-2.0
"""The judge's known answers on tables, written by hand and broken one number at a time."""

from typing import Any

import pytest
from msgspec.structs import replace
from spec_worlds import GONE, built, changed, two_workers

from kvproof.spec.judge.judge import judge
from kvproof.spec.judge.table_laws import section_ranges
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.place import Place
from kvproof.spec.plan import Plan
from kvproof.spec.scope import assess
from kvproof.spec.tables import Member, Pairing, Region, Tables
from kvproof.spec.validate import check_case

ELSEWHERE = {"worker.1.tables": {"kv": {"blocks": [3, 0]}, "ssm": {"blocks": [4]}}}


def region(worker: str, storage: str, offset: int, stride: int, pages: int, *members: Member, **other: Any) -> Region:
    fields: dict[str, Any] = {"bytes": 8, "memory": "VRAM", "section": "attention"} | other
    return Region(f"{worker}/{storage}", offset, stride=stride, pages=pages, members=members, **fields)


def regions(worker: str) -> tuple[Region, ...]:
    """Each layer's own pages: ids 0 to 9, 10 to 19 and 20 to 24."""
    return (
        region(worker, "main", 0, 16, 10, Member("a", 0)),
        region(worker, "main", 8, 16, 10, Member("b", 0)),
        region(worker, "state", 0, 8, 5, Member("s", 0), section="ssm"),
    )


SOURCE, TARGET = regions("P0"), regions("D0")
PAIRINGS = (
    Pairing("kv", 0, 0, (2, 3, 4), (6, 7, 0)),
    Pairing("kv", 1, 1, (2, 3, 4), (6, 7, 0)),
    Pairing("ssm", 2, 2, (3,), (4,)),
)
SOURCE_IDS, TARGET_IDS = (2, 3, 4, 12, 13, 14, 23), (6, 7, 0, 16, 17, 10, 24)
TABLES = Tables({"P0": SOURCE, "D0": TARGET}, SOURCE, TARGET, PAIRINGS, SOURCE_IDS, TARGET_IDS)

# One region for a and b together on each side.
ROWS = tuple(region(worker, "main", 0, 16, 10, Member("a", 0), Member("b", 8), bytes=16) for worker in ("P0", "D0"))


def judged(tables: Tables, changes: dict[str, Any] | None = None) -> Judgement:
    case = built(changed(two_workers(), ELSEWHERE | (changes or {})))
    check_case(case)
    return judge(assess(case), None, tables)


def with_region(index: int, side: str = "target", **fields: Any) -> Tables:
    """The tables with one region of one side changed, before pairing and after."""
    old = list(getattr(TABLES, side))
    old[index] = replace(old[index], **fields)
    worker = {"source": "P0", "target": "D0"}[side]
    return replace(TABLES, registered=TABLES.registered | {worker: tuple(old)}, **{side: tuple(old)})


def with_rows(source: Region, target: Region) -> Tables:
    """Tables whose kv group goes by one region a side."""
    first, second = (source, SOURCE[2]), (target, TARGET[2])
    pairings = (Pairing("kv", 0, 0, (2, 3, 4), (6, 7, 0)), Pairing("ssm", 1, 1, (3,), (4,)))
    return Tables({"P0": first, "D0": second}, first, second, pairings, (2, 3, 4, 13), (6, 7, 0, 14))


def words(answer: Judgement, law: str) -> str:
    [finding] = [finding for finding in answer.findings if finding.law == law]
    assert (finding.subject, finding.corrupting, finding.witness) == ("tables", False, None)
    return finding.words


def test_the_tables_by_hand_are_lawful() -> None:
    for tables in (TABLES, with_rows(*ROWS)):
        answer = judged(tables)
        assert (answer.verdict, answer.findings) == ("lawful", ())
        assert answer.not_applicable == ("coverage", "alignment", "confinement", "single-writer", "zeroing")


def test_tables_are_judged_without_a_request_too() -> None:
    none = {"request": GONE, "worker.0.tables": GONE, "worker.1.tables": GONE}
    empty = replace(
        TABLES,
        source_ids=(),
        target_ids=(),
        pairings=tuple(replace(p, source_pages=(), target_pages=()) for p in PAIRINGS),
    )
    case = built(changed(two_workers(), none))
    assert judge(assess(case), None, empty).verdict == "lawful"
    bad = replace(empty, target=(replace(TARGET[0], bytes=7), *TARGET[1:]))
    assert judge(assess(case), None, bad).laws == ("folding", "parity")


def test_l4_a_descriptor_that_leaves_its_storage() -> None:
    answer = judged(with_region(2, offset=1, members=(Member("s", -1),)))
    assert answer.verdict == "hazard"
    assert words(answer, "bounds") == "region D0/state bytes 1–8, stride 8, 5 pages: descriptor 4 leaves the storage"
    assert judged(with_region(1, pages=11)).laws == ("bounds", "folding")
    assert "bounds" in judged(with_region(0, storage="D0/nowhere")).laws


def test_l4_ids_count_as_descriptor_ids() -> None:
    answer = judged(replace(TABLES, target_ids=(*TARGET_IDS[:-1], 25)))
    assert (answer.verdict, answer.laws) == ("hazard", ("descriptor-ids",))
    assert words(answer, "descriptor-ids") == "D0: id 25 is not below 25, the length of its list"
    assert judged(replace(TABLES, source_ids=(-1, *SOURCE_IDS[1:]))).laws == ("descriptor-ids",)


def test_l6a_a_page_that_is_not_inside() -> None:
    # The producer's region is as short, so that only the pages stick out.
    short = replace(with_region(2, "source", bytes=7), target=with_region(2, bytes=7).target)
    answer = judged(short)
    assert answer.laws == ("folding",)
    assert words(answer, "folding").startswith("P0, s: its page of 8 bytes, 1 bytes longer")
    assert words(answer, "folding").endswith("is not inside region P0/state bytes 0–6, stride 8, 5 pages")


def test_l6a_for_registered_regions_that_no_pairing_uses() -> None:
    spare = replace(TABLES, registered=TABLES.registered | {"D0": (replace(TARGET[0], bytes=7), *TARGET[1:])})
    assert judged(spare).laws == ("folding",)


def bee_apart(target_bytes: int) -> tuple[Tables, dict[str, Any]]:
    """P0 keeps b in a storage of its own; on D0 the region of a is so long, and b lies from byte 8 of it on."""
    changes = {
        "worker.0.storages.2": {"name": "bee", "bytes": 80, "memory": "VRAM"},
        "worker.0.layers.1": {
            "name": "b",
            "group": "kv",
            "storage": "bee",
            "offset": 0,
            "page_bytes": 8,
            "page_stride": 8,
        },
    }
    source = (replace(SOURCE[0], bytes=target_bytes), region("P0", "bee", 0, 8, 10, Member("b", 0)), SOURCE[2])
    target = (replace(TARGET[0], bytes=target_bytes), *TARGET[1:])
    tables = replace(TABLES, registered={"P0": source, "D0": target}, source=source, target=target)
    return tables, changes


def test_l6b_a_stowaway() -> None:
    assert judged(*bee_apart(8)).verdict == "lawful"
    answer = judged(*bee_apart(9))
    assert answer.laws == ("folding",)
    assert words(answer, "folding") == (
        "D0, b: rides in region D0/main bytes 0–8, stride 16, 10 pages, "
        "but lies elsewhere in region P0/main bytes 0–8, stride 16, 10 pages"
    )


def test_l6b_a_layer_of_another_group_may_ride_anywhere() -> None:
    other = {"name": "other", "kind": "attention", "pool": "device", "block_tokens": 4, "pages_per_block": 2}
    tables, changes = bee_apart(9)
    for index, block in ((0, 0), (1, 1)):
        changes |= {
            f"worker.{index}.groups.2": other,
            f"worker.{index}.tables.other": {"blocks": [block, 4 - 2 * index]},
        }
    changes["worker.0.layers.1"]["group"] = changes["worker.1.layers.1.group"] = "other"
    pairings = (PAIRINGS[0], Pairing("other", 1, 1, (0, 1, 8), (2, 3, 4)), PAIRINGS[2])
    tables = replace(
        tables, pairings=pairings, source_ids=(2, 3, 4, 10, 11, 18, 23), target_ids=(6, 7, 0, 12, 13, 14, 24)
    )
    assert judged(tables, changes).verdict == "lawful"


def test_l6b_members_at_other_offsets() -> None:
    # On D0 b comes first in the row.
    swapped = {"worker.1.layers.0.offset": 8, "worker.1.layers.1.offset": 0}
    target = replace(ROWS[1], members=(Member("a", 8), Member("b", 0)))
    assert judged(with_rows(ROWS[0], target), swapped).laws == ("folding",)


def test_l6b_rows_of_two_producer_groups() -> None:
    two = {
        "worker.0.groups.2": {
            "name": "other",
            "kind": "attention",
            "pool": "device",
            "block_tokens": 4,
            "pages_per_block": 2,
        },
        "worker.0.layers.1.group": "other",
        "worker.0.tables.other": {"blocks": [0, 4]},
    }
    answer = judged(with_rows(*ROWS), two)
    assert answer.laws == ("folding",)
    assert words(answer, "folding") == (
        "group kv: region D0/main bytes 0–15, stride 16, 10 pages is filled from blocks of 2 producer groups"
    )


def long_rows(length: int, start: int = 0, lead: int = 0) -> Tables:
    """Rows of a and b that start ``start`` bytes before a on both sides, a being ``lead`` bytes into the storage."""
    members = (Member("a", start), Member("b", start + 8))
    return with_rows(*(replace(row, offset=lead - start, bytes=length, members=members) for row in ROWS))


def test_l6b_a_byte_of_the_next_page() -> None:
    """At the same offset on both sides; but the next page is another block's, and pairs with another one."""
    longer = {f"worker.{i}.storages.0.bytes": 162 for i in (0, 1)}
    assert judged(long_rows(16), longer).verdict == "lawful"
    answer = judged(long_rows(17), longer)
    assert (answer.verdict, answer.laws) == ("hazard", ("folding",))
    assert words(answer, "folding") == (
        "D0, a: rides in region D0/main bytes 0–16, stride 16, 10 pages, "
        "but lies elsewhere in region P0/main bytes 0–16, stride 16, 10 pages (page 1 in page 0)"
    )


def test_l6b_a_byte_of_the_page_before() -> None:
    shifted = {f"worker.{i}.{path}": value for i in (0, 1) for path, value in LEAD.items()}
    assert judged(long_rows(16, lead=1), shifted).verdict == "lawful"
    answer = judged(long_rows(17, start=1, lead=1), shifted)
    assert (answer.verdict, answer.laws) == ("hazard", ("folding",))
    assert words(answer, "folding") == (
        "D0, b: rides in region D0/main bytes 0–16, stride 16, 10 pages, "
        "but lies elsewhere in region P0/main bytes 0–16, stride 16, 10 pages (page 6 in page 7)"
    )
    # Before page 0 of a lies nothing, after page 9 of b nothing either.
    only = {"worker.1.tables.kv": {"blocks": [0]}, "worker.0.tables.kv": {"blocks": [1]}, "request": {"tokens": 2}}
    for start, length, page, laws in (
        (1, 17, 0, ()),
        (1, 17, 1, ("folding",)),
        (0, 17, 9, ()),
        (0, 17, 8, ("folding",)),
        (1, 18, 0, ("folding",)),
    ):
        moved = long_rows(length, start=start, lead=1)
        kv = Pairing("kv", 0, 0, (2,), (page,))
        moved = replace(moved, pairings=(kv, *moved.pairings[1:]))
        assert (page, judged(moved, shifted | only).laws) == (page, laws)


LEAD: dict[str, Any] = {"storages.0.bytes": 162, "layers.0.offset": 1, "layers.1.offset": 9}


def test_l6b_a_page_further_on() -> None:
    """The descriptor of page p lies on page p + 2 of b and on no page beside: as such a region stands for nothing."""
    for source_at, target_at in ((40, 40), (8, 40)):
        far = replace(
            with_region(1, "source", offset=source_at, pages=8), target=with_region(1, offset=target_at, pages=8).target
        )
        assert "folding" in judged(far).laws


def test_l6c_lengths_that_differ() -> None:
    answer = judged(with_region(2, "source", stride=8, bytes=8, pages=5))
    assert answer.verdict == "lawful"
    longer = {f"worker.{i}.storages.1.bytes": 41 for i in (0, 1)}
    answer = judged(with_region(2, "source", bytes=9), longer)
    assert answer.laws == ("folding", "parity")
    expected = (
        "group ssm: region P0/state bytes 0–8, stride 8, 5 pages is paired with "
        "region D0/state bytes 0–7, stride 8, 5 pages"
    )
    assert words(answer, "folding") == words(answer, "parity") == expected


@pytest.mark.parametrize(
    ("fields", "laws"),
    [
        ({"stride": 7}, {"folding"}),
        ({"offset": 1, "pages": 4}, {"folding", "descriptor-ids"}),
        ({"pages": 4}, {"folding", "descriptor-ids"}),
        ({"memory": "DRAM"}, {"folding", "parity"}),
        ({"members": (Member("s", 1),)}, {"folding"}),
        ({"members": ()}, {"folding"}),
    ],
)
def test_l6d_what_does_not_fit_the_layer(fields: dict[str, Any], laws: set[str]) -> None:
    answer = judged(with_region(2, **fields))
    assert set(answer.laws) == laws
    assert answer.verdict == "hazard"


def test_l6d_in_words() -> None:
    assert words(judged(with_region(2, memory="DRAM")), "folding") == (
        "D0, s: offset 0, stride 8, 5 pages, VRAM do not fit region D0/state bytes 0–7, stride 8, 5 pages, DRAM"
    )


def test_l6_a_layer_that_no_region_stands_for() -> None:
    assert words(judged(with_region(1, members=())), "folding") == "D0, b: no region stands for it"
    assert words(judged(with_region(1, "source", members=())), "folding") == "P0, b: no region stands for it"


def test_l6_parts_of_an_ssm_page_one_by_one() -> None:
    parts = [{"name": "conv", "unit_bytes": 3}, {"name": "temporal", "unit_bytes": 5}]
    changes = {f"worker.{i}.layers.2.parts": parts for i in (0, 1)}

    def tables(first: int, second: int) -> Tables:
        split = {
            worker: (
                *regions(worker)[:2],
                region(worker, "state", 0, 8, 5, Member("s", 0, 0), section="ssm", bytes=first),
                region(worker, "state", 3, 8, 5, Member("s", 0, 1), section="ssm", bytes=second),
            )
            for worker in ("P0", "D0")
        }
        pairings = (*PAIRINGS[:2], Pairing("ssm", 2, 2, (3,), (4,)), Pairing("ssm", 3, 3, (3,), (4,)))
        return Tables(split, split["P0"], split["D0"], pairings, (*SOURCE_IDS, 28), (*TARGET_IDS, 29))

    assert judged(tables(3, 5), changes).verdict == "lawful"
    assert judged(tables(2, 5), changes).laws == ("folding",)
    assert judged(tables(3, 4), changes).laws == ("folding",)
    whole = tables(3, 5)
    lost = replace(whole, target=whole.target[:3], target_ids=TARGET_IDS, source_ids=SOURCE_IDS, pairings=PAIRINGS)
    assert words(judged(lost, changes), "folding") == "D0, s: no region stands for it"


def test_l7_a_target_descriptor_twice() -> None:
    answer = judged(replace(TABLES, target_ids=(6, 7, 7, *TARGET_IDS[3:])))
    assert answer.laws == ("descriptor-ids",)
    assert words(answer, "descriptor-ids") == "D0: descriptor 7 is written twice"
    assert judged(replace(TABLES, source_ids=(2, 2, 4, *SOURCE_IDS[3:]))).verdict == "lawful"


def test_l7_sections_that_overlap() -> None:
    order = (0, 2, 1)
    moved = replace(
        TABLES,
        target=tuple(TARGET[i] for i in order),
        pairings=tuple(replace(p, target=order.index(p.target)) for p in PAIRINGS),
        target_ids=(6, 7, 0, 21, 22, 15, 14),
    )
    answer = judged(moved)
    assert answer.laws == ("descriptor-ids",)
    assert words(answer, "descriptor-ids") == "D0: sections attention and ssm overlap"
    assert section_ranges(moved.target) == {"attention": (0, 25), "ssm": (10, 15)}
    assert section_ranges(TARGET) == {"attention": (0, 20), "ssm": (20, 25)}


def test_l8_counts_of_a_pairing() -> None:
    pairings = (*PAIRINGS[:2], Pairing("ssm", 2, 2, (3,), ()))
    answer = judged(replace(TABLES, pairings=pairings))
    assert answer.laws == ("parity",)
    assert words(answer, "parity") == "group ssm: 1 source pages are paired with 0 target pages"


def test_l8_counts_of_the_id_lists() -> None:
    answer = judged(replace(TABLES, target_ids=TARGET_IDS[:-1]))
    assert answer.laws == ("parity",)
    assert words(answer, "parity") == "group (all): 7 source pages are paired with 6 target pages"


def test_l8_memory_of_the_list() -> None:
    for index in (0, 1):
        answer = judged(TABLES, {f"worker.{index}.storages.1.memory": "DRAM"})
        assert answer.laws == ("folding", "parity")
        assert words(answer, "parity").startswith("group ssm: region P0/state bytes 0–7")


def test_l11_a_region_inside_another_of_the_same_group() -> None:
    source, target = (*SOURCE, ROWS[0]), (*TARGET, ROWS[1])
    pairings = (Pairing("kv", 3, 3, (2, 3, 4), (6, 7, 0)), *PAIRINGS)
    doubled = replace(TABLES, source=source, target=target, pairings=pairings)
    answer = judged(doubled)
    assert "economy" in {finding.law for finding in answer.findings}
    assert words(answer, "economy") == (
        "D0.kv: addresses region D0/main bytes 0–7, stride 16, 10 pages, "
        "contained in region D0/main bytes 0–15, stride 16, 10 pages"
    )


def test_l11_tables_are_wasteful_when_nothing_else_is_wrong() -> None:
    source, target = (ROWS[0], *SOURCE), (ROWS[1], *TARGET)
    shifted = tuple(replace(p, source=p.source + 1, target=p.target + 1) for p in PAIRINGS)
    ids = tuple(value + 10 for value in SOURCE_IDS), tuple(value + 10 for value in TARGET_IDS)
    unused = Tables({"P0": source, "D0": target}, source, target, shifted, *ids)
    assert judged(unused).verdict == "lawful"
    used = replace(
        unused,
        pairings=(Pairing("kv", 0, 0, (2, 3, 4), (6, 7, 0)), *shifted),
        source_ids=(2, 3, 4, *ids[0]),
        target_ids=(6, 7, 0, *ids[1]),
    )
    answer = judged(used)
    assert (answer.verdict, answer.laws) == ("wasteful", ("economy",))


def test_l11_two_equal_regions_of_one_group() -> None:
    equal = with_rows(*ROWS)
    double = replace(equal, source=(*equal.source, ROWS[0]), target=(*equal.target, ROWS[1]))
    double = replace(double, pairings=(*equal.pairings, Pairing("kv", 2, 2, (2, 3, 4), (6, 7, 0))))
    assert "economy" in {finding.law for finding in judged(double).findings}


def test_plan_and_tables_together() -> None:
    case = built(changed(two_workers(), ELSEWHERE))
    answer = judge(assess(case), Plan((), ()), TABLES)
    assert answer.verdict == "corrupt"
    assert answer.laws == ("coverage", "zeroing")
    assert answer.not_applicable == ()


def test_what_corrupts_comes_first() -> None:
    case = built(changed(two_workers(), ELSEWHERE))
    plan = Plan((), (Place("D0/main", 0, 32),))
    answer = judge(assess(case), plan, replace(TABLES, target_ids=TARGET_IDS[:-1]))
    assert answer.laws == ("coverage", "parity", "zeroing")
    assert [finding.law for finding in answer.findings] == ["coverage", "zeroing", "parity"]


def test_a_hazard_of_tables_beside_a_corrupt_plan() -> None:
    case = built(changed(two_workers(), ELSEWHERE))
    answer = judge(assess(case), Plan((), ()), replace(TABLES, target_ids=TARGET_IDS[:-1]))
    assert answer.laws == ("coverage", "parity", "zeroing")
    assert [finding.subject for finding in answer.findings] == ["plan", "tables", "plan"]
