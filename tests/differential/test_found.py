# SPDX-License-Identifier: Apache-2.0
"""Cases that fuzzing found, each with what was wrong."""

from pathlib import Path

import pytest
from random_worlds import covered

from kvproof.checking import check_case
from kvproof.exits import Exit
from kvproof.fuzzing.differ import compare, enumeration_differences
from kvproof.fuzzing.enumerate_tables import enumerate_tables
from kvproof.gpu_impl.tables import plan
from kvproof.reference.derive import derive
from kvproof.reference.faults import FAULTS
from kvproof.spec.judge.judge import judge
from kvproof.spec.validate import load_case

FOUND = Path(__file__).parent / "found"


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.toml")), ids=lambda path: path.stem)
def test_all_routes_agree(path: Path) -> None:
    case = load_case(path.read_bytes())
    assert compare(case, covered(case)) is None
    assert list(enumeration_differences(case, covered(case), derive(case))) == []
    assert check_case(case).status == Exit.OK


def test_a_region_inside_another_at_one_page_only_is_waste() -> None:
    """The judge looked at the first and last page; where strides differ, only a page between may be inside."""
    case = load_case((FOUND / "contained-in-one-page.toml").read_bytes())
    tables = derive(case, FAULTS["fold-by-base"].rules).tables
    found = {finding.law for finding in judge(covered(case), None, tables).findings}
    assert found == {"folding", "economy"} == enumerate_tables(covered(case), tables)


def test_any_other_page_in_a_descriptor_is_seen() -> None:
    """Of pages 8, 9 and 2 the first and last were asked, for the pages next to them; but 16 bytes on lies page 4."""
    case = load_case((FOUND / "another-page-in-a-descriptor.toml").read_bytes())
    tables = derive(case, FAULTS["row-fold-by-base-and-length"].rules).tables
    found = {finding.law for finding in judge(covered(case), None, tables).findings}
    assert found == {"folding", "descriptor-ids", "economy"} == enumerate_tables(covered(case), tables)


def test_a_table_that_no_layer_uses_may_be_short() -> None:
    """Zeroing looked for the page of the prompt's end in it; both routes did."""
    case = load_case((FOUND / "short-table-without-layers.toml").read_bytes())
    [short] = [group for group in covered(case).consumer.worker.groups if group.name == "h"]
    assert covered(case).consumer.worker.tables[short.name].blocks == ()
    assert list(covered(case).consumer.layers_of(short.name)) == []
    assert derive(case).plan == plan(case)
    assert derive(case).plan.zeroes == ()


def test_a_row_no_longer_stands_for_what_is_split_off_it() -> None:
    """gpu_impl kept the split layers among the row's members, the reference did not."""
    case = load_case((FOUND / "members-of-a-split-row.toml").read_bytes())
    for regions in (derive(case).tables.source, derive(case).tables.target):
        names = [member.layer for region in regions for member in region.members]
        assert len(names) == len(set(names))
