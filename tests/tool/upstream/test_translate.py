# SPDX-License-Identifier: Apache-2.0
"""What a probe saw, in the judge's terms; and what cannot be said of a case at all."""

from typing import Any

import msgspec
import pytest
from small_cases import attention, case, layer, worker

from kvproof.spec.descriptors import DescriptorList, Transfer
from kvproof.spec.plan import ZeroRun
from kvproof.spec.vocabulary import Case
from kvproof.upstream.judging.translate import Untranslatable, captured_regions, descriptor_lists
from kvproof.upstream.protocol import Observed, Reached, SeenRegion, SeenWorker, SeenZero

P_KV, D_KV, D_FAR = 1000, 5000, 9000
TRANSFER = Transfer(
    "P0",
    "D0",
    DescriptorList("VRAM", ((P_KV, 64, 0, 64, 10),)),
    DescriptorList("VRAM", ((D_KV, 64, 0, 64, 10),)),
    (3,),
    (4,),
)


def pair() -> Case:
    """Pages of 64 bytes on both sides; D0 has a second storage, in host memory, for another layer."""
    groups = [attention("kv")]
    return case(
        worker("producer", {"kv": 640}, groups, [layer("a", "kv", "kv", 0, 64, 64)], {"kv": [3]}),
        worker(
            "consumer",
            {"kv": 640, "far": 640},
            groups,
            [layer("a", "kv", "kv", 0, 64, 64), layer("b", "kv", "far", 0, 64, 64)],
            {"kv": [4]},
            host=("far",),
        ),
        64,
    )


def seen(**changes: Any) -> Observed:
    workers = {"P0": SeenWorker({"kv": P_KV}), "D0": SeenWorker({"kv": D_KV, "far": D_FAR})}
    plain = Observed(workers, (TRANSFER,), Reached("synthetic"))
    return msgspec.structs.replace(plain, **changes)


def refused(**changes: Any) -> str:
    with pytest.raises(Untranslatable) as caught:
        descriptor_lists(pair(), seen(**changes))
    return str(caught.value)


def test_transfers_as_they_are_and_the_bases_of_all_workers() -> None:
    lists = descriptor_lists(pair(), seen())
    assert (lists.format, lists.case, lists.transfers) == (1, "small", (TRANSFER,))
    assert lists.bases == {"P0": {"kv": P_KV}, "D0": {"kv": D_KV, "far": D_FAR}}


def test_zeroes_by_storage_and_offset() -> None:
    zeroes = (SeenZero("D0", D_KV + 128, 64), SeenZero("D0", D_FAR + 639, 5), SeenZero("P0", P_KV, 1))
    assert descriptor_lists(pair(), seen(zeroes=zeroes)).zeroes == (
        ZeroRun(("D0", "kv", 128), 64),
        ZeroRun(("D0", "far", 639), 5),  # runs out of its storage: for the law of bounds to say
        ZeroRun(("P0", "kv", 0), 1),
    )


def test_a_zero_of_no_bytes_is_none() -> None:
    assert descriptor_lists(pair(), seen(zeroes=(SeenZero("D0", 0, 0),))).zeroes == ()


def test_zeroes_that_the_case_has_no_place_for() -> None:
    words = "zeroes[0]: 8 bytes at 5640 begin in no storage of D0"
    assert refused(zeroes=(SeenZero("D0", D_KV + 640, 8),)) == words
    assert refused(zeroes=(SeenZero("D0", 2**70, 8),)).startswith("zeroes[0]")
    assert refused(zeroes=(SeenZero("D0", P_KV, 8),)).startswith("zeroes[0]")
    assert refused(zeroes=(SeenZero("D7", D_KV, 8),)) == "zeroes[0]: the case has no worker 'D7'"


def test_workers_and_storages_are_those_of_the_case() -> None:
    workers = seen().workers
    assert refused(workers={"P0": workers["P0"]}) == "workers: 'D0' of the case is missing"
    assert refused(workers=workers | {"X": workers["P0"]}) == "workers: the case has no 'X'; it has P0, D0"
    assert refused(workers=workers | {"D0": SeenWorker({"kv": 0})}) == "workers.D0.bases: 'far' of the case is missing"
    strange = workers | {"P0": SeenWorker({"kv": P_KV, "more": 0})}
    assert refused(workers=strange) == "workers.P0.bases: the case has no 'more'; it has kv"


def test_bases_are_apart_and_fit_64_bits() -> None:
    workers = seen().workers
    assert "share addresses" in refused(workers=workers | {"D0": SeenWorker({"kv": 5000, "far": 5639})})
    assert "pass 2^64" in refused(workers=workers | {"P0": SeenWorker({"kv": 2**64 - 639})})


def test_transfers_go_from_a_producer_to_a_consumer() -> None:
    turned = msgspec.structs.replace(TRANSFER, producer="D0", consumer="P0")
    assert refused(transfers=(TRANSFER, turned)) == "transfers[1]: 'D0' is no producer of the case"


def test_rows_outside_every_storage_are_the_judges_affair() -> None:
    far = msgspec.structs.replace(TRANSFER, source=DescriptorList("VRAM", ((0, 64, 0, 64, 10),)))
    assert descriptor_lists(pair(), seen(transfers=(far,))).transfers == (far,)


def regions(*found: SeenRegion) -> Any:
    workers = seen().workers | {"D0": msgspec.structs.replace(seen().workers["D0"], regions=found)}
    return captured_regions(pair(), seen(workers=workers))


def test_regions_by_storage_and_offset() -> None:
    found = regions(SeenRegion(D_FAR + 7, 5, 64, 10, "b", ("kv",)), SeenRegion(D_KV, 64, 64, 10))
    assert found["P0"] == ()
    first, second = found["D0"]
    assert (first.region.storage, first.region.offset, first.region.memory) == ("D0/far", 7, "DRAM")
    assert (first.region.bytes, first.region.stride, first.region.pages) == (5, 64, 10)
    assert (first.groups, first.outside) == (("kv",), None)
    assert (second.region.storage, second.region.offset, second.region.memory) == ("D0/kv", 0, "VRAM")
    assert (second.groups, second.outside) == (None, None)


def test_a_region_that_begins_in_no_storage_keeps_its_address() -> None:
    [one] = regions(SeenRegion(D_KV + 640, 64, 64, 10))["D0"]
    assert one.outside == D_KV + 640


def test_regions_of_groups_that_the_case_has_not() -> None:
    with pytest.raises(Untranslatable, match=r"workers.D0.regions\[1\]: D0 has no group 'swa'"):
        regions(SeenRegion(D_KV, 64, 64, 10, groups=("kv",)), SeenRegion(D_KV, 64, 64, 10, groups=("kv", "swa")))
