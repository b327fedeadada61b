# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import PADDED_TAIL, REGRESSIONS, edited, kvproof

ALIASED = REGRESSIONS / "v41-aliased-groups-transfer.toml"


def edit(before: str, after: str, source: Path = PADDED_TAIL) -> Callable[[Path], Path]:
    return lambda folder: edited(folder, (before, after), source=source)


def contents(data: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "case.toml"
        path.write_bytes(data)
        return path

    return write


def empty_folder(folder: Path) -> Path:
    path = folder / "nothing"
    path.mkdir()
    (path / "notes.txt").write_text("no case")
    return path


BAD_CASES = {
    "unknown key": (edit("tokens = 160", "tokens = 160\ncolour = 1"), "unknown key colour"),
    "duplicate key": (edit("tokens = 160", "tokens = 160\ntokens = 161"), "not TOML"),
    "bool for int": (edit("tokens = 160", "tokens = true"), "found true"),
    "float": (edit("tokens = 160", "tokens = 160.0"), "found 160.0"),
    "negative": (edit("tokens = 160", "tokens = -160"), "found -160"),
    "2^70": (edit("tokens = 160", f"tokens = {2**70}"), f"found {2**70}"),
    "no consumer": (edit('role = "consumer"', 'role = "producer"'), "a producer has none; the case has no consumer"),
    "missing table": (edit(", idx = { blocks = [40, 41, 42], cached_tokens = 0 }", ""), "the table of group 'idx'"),
    "block outside its pool": (edit("[40, 41, 42]", "[40, 41, 100]"), "block 100 is not in pool"),
    "page past its storage": (edit("bytes = 12800", "bytes = 12799"), "ends at byte 12800"),
    "block of two groups": (edit("g1 = { blocks = [3] }", "g1 = { blocks = [1] }", ALIASED), "'g0''s already"),
    "empty": (contents(b""), "the file is empty"),
    "20 MB": (contents(b"a" * 20_000_000), "20000000 bytes"),
    "binary": (contents(bytes(range(256)) * 8), "not UTF-8"),
    "NUL": (contents(b"format = 1\0"), "NUL"),
    "deep nesting": (contents(b"a = " + b"[" * 100_000), "not TOML"),
    "huge number": (contents(b"format = " + b"9" * 10_000), "not TOML"),
    "folder without cases": (empty_folder, "no *.toml file"),
    "missing": (lambda folder: folder / "missing.toml", "No such file"),
    "unknown fault in expect": (edit("suffix-selection = ", "prefix-selection = "), "known: suffix-selection"),
    "unknown rule in expect.ratio": (edit("[expect.ratio.lawful]", "[expect.ratio.awful]"), "known: suffix-selection"),
}
BAD_CASES["block of two groups"] = (BAD_CASES["block of two groups"][0], "already (W8)")


@pytest.mark.parametrize("name", BAD_CASES)
@pytest.mark.parametrize("command", ["check", "transfer", "plan", "explain", "judge"])
def test_bad_case_is_one_line_and_exit_2(tmp_path: Path, name: str, command: str) -> None:
    make, words = BAD_CASES[name]
    path = make(tmp_path)
    if name == "folder without cases" and command not in ("check", "transfer"):
        words = "is a folder"
    ran = kvproof(command, path, *([path] if command == "judge" else []))
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert ran.err.startswith(f"{path}: ")
    assert words in ran.err


BAD_PLANS = {
    "folder": (empty_folder, "is a folder"),
    "empty": (contents(b"  \n"), "the file is empty"),
    "binary": (contents(bytes(range(256))), "not UTF-8"),
    "no JSON": (contents(b"{"), "not JSON"),
    "a list": (contents(b"[]"), "expected a JSON object"),
    "duplicate key": (contents(b'{"format": 1, "format": 1}'), "given twice"),
    "NaN": (contents(b'{"format": NaN}'), "NaN"),
    "unknown key": (contents(b'{"format": 1, "case": "hisparse-padded-tail", "copy": []}'), "unknown key copy"),
    "other case": (contents(b'{"format": 1, "case": "other"}'), "for case 'other', not for 'hisparse-padded-tail'"),
    "unknown storage": (
        contents(b'{"format": 1, "case": "hisparse-padded-tail", "zeroes": [{"target": ["D0", "x", 0], "bytes": 1}]}'),
        "no storage 'x'",
    ),
    "deep nesting": (contents(b'{"format": ' + b"[" * 200_000), "not JSON"),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_bad_plan_is_one_line_and_exit_2(tmp_path: Path, name: str) -> None:
    make, words = BAD_PLANS[name]
    path = make(tmp_path)
    ran = kvproof("judge", PADDED_TAIL, path)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert ran.err.startswith(f"{path}: ")
    assert words in ran.err


BAD_USAGE = {
    "unknown command": (["chekc"], "no command is called 'chekc', perhaps check; there are prove, check"),
    "unknown option": (["check", "--quick"], "--quick"),
    "unknown fault": (["check", "--fault", "bad-rule", PADDED_TAIL], "known: suffix-selection"),
    "unknown fault of plan": (["plan", "--fault", "bad-rule", PADDED_TAIL], "known: suffix-selection"),
    "unknown fault of transfer": (["transfer", "--fault", "bad-rule", PADDED_TAIL], "known: suffix-selection"),
    "unknown route": (["plan", "--route", "cpu", PADDED_TAIL], "reference"),
    "fault of the other route": (["plan", "--route", "gpu", "--fault", "fold-by-base", PADDED_TAIL], "--fault"),
    "missing plan": (["judge", PADDED_TAIL], "PLAN"),
    "stdin twice": (["judge", "-", "-"], "given twice"),
    "stdin twice in check": (["check", "-", "-"], "given twice"),
    "empty name": (["check", ""], "file name is empty"),
    "unknown device": (["transfer", "--device", "tpu"], "tpu"),
    "no deadline": (["transfer", "--deadline", "0"], "--deadline: '0' is not a number of seconds above 0"),
    "deadline not a number": (["transfer", "--deadline", "nan"], "--deadline: 'nan'"),
    "deadline without an end": (["transfer", "--deadline", "1e300"], "at most 604800"),
    "deadline of centuries": (["transfer", "--deadline", "1e12"], "at most 604800"),
    "endless search": (["fuzz", "--seconds", "1e9"], "at most 604800"),
    "limit of nothing": (["transfer", "--limit-bytes", "0"], "--limit-bytes"),
    "fraction of bytes": (["transfer", "--limit-bytes", "1.5"], "'1.5' is not a whole number from 1 to "),
    "word for bytes": (["transfer", "--limit-bytes", "true"], "--limit-bytes: 'true' is not a whole number"),
    "fraction of a seed": (["prove", "--seed", "1.5"], "--seed: '1.5' is not a whole number from 0 to 2147483647"),
    "seed of fuzz": (["fuzz", "--seed", "1e3"], "--seed: '1e3' is not a whole number from 0 to 2147483647"),
    "negative seed": (["fuzz", "--seed", "-1"], "--seed: '-1' is not a whole number"),
    "huge seed": (["prove", "--seed", "9" * 5000], "--seed: '999"),
    "no seed": (["prove", "--seed", ""], "--seed: ''"),
    "no report": (["check", "--junit", ""], "--junit: the path is empty"),
    "no folder": (["fuzz", "--out", ""], "--out: the path is empty"),
    "no queries": (["prove", "--smt2", ""], "--smt2: the path is empty"),
    "long report": (["check", "--junit", "a" * 300], "--junit: "),
    "long folder": (["fuzz", "--out", "a" * 300], "cannot be written: File name too long"),
    "long queries": (["prove", "--smt2", "a" * 300], "cannot be written: File name too long"),
    "long case": (["check", "a" * 300], "cannot be read: File name too long"),
    "long case to move": (["transfer", "a" * 300], "cannot be read: File name too long"),
    "folder for a report": (["check", "--junit", "/"], "--junit: / cannot be written: Is a directory"),
    "engine twice": (["prove", "--engine", "z3,z3"], "--engine: z3 is given twice"),
    "too much": (["judge", "a", "b", "c"], "more arguments than judge takes: 'c'"),
    "no command": ([], "no command before '--json'; there are prove, check"),
    "no negative": (["check", "--no-json"], "Unknown option: --no-json"),
    "too large": (["transfer", "--limit-bytes", "1000", PADDED_TAIL], "--limit-bytes"),
    "seconds not a number": (["fuzz", "--seconds", "abc"], "--seconds"),
    "no seconds": (["fuzz", "--seconds", "-1"], "--seconds"),
    "fault of fuzz": (["fuzz", "--fault", "bad-rule"], "known: suffix-selection"),
    "unknown engine": (["prove", "--engine", "yices"], "yices"),
    "unknown claim": (["prove", "--only", "X99"], "X99"),
    "unknown schema": (["schema", "cases"], "cases"),
    "report to stdin": (["check", "--junit", "-", PADDED_TAIL], "--junit"),
    "report nowhere": (["check", "--junit", "/nowhere/at/all.xml", PADDED_TAIL], "/nowhere/at/all.xml"),
}


@pytest.mark.parametrize("name", BAD_USAGE)
def test_bad_usage_is_one_line_and_exit_2(name: str) -> None:
    arguments, words = BAD_USAGE[name]
    ran = kvproof(*(arguments or ["--json"]))
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert words in ran.err
    assert len(ran.err) < 2500


@pytest.mark.parametrize("name", BAD_USAGE)
def test_bad_usage_is_json_where_asked_for(name: str) -> None:
    ran = kvproof(*BAD_USAGE[name][0], "--json")
    data = ran.data
    assert (data["format"], data["verdict"], data["exit"]) == (1, "bad-input", 2)
    words = data.get("error") or data["cases"][0]["error"]
    assert words


def test_bad_case_among_good_ones_is_reported_beside_them(tmp_path: Path) -> None:
    bad = edited(tmp_path, ("tokens = 160", "tokens = 0"))
    ran = kvproof("check", bad, PADDED_TAIL, "--json")
    assert ran.status == 2
    first, second = ran.data["cases"]
    assert (first["verdict"], second["verdict"]) == ("bad-input", "lawful")
    assert "tokens" in first["error"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = edited(tmp_path)
    path.chmod(0)
    ran = kvproof("check", path)
    assert (ran.status, ran.err) == (2, f"{path}: cannot be read: Permission denied\n")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_devices_are_not_read(path: str) -> None:
    ran = kvproof("check", path)
    assert ran.status == 2
    assert ran.err == f"{path}: is a device; a case is a file or a pipe, or '-' for standard input\n"


def test_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = kvproof("check", tmp_path / "pipe")
    assert ran.status == 2
    assert "is a pipe that nothing comes out of; '-' reads standard input" in ran.err


def test_pipe_with_a_writer_is_read() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream:
        stream.write(PADDED_TAIL.read_bytes())
    assert kvproof("check", f"/dev/fd/{reading}").lines[0].startswith("ok    hisparse-padded-tail")
    os.close(reading)


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = edited(tmp_path, ('title = "P block', 'title = "\\u001b[31mred\\nnext\\u009b P block'))
    ran = kvproof("explain", path)
    assert ran.lines[1].startswith("\\x1b[31mred\\nnext\\x9b P block")
    assert "\x9b" not in kvproof("explain", path, "--json").out
    plan = tmp_path / "plan.json"
    plan.write_text('{"format": 1, "case": "a\\u001b[31m\\nb\\ud800"}')
    ran = kvproof("judge", PADDED_TAIL, plan)
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "\x1b" not in ran.err


def test_key_with_control_characters_is_one_line(tmp_path: Path) -> None:
    ran = kvproof("check", edited(tmp_path, ("tokens = 160", 'tokens = 160\n"\\u001b[31m\\n" = 1')))
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "\x1b" not in ran.err


@pytest.mark.parametrize(
    ("words", "json"),
    [
        (["--json"], True),
        (["--json=true"], True),
        (["--json=false"], False),
        (["--json", "--json=no"], False),
        (["--", "--json"], False),
        ([], False),
    ],
)
def test_errors_are_json_if_the_parser_says_so(words: list[str], json: bool) -> None:
    ran = kvproof("judge", "a", "b", "c", *words)
    assert (ran.status, bool(ran.out)) == (2, json)


def test_long_values_are_cut() -> None:
    for words in (["--fault", "x" * 5000], ["--fault", "x " * 5000]):
        ran = kvproof("check", *words)
        assert (ran.status, "…" in ran.err, len(ran.err) < 2500) == (2, True, True)
        assert len(kvproof("check", *words, "--json").data["error"]) < 2500


def test_file_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    edited(tmp_path, name="<stdin>")
    assert kvproof("check", "<stdin>").status == 0
    odd = os.fsdecode(b"b\xff\xe9.toml")
    edited(tmp_path, name=odd)
    ran = kvproof("check", odd, "--json")
    assert ran.out.isascii()
    assert ran.data["cases"][0]["file"] == "b\\xff\\xe9.toml"
    assert kvproof("check", os.fsdecode(b"\xff")).err == "\\xff: cannot be read: No such file or directory\n"


def test_nothing_judged_claims_nothing() -> None:
    for command in ("check", "transfer"):
        ran = kvproof(command, "missing.toml")
        assert ran.status == 2
        assert "not tried" not in ran.out
        assert "Taken on trust" not in ran.out


def test_key_given_twice_is_named(tmp_path: Path) -> None:
    ran = kvproof("check", edited(tmp_path, ("tokens = 160", "tokens = 160\ntokens = 161")))
    assert "the key tokens is given twice" in ran.err
