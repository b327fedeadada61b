# SPDX-License-Identifier: Apache-2.0
"""Cases that fuzzing found, each with what was wrong."""

from pathlib import Path

import pytest
from random_worlds import covered

from kvproof.fuzzing.differ import compare, enumeration_differences
from kvproof.fuzzing.enumerate_tables import enumerate_tables
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


def test_a_region_inside_another_at_one_page_only_is_waste() -> None:
    """The judge looked at the first and last page; where strides differ, only a page between may be inside."""
    case = load_case((FOUND / "contained-in-one-page.toml").read_bytes())
    tables = derive(case, FAULTS["fold-by-base"].rules).tables
    found = {finding.law for finding in judge(covered(case), None, tables).findings}
    assert found == {"folding", "economy"} == enumerate_tables(covered(case), tables)


def test_a_row_no_longer_stands_for_what_is_split_off_it() -> None:
    """gpu_impl kept the split layers among the row's members, the reference did not."""
    case = load_case((FOUND / "members-of-a-split-row.toml").read_bytes())
    for regions in (derive(case).tables.source, derive(case).tables.target):
        names = [member.layer for region in regions for member in region.members]
        assert len(names) == len(set(names))
