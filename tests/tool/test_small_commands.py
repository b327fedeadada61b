# SPDX-License-Identifier: Apache-2.0
import json
import re
import subprocess
import sys

import msgspec
import pytest
from commands import PADDED_TAIL, REGRESSIONS, kvproof

import kvproof as api
from kvproof.exits import Exit, exit_of, worst
from kvproof.reference.faults.registry import FAULTS
from kvproof.shapes import ErrorAnswer
from kvproof.words import plural

JUDGEMENT = ("`reason`", "`words`", "`findings`", "`ratios`", "`corrupt`, `contested`", "`not_applicable`")
"""Rows of docs/json.md."""


def test_faults_are_listed() -> None:
    ran = kvproof("faults")
    assert ran.status == 0
    assert [line for line in ran.lines if not line.startswith(" ")] == list(FAULTS)
    for entry in kvproof("faults", "--json").data["faults"]:
        assert entry["sources"]
        assert len(entry["words"]) > 40


@pytest.mark.parametrize("subject", ["case", "plan", "descriptors", "judgement", "error"])
def test_schema_of_one_format(subject: str) -> None:
    schema = kvproof("schema", subject).data
    assert schema["$ref"].removeprefix("#/$defs/") in schema["$defs"]
    assert kvproof("schema").data[subject] == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:kvproof:{subject}:1"


@pytest.mark.parametrize(
    "words",
    [
        ["nope"],
        ["check", "--fault", "x"],
        ["plan", "missing.toml"],
        ["plan", REGRESSIONS / "refused-layer-absent.toml"],
    ],
)
def test_errors_are_as_their_schema_says(words: list[object]) -> None:
    assert msgspec.convert(kvproof(*words, "--json").data, ErrorAnswer, strict=True).error
    assert set(kvproof(*words, "--json").data) == set(ErrorAnswer.__struct_fields__)


def test_schema_names_what_a_judgement_holds() -> None:
    properties = kvproof("schema", "judgement").data["$defs"]["JudgeAnswer"]["properties"]
    assert {"format", "verdict", "laws", "words", "findings", "not_proven"} <= set(properties)


def test_version_names_what_answers_rest_on() -> None:
    ran = kvproof("--version")
    assert ran.status == 0
    assert [line.split()[0] for line in ran.lines] == ["kvproof", "python", "z3", "cvc5", "nixl", "torch"]
    assert kvproof("--version", "--json").data["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))


def test_help_is_plain_and_names_every_command() -> None:
    ran = kvproof("--help")
    assert ran.status == 0
    assert "│" not in ran.out
    assert not any(line.endswith(" ") for line in ran.lines)
    for name in ("prove", "check", "plan", "judge", "transfer", "explain", "fuzz", "faults", "schema"):
        assert f"  {name}: " in ran.out
        assert kvproof(name, "--help").status == 0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("prove", ["--only", "P01"]),
        ("check", [PADDED_TAIL]),
        ("transfer", [REGRESSIONS / "refused-layer-absent.toml"]),
        ("judge", [PADDED_TAIL, "-"]),
        ("explain", [PADDED_TAIL]),
        ("fuzz", ["--seconds", "0.01"]),
        ("faults", []),
        ("--version", []),
    ],
)
def test_the_keys_of_each_answer_are_documented(name: str, arguments: list[object]) -> None:
    plan = kvproof("plan", PADDED_TAIL).out.encode()
    page = (REGRESSIONS.parent.parent / "docs" / "json.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line.split("|")[2] for line in page.splitlines() if line.startswith("| `")}
    written = set(re.findall(r"`(\w+)`", rows[f"`{name}`"]))
    common = {"format", "command", "verdict", "exit", "laws"}
    if name in ("judge", "explain"):
        written |= {key.strip("`") for row in JUDGEMENT for key in row.split(", ")}
        assert set(JUDGEMENT) <= set(rows)
    answer = kvproof(name, *arguments, "--json", stdin=plan).data
    assert set(answer) - common == written - common


def test_of_several_statuses_the_worst_wins() -> None:
    order = [130, 70, 5, 1, 4, 2, 3, 0]
    for index, status in enumerate(order):
        assert worst(Exit(each) for each in order[index:]) == status
    assert worst([]) == 0


def test_status_of_a_verdict() -> None:
    verdicts = ("lawful", "wasteful", "hazard", "corrupt", "refused", "not-covered")
    assert [int(exit_of(verdict)) for verdict in verdicts] == [0, 0, 1, 1, 1, 3]
    assert exit_of("wasteful", strict=True) == 1


def test_one_is_no_plural() -> None:
    assert [plural(count, "byte") for count in (0, 1, 2, 1000)] == ["0 bytes", "1 byte", "2 bytes", "1,000 bytes"]


def test_public_names_exist() -> None:
    for name in api.__all__:
        assert getattr(api, name) is not None
    with pytest.raises(AttributeError):
        _ = api.no_such_name


def test_laws_need_no_terminal_library() -> None:
    script = (
        "import sys, kvproof\n"
        "kvproof.load_case, kvproof.assess, kvproof.judge, kvproof.derive\n"
        "import json; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"rich", "cyclopts", "numpy", "torch", "z3", "cvc5", "nixl"} & set(json.loads(done.stdout))
