# SPDX-License-Identifier: Apache-2.0
"""Memory before and after against what was captured: every byte, by hand."""

from pathlib import Path

import msgspec
import pytest
from targets import observed, with_memory

from kvproof.reference.derive import derive
from kvproof.reference.faults import FAULTS
from kvproof.spec.judge.verdict import Judgement
from kvproof.spec.place import Place
from kvproof.spec.plan import Copy, Plan
from kvproof.spec.scope import assess
from kvproof.spec.validate import load_case
from kvproof.spec.vocabulary import Case
from kvproof.upstream.judging import memory
from kvproof.upstream.judging.memory import CHUNK, differences, raced, read_dump, unequal
from kvproof.upstream.judging.outcome import Outcome, outcome_of
from kvproof.upstream.protocol import Observed
from kvproof.upstream.running.lost import Lost

FOLDER = Path(__file__).parents[3] / "cases" / "regressions"


def case_named(name: str) -> Case:
    return load_case((FOLDER / f"{name}.toml").read_bytes())


CASE = case_named("hisparse-reverse-geometry")
"""D0's page 63 (host, bytes 4032 to 4095) and 83 are zeroed, as 160 tokens end in the third page of four."""


def judged(folder: Path, seen: Observed, plan: Plan | None = None) -> Outcome:
    return outcome_of(CASE, with_memory(CASE, seen, plan or derive(CASE).plan, folder), folder)


def spoil(file: Path, byte: int) -> None:
    content = bytearray(file.read_bytes())
    content[byte] ^= 1
    file.write_bytes(content)


def test_memory_that_agrees(tmp_path: Path) -> None:
    found = judged(tmp_path, observed(CASE))
    assert (found.verdict, found.memory) == ("lawful", "agrees")


def test_no_memory_was_written_down(tmp_path: Path) -> None:
    assert outcome_of(CASE, observed(CASE), tmp_path).memory == "not seen"


def test_some_memory_was_not_written_down(tmp_path: Path) -> None:
    seen = with_memory(CASE, observed(CASE), derive(CASE).plan, tmp_path)
    part = msgspec.structs.replace(seen.workers["P0"], memory={})
    assert read_dump(CASE, msgspec.structs.replace(seen, workers=seen.workers | {"P0": part}), tmp_path) is None


def test_more_memory_than_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """6400 and 12800 bytes on each side."""
    seen = with_memory(CASE, observed(CASE), derive(CASE).plan, tmp_path)
    monkeypatch.setattr(memory, "BYTES_LIMIT", 38400)
    assert outcome_of(CASE, seen, tmp_path).memory == "agrees"
    monkeypatch.setattr(memory, "BYTES_LIMIT", 38399)
    found = outcome_of(CASE, seen, tmp_path)
    assert (found.verdict, found.memory) == ("lawful", "not seen")


@pytest.mark.parametrize(
    ("file", "byte", "storage"),
    [("producer-0", 0, "P0/main"), ("consumer-0", 6399, "D0/host"), ("consumer-1", 5000, "D0/index")],
)
def test_a_byte_that_nobody_captured(tmp_path: Path, file: str, byte: int, storage: str) -> None:
    """Wherever it is, on either side, required or not."""
    seen = with_memory(CASE, observed(CASE), derive(CASE).plan, tmp_path)
    spoil(tmp_path / f"{file}.after", byte)
    found = outcome_of(CASE, seen, tmp_path)
    words = f"bytes {byte}–{byte} of {storage} are not what the captured copies and zeroes make of them"
    assert (found.verdict, found.memory, found.laws) == ("fault", "differs", ())
    assert found.words == f"the capture cannot be trusted: {words}"


def test_what_was_captured_did_not_happen(tmp_path: Path) -> None:
    plan = derive(CASE).plan
    for short in (Plan(plan.copies[1:], plan.zeroes), Plan(plan.copies, ())):
        assert judged(tmp_path, observed(CASE), short).verdict == "fault"


def test_what_happened_was_not_captured(tmp_path: Path) -> None:
    seen = observed(CASE)
    assert judged(tmp_path, msgspec.structs.replace(seen, zeroes=())).verdict == "fault"
    assert judged(tmp_path, msgspec.structs.replace(seen, transfers=seen.transfers[:1])).verdict == "fault"


def test_a_corrupt_plan_that_memory_bears_out(tmp_path: Path) -> None:
    case, rules = case_named("hisparse-padded-tail"), FAULTS["suffix-selection"].rules
    seen = with_memory(case, observed(case, rules), derive(case, rules).plan, tmp_path)
    found = outcome_of(case, seen, tmp_path)
    assert (found.verdict, found.memory) == ("corrupt", "agrees")


def test_corrupt_bytes_that_are_all_right_in_memory(tmp_path: Path) -> None:
    """Memory that is all alike shows nothing: then nobody has seen the corruption."""
    case, rules = case_named("hisparse-padded-tail"), FAULTS["suffix-selection"].rules
    seen = with_memory(case, observed(case, rules), derive(case, rules).plan, tmp_path)
    for file in tmp_path.iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    found = outcome_of(case, seen, tmp_path)
    assert found.words == (
        "the capture cannot be trusted: the judge finds 576 bytes wrong, and all of them are right in memory"
    )


def test_bytes_that_the_judge_has_missed(tmp_path: Path) -> None:
    case, rules = case_named("hisparse-padded-tail"), FAULTS["suffix-selection"].rules
    plan = derive(case, rules).plan
    dump = read_dump(case, with_memory(case, observed(case, rules), plan, tmp_path), tmp_path)
    assert dump is not None
    [words] = differences(case, assess(case), plan, Judgement("lawful"), dump)
    assert "of D0/host are wrong in memory, but the judge finds them right" in words


def test_a_transfer_of_unequal_lengths_may_do_anything(tmp_path: Path) -> None:
    seen = with_memory(CASE, observed(CASE), derive(CASE).plan, tmp_path)
    [first, *rest] = seen.transfers
    [row, *rows] = first.source.rows
    short = msgspec.structs.replace(first.source, rows=((row[0], 63, *row[2:]), *rows))
    odd = msgspec.structs.replace(seen, transfers=(msgspec.structs.replace(first, source=short), *rest))
    found = outcome_of(CASE, odd, tmp_path)
    assert ("parity" in found.laws, found.verdict, found.memory) == (True, "corrupt", "not seen")


def test_a_file_of_another_size_is_garbage(tmp_path: Path) -> None:
    seen = with_memory(CASE, observed(CASE), derive(CASE).plan, tmp_path)
    (tmp_path / "consumer-0.after").write_bytes(bytes(6399))
    found = outcome_of(CASE, seen, tmp_path)
    assert found.verdict == "garbage"
    assert "6399" in found.words


def test_a_file_outside_the_folder_is_garbage(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    seen = with_memory(CASE, observed(CASE), derive(CASE).plan, tmp_path)
    with pytest.raises(Lost):
        read_dump(CASE, seen, inner)
    files = {"main": ("../producer-0.before", "../producer-0.after")}
    part = msgspec.structs.replace(seen.workers["P0"], memory=files)
    away = msgspec.structs.replace(seen, workers=seen.workers | {"P0": part})
    assert outcome_of(CASE, away, inner).verdict == "garbage"


def copy(source: int, target: int, length: int) -> Copy:
    return Copy(Place("P0/kv", source, length), Place("D0/kv", target, length))


def test_bytes_that_two_copies_race_for() -> None:
    # 10 to 19 from 0 on, 15 to 24 from 5 on (the same bytes), 18 to 21 from elsewhere.
    plan = Plan((copy(0, 10, 10), copy(5, 15, 10), copy(90, 18, 4)), ())
    assert sorted(place.offset for place in raced(plan)) == [18, 18]
    assert {(place.offset, place.bytes) for place in raced(plan)} == {(18, 2), (18, 4)}
    assert list(raced(Plan((copy(0, 10, 10), copy(0, 10, 10)), ()))) == []


def test_a_race_may_end_either_way(tmp_path: Path) -> None:
    """The stowaway: two copies give its page different values. Memory may hold either, but nothing else."""
    case, rules = case_named("stowaway"), FAULTS["fold-by-base"].rules
    plan = derive(case, rules).plan
    [first, *_] = raced(plan)
    for ending in (plan, Plan(plan.copies[::-1], plan.zeroes)):
        found = outcome_of(case, with_memory(case, observed(case, rules), ending, tmp_path), tmp_path)
        assert (found.verdict, found.memory) == ("corrupt", "agrees")
    assert first.storage == "D0/kv"


def test_where_two_contents_differ() -> None:
    first = bytearray(3 * CHUNK)
    second = bytearray(first)
    for byte in (0, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK - 1):
        second[byte] = 1
    found = [(place.offset, place.bytes) for place in unequal("D0/kv", first, second)]
    assert found == [(0, 1), (CHUNK - 1, 3), (3 * CHUNK - 1, 1)]
    assert list(unequal("D0/kv", first, first)) == []
    assert [place.bytes for place in unequal("D0/kv", bytes(2 * CHUNK), b"\1" * 2 * CHUNK)] == [2 * CHUNK]
