# SPDX-License-Identifier: Apache-2.0
"""Known answers on regions that somebody else registered, worked out on a storage of ten rows of 16 bytes.

Layers a and b are the two halves of each row, 8 bytes a page, two pages a block; s is an ssm layer by itself.
"""

import random
from itertools import chain
from typing import Any

import msgspec
import pytest
from spec_worlds import GONE, built, changed, two_workers

from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.judge.captured import REGIONS_LIMIT, UNITS_LIMIT, CapturedRegion
from kvproof.spec.judge.judge import judge_captured, judge_lists
from kvproof.spec.judge.spans import BudgetExceeded
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.tables import Region

NO_REQUEST = {"request": GONE, "worker.0.tables": GONE, "worker.1.tables": GONE}
KV, SSM = ("kv",), ("ssm",)
Rows = list[CapturedRegion]


def row(
    offset: int, length: int, stride: int, pages: int, groups: tuple[str, ...] | None = KV, storage: str = "main"
) -> CapturedRegion:
    return CapturedRegion(Region(f"D0/{storage}", offset, length, stride, pages, "VRAM", "attention"), groups)


A, B, S = row(0, 8, 16, 10), row(8, 8, 16, 10), row(0, 8, 8, 5, SSM, "state")
ROW = row(0, 16, 16, 10)


def judged(rows: Rows, changes: dict[str, Any] | None = None) -> Judgement:
    """What is said of D0's regions, P0 not showing any, in a case without a request."""
    case = built(changed(two_workers(), NO_REQUEST | (changes or {})))
    lists = DescriptorFile(1, case.name, {"P0": {"main": 0, "state": 4096}, "D0": {"main": 8192, "state": 12288}}, ())
    return judge_captured(case, lists, {"P0": (), "D0": rows})


def told(rows: Rows, law: str, verdict: str = "hazard", changes: dict[str, Any] | None = None) -> str:
    answer = judged(rows, changes)
    assert (answer.verdict, answer.laws) == (verdict, (law,)), answer
    [finding] = answer.findings
    assert (finding.subject, finding.corrupting) == ("tables", False)
    return finding.words


def lawful(rows: Rows, changes: dict[str, Any] | None = None) -> bool:
    return judged(rows, changes).verdict == "lawful"


def test_own_pages_and_rows_are_lawful() -> None:
    assert lawful([A, B, S])
    assert lawful([ROW, S])


def test_what_cannot_be_said_of_regions_alone() -> None:
    assert judged([ROW, S]).not_applicable == (
        "coverage", "alignment", "confinement", "single-writer", "descriptor-ids", "parity", "zeroing",
    )  # fmt: skip
    case = built(changed(two_workers(), NO_REQUEST))
    lists = DescriptorFile(1, case.name, {"P0": {}, "D0": {}}, ())
    assert "folding" in judge_captured(case, lists, {"P0": (), "D0": ()}).not_applicable
    assert "folding" in judge_lists(case, lists).not_applicable


def test_a_truncated_page() -> None:
    assert told([row(0, 7, 16, 10), B, S], "folding") == (
        "D0, a: its page of 8 bytes, 1 bytes longer is not inside region D0/main bytes 0–6, stride 16, 10 pages"
    )
    assert told([row(0, 15, 16, 10), S], "folding").startswith("D0, b: its page of 8 bytes is not inside")


def test_the_producers_regions_are_judged_too() -> None:
    case = built(changed(two_workers(), NO_REQUEST))
    lists = DescriptorFile(1, case.name, {"P0": {}, "D0": {}}, ())
    theirs = CapturedRegion(msgspec.structs.replace(ROW.region, storage="P0/main", bytes=15), KV)
    assert judge_captured(case, lists, {"P0": [theirs], "D0": [ROW]}).laws == ("folding",)


def test_a_layer_that_no_region_of_its_group_holds() -> None:
    words = "D0, b: no region that group kv addresses holds its pages"
    assert told([A, S], "folding") == words
    assert told([A, CapturedRegion(B.region, SSM), S], "folding") == words


def test_regions_of_unknown_groups_may_be_anybodys() -> None:
    plain = {"worker.1.layers.2.group": "kv", "worker.1.groups.1": GONE}
    both = plain | {"worker.0.layers.2.group": "kv", "worker.0.groups.1": GONE}
    state = {f"worker.{i}.storages.1.bytes": 80 for i in (0, 1)}
    unknown = [CapturedRegion(one.region, None) for one in (A, B, row(0, 8, 8, 10, None, "state"))]
    assert lawful(unknown, both | state)
    assert judged(unknown[:2], both | state).laws == ("folding",)


def test_pages_that_the_region_has_not() -> None:
    assert told([row(0, 16, 16, 9), S], "folding") == (
        "D0, a: its page of 8 bytes is not inside region D0/main bytes 0–15, stride 16, 9 pages, "
        "which lacks page 9 and those behind it, of 10"
    )
    assert told([row(0, 16, 16, 0), S], "folding") == "D0, a: no region that group kv addresses holds its pages"


def test_another_stride_or_base() -> None:
    # Descriptor 1 begins at byte 15, and a's page 9 ends at 152, past the last descriptor's end at 151.
    assert judged([row(0, 16, 15, 10), S]).laws == ("folding",)
    assert judged([row(1, 15, 16, 10), S]).laws == ("folding",)
    assert judged([row(0, 160, 0, 10), S]).verdict == "lawful"


def test_a_page_in_several_regions() -> None:
    left, right = row(0, 5, 16, 10), row(5, 11, 16, 10)
    assert lawful([left, right, S])
    assert judged([left, row(6, 10, 16, 10), S]).laws == ("folding",)
    assert judged([left, CapturedRegion(right.region, SSM), S]).laws == ("folding",)
    assert judged([left, row(5, 11, 16, 9), S]).laws == ("folding",)


def test_a_region_that_numbers_smaller_units() -> None:
    """Page p of 16 bytes is descriptors 2p and 2p + 1 of 8 bytes, or with one of four units missing a hole."""
    assert lawful([row(0, 8, 8, 20), S])
    assert judged([row(0, 7, 8, 20), S]).laws == ("folding",)
    assert lawful([row(0, 4, 4, 40), S])
    # 30 descriptors of 16 bytes: three for a page by count, which would reach across rows; but page p lies in the p-th.
    assert judged([row(0, 16, 16, 30), S]).laws == ("bounds",)


def test_a_region_that_numbers_larger_units() -> None:
    """Descriptor b of 32 bytes holds pages 2b and 2b + 1 of both layers."""
    assert lawful([row(0, 32, 32, 5), S])
    assert told([row(0, 31, 32, 5), S], "folding").startswith("D0, b: its page of 8 bytes is not inside")
    assert judged([row(0, 16, 32, 5), S]).laws == ("folding",)


def test_units_without_end_are_not_counted() -> None:
    many = UNITS_LIMIT * 10 + 10
    assert set(judged([row(0, 8, 8, many), S]).laws) == {"bounds", "folding"}


def test_l4_the_last_descriptor_leaves_the_storage() -> None:
    assert told([row(0, 16, 16, 11), S], "bounds") == (
        "region D0/main bytes 0–15, stride 16, 11 pages: descriptor 10 leaves the storage"
    )


def test_l4_a_region_that_begins_in_no_storage() -> None:
    lost = CapturedRegion(Region("D0/no storage", 0, 8, 8, 5, "", "attention"), KV, 99)
    assert told([ROW, lost, S], "bounds") == "D0: a region of 8 bytes at 99 begins in no storage of it"
    assert "folding" in judged([lost, S]).laws
    # Where they lie to each other nobody knows; and one without pages has no descriptor to lie anywhere.
    assert {finding.law for finding in judged([ROW, lost, lost, S]).findings} == {"bounds"}
    assert lawful([ROW, CapturedRegion(msgspec.structs.replace(lost.region, pages=0), KV, 99), S])


def test_ssm_layers_are_not_asked_for() -> None:
    """Their rows stand in the prepared lists: a worker may register their regions in units of its own."""
    assert lawful([ROW])
    far = row(0, 100, 8, 5, SSM, "state")
    assert lawful([ROW, far])
    assert judged([ROW, row(0, 100, 8, 5, ("kv", "ssm"), "state")]).laws == ("bounds",)
    assert lawful([ROW, row(0, 100, 8, 5, None, "state")])


def test_l11_a_region_in_another_of_the_group() -> None:
    assert told([ROW, B, S], "economy", "wasteful") == (
        "D0.kv: addresses region D0/main bytes 8–15, stride 16, 10 pages, "
        "contained in region D0/main bytes 0–15, stride 16, 10 pages"
    )
    assert lawful([ROW, CapturedRegion(B.region, SSM), S])
    assert lawful([ROW, CapturedRegion(B.region, None), S])


def test_hazards_come_before_waste() -> None:
    answer = judged([ROW, row(0, 4, 16, 10), row(0, 8, 16, 11)])
    assert (answer.verdict, answer.laws) == ("hazard", ("bounds",))
    assert {finding.law for finding in answer.findings} == {"bounds", "economy"}


def test_too_many_regions_get_no_verdict() -> None:
    with pytest.raises(BudgetExceeded, match=f"D0 has {REGIONS_LIMIT + 1} regions"):
        judged([A] * (REGIONS_LIMIT + 1))


def covered(regions: list[Region], length: int, stride: int, pages: int, start: int) -> bool:
    """Byte by byte: do the descriptors that belong to each page hold it, in one of the three ways to number them?

    A region of as many descriptors numbers pages; one of a multiple, so many units a page; one of a fraction, so many
    pages a descriptor. What regions of the last kind hold counts only if one of them holds every page by itself.
    """
    held: list[list[set[int]]] = []
    for region in regions:
        units, several = region.pages // pages, pages // region.pages if region.pages else 0
        if region.pages and region.pages % pages == 0:
            numbers = [range(page * units, (page + 1) * units) for page in range(pages)]
        elif region.pages and region.pages < pages and pages % region.pages == 0:
            numbers = [range(page // several, page // several + 1) for page in range(pages)]
        else:
            numbers = [range(page, page + 1) if page < region.pages else range(0) for page in range(pages)]
        held.append([{b for n in some for b in bytes_of(region, n)} for some in numbers])
        if region.pages > pages:
            held.append([set(bytes_of(region, page)) for page in range(pages)])
    wanted = [set(range(start + page * stride, start + page * stride + length)) for page in range(pages)]
    alone = any(all(want <= have for want, have in zip(wanted, one, strict=True)) for one in held)
    return alone or all(want <= set(chain(*(one[page] for one in held))) for page, want in enumerate(wanted))


def bytes_of(region: Region, number: int) -> range:
    first = int(region.offset + number * region.stride)
    return range(first, first + int(region.bytes))


def test_what_is_said_to_be_held_is_held_byte_by_byte() -> None:
    """And what is not, is not, where all regions step as the pages do."""
    chance = random.Random(7)
    said = {True: 0, False: 0}
    for _ in range(3000):
        pages, stride = chance.choice([1, 2, 4, 6]), chance.randint(2, 8)
        length, start = chance.randint(1, stride), chance.randint(0, 3)
        regions = []
        for _ in range(chance.randint(1, 3)):
            count = chance.choice([pages, pages, 2 * pages, max(1, pages // 2), chance.randint(0, 8)])
            pitch = chance.choice([stride * pages // count if count else stride, stride, chance.randint(1, 9)])
            base, size = chance.randint(0, start + 2), chance.randint(1, 2 * pitch + 1)
            regions.append(Region("D0/main", base, size, pitch, count, "VRAM", "attention"))
        changes = {
            "worker.1.storages.0.bytes": 400,
            "worker.1.pools.0.blocks": pages,
            "worker.1.groups.0": {"name": "kv", "kind": "attention", "pool": "device", "block_tokens": 2},
            "worker.1.groups.1.pool": "spare",
            "worker.1.layers.0.offset": start,
            "worker.1.layers.0.page_bytes": length,
            "worker.1.layers.0.page_stride": stride,
            "worker.1.layers.0.parts": GONE,
            "worker.1.layers.1": GONE,
            "worker.0.groups.0": {"name": "kv", "kind": "attention", "pool": "device", "block_tokens": 2},
            "worker.0.layers.0.page_bytes": length,
            "worker.0.layers.0.parts": GONE,
            "worker.0.layers.1": GONE,
        }
        answer = judged([CapturedRegion(region, KV) for region in regions], changes)
        held = "folding" not in {finding.law for finding in answer.findings}
        said[held] += 1
        truth = covered(regions, length, stride, pages, start)
        assert truth or not held, (regions, length, stride, pages, start)
        even = all(region.pages == pages and region.stride == stride for region in regions)
        assert held == truth or not even, (regions, length, stride, pages, start)
    assert min(said.values()) > 300
