# SPDX-License-Identifier: Apache-2.0
"""What is known of the releases, and what becomes of a run that differs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from commands import REGRESSIONS, edited, kvproof
from stand_ins import know, stand_in

from kvproof.upstream.matrix.expectations import book, book_of, span
from kvproof.upstream.record import recorded
from kvproof.upstream.targets.releases import SUPPORTED

TAIL = "hisparse-padded-tail"
ONE_GROUP = "hisparse-padded-tail-one-group"
KNOWN = f'{ONE_GROUP} = [ {{ first = "0.32.0", verdict = "corrupt", laws = ["alignment"], reach = "worker-level" }} ]\n'


@pytest.fixture(autouse=True)
def no_real_target(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.32.0": "suffix-selection", "0.33.0": "suffix-selection"})
    know(monkeypatch, KNOWN)


def test_known_corruption_passes() -> None:
    ran = kvproof("upstream", "--release", "0.33.0", ONE_GROUP)
    assert ran.status == 0
    assert "corrupt (alignment) on 0.33.0, as expected" in ran.out
    assert "1 corrupt; 1 as expected, 0 not" in ran.out


def test_what_is_known_of_some_releases_says_nothing_of_others() -> None:
    ran = kvproof("upstream", "--release", "0.31.0", ONE_GROUP, "--json")
    assert (ran.status, ran.data["rows"][0]["expected"]) == (0, None)


MISSES = {
    "repaired": ("lawful", "corrupt expected, found lawful"),
    "another law": ("fold-by-base", "found"),
    "not driven any more": ("is not driven", "corrupt expected, found not-covered"),
    "hangs": ("hangs", "corrupt expected, found hung"),
}


@pytest.mark.parametrize("name", MISSES)
def test_other_outcome_is_exit_1_even_a_better_one(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    habit, words = MISSES[name]
    stand_in(monkeypatch, {"0.33.0": habit})
    ran = kvproof("upstream", "--release", "0.33.0", ONE_GROUP)
    assert ran.status == 1
    assert "    not as expected: " in ran.out
    assert words in ran.out
    assert " !" in ran.out
    [row] = kvproof("upstream", "--release", "0.33.0", ONE_GROUP, "--json").data["rows"]
    assert row["problems"]
    assert row["exit"] == 1


FIELDS = {
    "laws": ('laws = ["alignment"]', 'laws = ["coverage"]', "laws: coverage expected, found alignment"),
    "reach": ('reach = "worker-level"', 'reach = "reachable"', "reach: reachable expected, found worker-level"),
    "ratio": (
        'laws = ["alignment"]',
        'laws = ["alignment"], ratio = { "D0.kv" = [3, 2] }',
        "D0.kv: 3/2 expected, found 1",
    ),
    "no such group": (
        'laws = ["alignment"]',
        'laws = ["alignment"], ratio = { "D0.x" = [3, 2] }',
        "found nothing moved",
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_counts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before, after, words = FIELDS[name]
    know(monkeypatch, KNOWN.replace(before, after))
    ran = kvproof("upstream", "--release", "0.33.0", ONE_GROUP)
    assert ran.status == 1
    assert words in ran.out


def test_waste_of_a_group_that_is_not_named_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "row-fold-by-base"})
    words = 'verdict = "wasteful", laws = ["economy"]'
    [row] = kvproof("upstream", "--release", "0.33.0", "v41-aliased-groups-transfer", "--json").data["rows"]
    over = {group: ratio for group, ratio in row["ratios"].items() if ratio[0] > ratio[1]}
    named = ", ".join(f'"{group}" = {ratio}' for group, ratio in over.items())
    for ratio, status in ((named, 0), ("", 1)):
        know(monkeypatch, f"v41-aliased-groups-transfer = [ {{ {words}, ratio = {{ {ratio} }} }} ]")
        ran = kvproof("upstream", "--release", "0.33.0", "v41-aliased-groups-transfer")
        assert ran.status == status, ran.out
    assert over and f"ratio of {next(iter(over))}: 1 expected, found " in ran.out


def test_reason_of_a_refusal_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "refuses"})
    known = f'{TAIL} = [ {{ verdict = "refused", needless = true, laws = ["refusal"], reason = "REASON" }} ]'
    for reason, status in (("ValueError: no such thing", 0), ("KeyError", 1)):
        know(monkeypatch, known.replace("REASON", reason))
        assert kvproof("upstream", "--release", "0.33.0", TAIL).status == status
    know(monkeypatch, f'{TAIL} = [ {{ verdict = "refused" }} ]')
    ran = kvproof("upstream", "--release", "0.33.0", TAIL)
    assert ran.status == 1
    assert "refused rightly expected, found refused needlessly" in ran.out


def test_strict_does_not_count_where_it_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    case = "v41-aliased-groups-transfer"
    stand_in(monkeypatch, {"0.33.0": "row-fold-by-base"})
    know(monkeypatch, f'{case} = [ {{ verdict = "wasteful", laws = ["economy"], ratio = {{ "D0.ring" = [3, 2] }} }} ]')
    assert kvproof("upstream", "--release", "0.33.0", case, "--strict").status == 0


def test_fault_of_the_probe_is_never_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, {"0.33.0": "breaks the probe"})
    assert kvproof("upstream", "--release", "0.33.0", ONE_GROUP).status == 70


def test_edited_copy_of_a_builtin_case_is_nobodys_expectation(tmp_path: Path) -> None:
    same = REGRESSIONS / f"{ONE_GROUP}.toml"
    other = edited(tmp_path, ("tokens = 160", "tokens = 159"), source=same)
    for path, status in ((same, 0), (other, 1)):
        assert kvproof("upstream", "--release", "0.33.0", path).status == status


def test_uncovered_case_of_an_unknown_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tree = str(tmp_path)
    stand_in(monkeypatch, {tree: "is not driven"})
    cases = [path.stem for path in REGRESSIONS.glob("*.toml")]
    known = "".join(f'{case} = [ {{ verdict = "not-covered" }} ]\n' for case in cases)
    know(monkeypatch, known)
    assert kvproof("upstream", "--source", tree).status == 0, "not covered on the current release either"
    assert kvproof("upstream", "--source", tree, TAIL).status == 3, "somebody asked for it"
    know(
        monkeypatch,
        known.replace(f'{TAIL} = [ {{ verdict = "not-covered" }} ]', f'{TAIL} = [ {{ verdict = "lawful" }} ]'),
    )
    assert kvproof("upstream", "--source", tree).status == 3, "the current release covers it"


def test_every_builtin_case_of_every_release_is_known_once() -> None:
    cases = {path.stem for path in REGRESSIONS.glob("*.toml")}
    for connector, known in book().connector.items():
        assert set(known) == cases, connector
        for case, found in known.items():
            releases = [release for expected in found for release in span(expected, SUPPORTED)]
            assert releases == list(SUPPORTED), (connector, case)
    assert set(book().connector) == {"nixl-pull", "nixl-push", "mooncake"}


def test_expectations_are_read_strictly() -> None:
    for text in ('a = [ { verdict = "lawfull" } ]', 'a = [ { verdict = "lawful", law = [] } ]', "a = [ {} ]"):
        with pytest.raises(msgspec.ValidationError):
            book_of("format = 1\n[connector.nixl-pull]\n" + text)


def test_what_is_recorded_of_a_run_is_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch,
        {"0.25.0": "is not driven", "0.28.0": "refuses", "0.31.0": "suffix-selection", "0.33.0": "row-fold-by-base"},
    )
    know(monkeypatch)
    cases = [ONE_GROUP, "v41-aliased-groups-transfer", "refused-layer-absent"]
    ran = kvproof("upstream", "--release", "all", *cases, "--json")
    text = recorded([ran.data])
    assert '{ first = "0.32.0", verdict = "lawful", reach = "worker-level" }' in text
    assert 'reason = "this release has no rings"' in text
    assert "worker.py:7" not in text, "line numbers change with every release"
    monkeypatch.setattr("kvproof.upstream.matrix.rows.book", lambda: book_of(text))
    again = kvproof("upstream", "--release", "all", *cases, "--json")
    assert again.status == 0
    assert [row["problems"] for row in again.data["rows"]] == [[]] * 21
    assert all(row["expected"] for row in again.data["rows"])


def test_nothing_is_recorded_of_a_release_that_was_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    know(monkeypatch)
    ran = kvproof("upstream", "--release", "0.25.0", "--release", "0.29.0", TAIL, "--json")
    found = book_of(recorded([ran.data])).connector["nixl-pull"][TAIL]
    assert [span(expected, SUPPORTED) for expected in found] == [("0.25.0",), ("0.29.0",)]
