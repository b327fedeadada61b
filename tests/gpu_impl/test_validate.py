# SPDX-License-Identifier: Apache-2.0
"""What must not reach NIXL, which takes some of it silently (notes beside each)."""

from typing import Any

import msgspec
import numpy as np
import pytest
from small_cases import padded_tail, reverse_geometry
from transfers import bases, program

from kvproof.gpu_impl.errors import ProgramInvalid, Unsupported
from kvproof.gpu_impl.validate import check_program, index_ids
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.plan import ZeroRun

CASE = padded_tail()
MAIN = bases(CASE)["P0"]["main"]
replace = msgspec.structs.replace


def with_source(**changes: Any) -> DescriptorFile:
    """The first transfer (P0's VRAM to D0's host memory) with its source list changed."""
    made = program(CASE)
    first = replace(made.transfers[0], source=replace(made.transfers[0].source, **changes))
    return replace(made, transfers=(first, *made.transfers[1:]))


def with_row(*row: int) -> DescriptorFile:
    return with_source(rows=(row, program(CASE).transfers[0].source.rows[1]))


def with_transfer(**changes: Any) -> DescriptorFile:
    made = program(CASE)
    return replace(made, transfers=(replace(made.transfers[0], **changes), *made.transfers[1:]))


def test_a_good_program_is_placed_by_storage() -> None:
    checked = check_program(CASE, program(CASE))
    first = checked.transfers[0]
    assert [(row.storage, row.offset, row.bytes, row.stride, row.count) for row in first.source.rows] == [
        (0, 0, 64, 64, 100),
        (1, 0, 128, 128, 100),
    ]
    assert (first.source_ids.dtype, first.source_ids.tolist()) == (np.dtype(np.int32), [20, 21, 22])
    [host, index] = check_program(reverse_geometry(), program(reverse_geometry())).zeroes
    assert (host.storage, host.offset, host.bytes, host.count) == (0, 63 * 64, 64, 1)
    assert (index.storage, index.offset, index.bytes, index.count) == (1, 83 * 128, 128, 1)


BAD_ROWS = {
    "no bytes": ((MAIN, 0, 0, 64, 100), "100 descriptors of 0 bytes"),
    "no descriptors": ((MAIN, 64, 0, 64, 0), "0 descriptors"),
    "overlapping descriptors": ((MAIN, 64, 0, 63, 100), "63 apart"),
    "stride 0": ((MAIN, 64, 0, 0, 1), "0 apart"),
    "one byte past the end": ((MAIN + 1, 64, 0, 64, 100), "ends 1 bytes past storage main"),
    "before the storage": ((MAIN - 1, 64, 0, 64, 2), "in no storage"),
    "between two storages": ((MAIN + 6400, 64, 0, 64, 1), "in no storage"),
    # NIXL checks the range modulo 2^64: these three pass there, and the first one then writes outside.
    "a stride that wraps back": ((MAIN, 64, 0, 2**64 - 64, 100), "past storage"),
    "2^62 x 4 wraps to 0": ((MAIN, 64, 0, 2**62, 5), "past storage"),
    "2^63 x 2 wraps to 0": ((MAIN, 64, 0, 2**63, 3), "past storage"),
}


@pytest.mark.parametrize(("row", "words"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_rows(row: tuple[int, ...], words: str) -> None:
    with pytest.raises(ProgramInvalid, match=rf"transfer 0, source, row 0: .*{words}"):
        check_program(CASE, with_row(*row))


BAD_TRANSFERS = {
    "id below zero": ({"source_ids": (20, -1, 22)}, "id -1"),
    "id past the list": ({"target_ids": (30, 31, 100)}, r"id 100 is not in \[0, 100\)"),
    "id that wraps to 20": ({"source_ids": (2**32 + 20, 21, 22)}, "id 4294967316"),  # cast silently by NIXL
    "id that is a float": ({"source_ids": (20.5, 21, 22)}, "id 20.5"),  # the same
    "id that is a bool": ({"source_ids": (True, 21, 22)}, "id True"),  # the same
    "target twice": ({"target_ids": (30, 31, 30)}, "target id 30 is listed twice"),  # accepted by NIXL
    "fewer targets": ({"target_ids": (30, 31)}, "3 source ids, 2 target ids"),
    "unequal lengths": ({"source_ids": (20, 121, 22)}, "position 1: source descriptor 121 has 128 bytes, .* 31 has 64"),
    "another producer": ({"producer": "P1"}, "from P1 to D0"),
}


@pytest.mark.parametrize(("changes", "words"), BAD_TRANSFERS.values(), ids=BAD_TRANSFERS)
def test_bad_transfers(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ProgramInvalid, match=rf"transfer 0.*{words}"):
        check_program(CASE, with_transfer(**changes))


def test_the_first_descriptor_of_a_later_row_has_that_rows_length() -> None:
    with pytest.raises(ProgramInvalid, match="source descriptor 100 has 128 bytes"):
        check_program(CASE, with_transfer(source_ids=(20, 100, 22)))
    assert check_program(CASE, with_transfer(source_ids=(20, 99, 22))).transfers[0].source_ids[1] == 99


def test_a_source_may_be_read_twice() -> None:
    assert check_program(CASE, with_transfer(source_ids=(20, 20, 22))).transfers[0].source_ids.tolist() == [20, 20, 22]


def test_memory_kinds_are_those_of_the_storages() -> None:
    with pytest.raises(ProgramInvalid, match="storage main is VRAM, the list DRAM"):
        check_program(CASE, with_source(memory="DRAM"))


def test_writes_and_other_devices_are_not_supported() -> None:
    with pytest.raises(Unsupported, match="WRITE"):
        check_program(CASE, with_transfer(op="WRITE"))
    with pytest.raises(Unsupported, match="device 1"):
        check_program(CASE, with_row(MAIN, 64, 1, 64, 100))


def test_bases_must_be_complete_and_apart() -> None:
    made = program(CASE)
    for wrong, words in [
        ({"P0": {"main": MAIN}, "D0": made.bases["D0"]}, "storage index of P0 has none"),
        ({"D0": made.bases["D0"]}, "has none"),
        ({"P0": {"main": MAIN, "index": MAIN + 6399}, "D0": made.bases["D0"]}, "main and index of P0 overlap"),
        ({"P0": {"main": MAIN, "index": 2**64 - 12799}, "D0": made.bases["D0"]}, "past 2"),
    ]:
        with pytest.raises(ProgramInvalid, match=words):
            check_program(CASE, replace(made, bases=wrong))


def test_zeroes_lie_in_the_consumer() -> None:
    made = program(CASE)
    for run, words in [
        (ZeroRun(("P0", "main", 0), 64), "P0 is not the consumer"),
        (ZeroRun(("D0", "main", 0), 64), "no storage main"),
        (ZeroRun(("D0", "host", 6337), 64), "1 bytes past"),
        (ZeroRun(("D0", "host", 0), 64, 2, 6337), "1 bytes past"),
    ]:
        with pytest.raises(ProgramInvalid, match=words):
            check_program(CASE, replace(made, zeroes=(run,)))


def test_ids_have_32_bits() -> None:
    assert index_ids([0, 2**31 - 1], 2**31, "ids").tolist() == [0, 2**31 - 1]
    with pytest.raises(ProgramInvalid, match="ids: 2147483649 descriptors; 32 bits do not number them"):
        index_ids([0], 2**31 + 1, "ids")
