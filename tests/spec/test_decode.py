# SPDX-License-Identifier: Apache-2.0
"""Decoding: whatever a file holds, it is a struct or BadInput, whose text names path, value and what is allowed."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproof.spec import decode
from kvproof.spec.decode import CASE_BYTES_LIMIT, BadInput, decode_case, decode_json, decode_plan
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.plan import PlanFile
from kvproof.spec.validate import load_case

CASES = Path(__file__).parents[2] / "cases" / "regressions"

CASE = """\
format = 1
name = "one"

[request]
tokens = 4

[expect]
verdict = "lawful"

[expect.pages."layers.0"]
P0 = [1]

[[worker]]
name = "P0"
role = "producer"
storages = [ { name = "main", bytes = 40, memory = "VRAM" } ]
pools = [ { name = "device", blocks = 5 } ]
groups = [ { name = "kv", kind = "attention", pool = "device", block_tokens = 4 } ]
layers = [ { name = "layers.0", group = "kv", storage = "main", offset = 0, page_bytes = 8, page_stride = 8, parts = [
  { name = "k", unit_bytes = 2 } ] } ]
tables = { kv = { blocks = [1] } }
"""

PLAN = {
    "format": 1,
    "case": "one",
    "copies": [{"source": ["P0", "main", 8], "target": ["D0", "main", 16], "bytes": 8, "count": 2}],
    "zeroes": [{"target": ["D0", "main", 32], "bytes": 8}],
}

LISTS = {
    "format": 1,
    "case": "one",
    "bases": {"P0": {"main": 4096}, "D0": {"main": 8192}},
    "transfers": [
        {
            "producer": "P0",
            "consumer": "D0",
            "op": "READ",
            "source": {"memory": "VRAM", "rows": [[4096, 8, 0, 8, 5]], "sections": {"attention": [0, 5]}},
            "target": {"memory": "VRAM", "rows": [[8192, 8, 0, 8, 5]]},
            "source_ids": [1],
            "target_ids": [2],
        }
    ],
    "zeroes": [],
}


def case_words(old: str, new: str) -> str:
    """What decoding says of CASE with one text in place of another."""
    assert CASE.count(old) >= 1
    with pytest.raises(BadInput) as caught:
        decode_case(CASE.replace(old, new, 1).encode())
    return str(caught.value)


def plan_words(data: bytes) -> str:
    with pytest.raises(BadInput) as caught:
        decode_plan(data)
    return str(caught.value)


def plan_with(template: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps(template | changes).encode()


def zero_at(offset: str) -> bytes:
    return b'{"format": 1, "case": "one", "zeroes": [{"target": ["D0", "main", %s], "bytes": 1}]}' % offset.encode()


def test_the_templates_are_fine() -> None:
    assert decode_case(CASE.encode()).worker[0].layers[0].parts[0].unit_bytes == 2
    assert isinstance(decode_plan(plan_with(PLAN)), PlanFile)
    assert isinstance(decode_plan(plan_with(LISTS)), DescriptorFile)
    assert decode_case(b"\xef\xbb\xbf" + CASE.encode()) == decode_case(CASE.encode())
    assert decode_case(CASE.replace("\n", "\r\n").encode()) == decode_case(CASE.encode())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("format = 1", "format = 1\nsize = 3", "case: unknown key size; allowed: format, name, worker, title"),
        ("tokens = 4", "tokens = 4\nsize = 3", "request: unknown key size; allowed: tokens"),
        ('verdict = "lawful"', "size = 3", "expect: unknown key size; allowed: verdict, reason, pages"),
        ('role = "producer"', 'role = "producer"\nsize = 3', "worker[0]: unknown key size; allowed: name, role"),
        ("bytes = 40", "bytes = 40, size = 3", "worker[0].storages[0]: unknown key size; allowed: name, bytes"),
        ("blocks = 5", "blocks = 5, size = 3", "worker[0].pools[0]: unknown key size; allowed: name, blocks, null"),
        ("block_tokens = 4", "size = 3", "worker[0].groups[0]: unknown key size; allowed: name, kind, pool"),
        ("offset = 0", "offset = 0, size = 3", "worker[0].layers[0]: unknown key size; allowed: name, group"),
        ("unit_bytes = 2", "unit_bytes = 2, size = 3", "worker[0].layers[0].parts[0]: unknown key size; allowed: name"),
        ("blocks = [1]", "blocks = [1], size = 3", "worker[0].tables.kv: unknown key size; allowed: blocks, first"),
        ("tokens = 4", 'tokens = 4\n"a\\nb" = 3', 'request: unknown key "a\\nb"; allowed: tokens'),
    ],
)
def test_an_unknown_key_is_named_with_its_path(old: str, new: str, words: str) -> None:
    assert case_words(old, new).startswith(words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tokens = 4", "tokens = true", "request.tokens: expected int, got bool, found true"),
        ("tokens = 4", "tokens = 4.0", "request.tokens: expected int, got float, found 4.0"),
        ("tokens = 4", 'tokens = "4"', 'request.tokens: expected int, got str, found "4"'),
        ("tokens = 4", "tokens = nan", "request.tokens: expected int, got float, found nan"),
        ("tokens = 4", "tokens = inf", "request.tokens: expected int, got float, found inf"),
        ("tokens = 4", "tokens = 2026-01-01", 'request.tokens: expected int, got date, found "2026-01-01"'),
        ("tokens = 4", "tokens = -1", "request.tokens: expected int >= 1, found -1"),
        ("tokens = 4", "tokens = 0", "request.tokens: expected int >= 1, found 0"),
        ("offset = 0", "offset = -8", "worker[0].layers[0].offset: expected int >= 0, found -8"),
        ("bytes = 40", "bytes = 281474976710657", "expected int <= 281474976710656, found 281474976710657"),
        ("bytes = 40", f"bytes = {2**70}", f"expected int <= 281474976710656, found {2**70}"),
        ("bytes = 40", f"bytes = {10**35}", "expected int <= 281474976710656, found an integer of 117 bits"),
        ("blocks = [1]", "blocks = [1, -2]", "worker[0].tables.kv.blocks[1]: expected int >= 0, found -2"),
        ("P0 = [1]", "P0 = [-1]", 'expect.pages."layers.0".P0[0]: expected int >= 0, found -1'),
        ("format = 1", "format = 2", "format: expected 1, found 2"),
        ("format = 1", "format = true", "format: expected int, got bool, found true"),
        ("format = 1", "format = 1.0", "format: expected int, got float, found 1.0"),
        ('role = "producer"', 'role = "both"', 'role: expected one of "producer", "consumer", found "both"'),
        ('"VRAM"', '"HBM"', 'storages[0].memory: expected one of "VRAM", "DRAM", found "HBM"'),
        ('verdict = "lawful"', 'verdict = "ok"', 'expect.verdict: expected one of "lawful", "wasteful", "hazard"'),
        ('name = "P0"', 'name = ""', 'worker[0].name: expected str of length >= 1, found ""'),
        ('name = "P0"', f'name = "{"n" * 201}"', "worker[0].name: expected str of length <= 200"),
        ("{ kv =", '{ "" =', 'worker[0].tables, a key: expected str of length >= 1, found ""'),
        ('name = "P0"', r'name = "P\n0"', r'worker[0].name: expected str without control characters, found "P\n0"'),
        ('name = "P0"', r'name = "P0\n"', r'worker[0].name: expected str without control characters, found "P0\n"'),
        ('name = "P0"', r'name = "\u001b[2J"', 'worker[0].name: expected str without control characters, found "'),
        ("[[worker]]", "[worker]", "worker: expected array, got object, found {"),
        ("tokens = 4", "", "request: the key tokens is missing"),
        ("format = 1", "", "case: the key format is missing"),
        ("offset = 0, ", "", "worker[0].layers[0]: the key offset is missing"),
        ("storages = [ {", "storages = [ ]\nold = [ {", "worker[0].storages: expected array of length >= 1, found []"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_its_path(old: str, new: str, words: str) -> None:
    assert words in case_words(old, new)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tokens = 4", "tokens = 4\ntokens = 4", "not TOML: the key tokens is given twice"),
        ("[request]", "[request]\n[request]", "not TOML: the table request is given twice"),
        ("bytes = 40", "bytes = 40, bytes = 40", "not TOML: Duplicate inline table key 'bytes'"),
        ('name = "one"', 'name = "one"\n"name" = "two"', 'not TOML: the key "name" is given twice'),
    ],
)
def test_a_duplicate_key_of_toml_is_an_error(old: str, new: str, words: str) -> None:
    assert case_words(old, new).startswith(words)


def test_the_largest_integer_is_two_to_the_48() -> None:
    case = decode_case(CASE.replace("bytes = 40", "bytes = 281474976710656").encode())
    assert case.worker[0].storages[0].bytes == 2**48
    plan = decode_plan(zero_at("281474976710656"))
    assert isinstance(plan, PlanFile)
    assert plan.zeroes[0].target[2] == 2**48


@pytest.mark.parametrize("literal", ["9" * 10_000, "0x" + "F" * 10_000, "[0x" + "F" * 10_000 + "]"])
def test_an_integer_of_ten_thousand_digits_is_an_error(literal: str) -> None:
    for old in ("tokens = 4", "format = 1"):
        assert len(case_words(old, old.split(" = ", maxsplit=1)[0] + " = " + literal)) < 300


def test_an_integer_of_ten_thousand_digits_in_json_is_an_error() -> None:
    assert plan_words(zero_at("9" * 10_000)).startswith("not JSON: Exceeds the limit (4300 digits)")
    assert plan_words(zero_at("9" * 4_000)).endswith("found an integer of 13288 bits")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b" \t\r\n ", "the file is empty"),
        (b"\x89PNG\r\n\x1a\n", "not UTF-8 text: byte 0x89 at offset 0"),
        ("format = 1".encode("utf-16"), "not UTF-8 text: byte 0xff at offset 0"),
        (b"format\x00 = 1", "not text: a NUL character at offset 6"),
    ],
)
def test_what_is_not_text_is_an_error(data: bytes, words: str) -> None:
    for reader in (decode_case, decode_plan, decode_json, load_case):
        with pytest.raises(BadInput, match="^" + words.replace("(", r"\(") + "$"):
            reader(data)


def test_a_bare_byte_order_mark_is_an_error() -> None:
    for reader in (decode_case, decode_plan):
        with pytest.raises(BadInput):
            reader(b"\xef\xbb\xbf")


def test_a_case_may_have_four_mebibytes() -> None:
    padding = b"#" * (CASE_BYTES_LIMIT - len(CASE.encode()))
    assert decode_case(CASE.encode() + padding).name == "one"
    with pytest.raises(BadInput, match=r"^4194305 bytes: a case may have at most 4194304$"):
        decode_case(CASE.encode() + padding + b"#")


def test_a_plan_may_have_its_limit_and_not_more(monkeypatch: pytest.MonkeyPatch) -> None:
    data = plan_with(PLAN)
    assert decode.PLAN_BYTES_LIMIT == 2**28
    monkeypatch.setattr(decode, "PLAN_BYTES_LIMIT", len(data))
    assert isinstance(decode_plan(data), PlanFile)
    assert plan_words(data + b" ") == f"{len(data) + 1} bytes: a plan may have at most {len(data)}"


@pytest.mark.parametrize("depth", [100, 330, 500, 985, 1_000, 100_000])
def test_deep_nesting_is_an_error(depth: int) -> None:
    texts = [
        "format = " + "[" * depth + "]" * depth,
        "format = " + "{a = " * depth + "1" + "}" * depth,
        "name = " + "[" * depth,
        "format" + ".a" * depth + " = 1",
        "[worker" + ' . "a"' * depth + "]",
    ]
    for text in texts:
        start = time.process_time()
        with pytest.raises(BadInput):
            decode_case(text.encode())
        assert time.process_time() - start < 5


@pytest.mark.parametrize("depth", [100, *range(900, 1000, 5), 1_000, 100_000])
def test_deep_nesting_in_json_is_an_error(depth: int) -> None:
    for start, end in (("[", "]"), ('{"a":', "}")):
        value = start * depth + "1" + end * depth
        assert plan_words(value.encode())
        assert plan_words(f'{{"format": 1, "case": {value}}}'.encode())
        assert plan_words(f'{{"format": 1, "transfers": {value}}}'.encode())


def test_a_key_may_have_sixteen_dots() -> None:
    title = "title = 'layers" + ".x" * 16 + "'"
    assert decode_case((title + "\n" + CASE).encode()).title.startswith("layers.x")
    assert case_words("format = 1", "a" + ".a" * 16 + " = 1").startswith("case: unknown key a;")
    assert "more than 16 dots" in case_words("format = 1", "a" + ".a" * 17 + " = 1")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[]", "expected a JSON object, found []"),
        (b"1", "expected a JSON object, found 1"),
        (b"null", "expected a JSON object, found null"),
        (b'"plan"', 'expected a JSON object, found "plan"'),
        (b"{", "not JSON: Expecting property name enclosed in double quotes"),
        (b"{} {}", "not JSON: Extra data"),
        (b"NaN", "NaN is not a number that JSON allows"),
        (zero_at("Infinity"), "Infinity is not a number that JSON allows"),
        (zero_at("-Infinity"), "-Infinity is not a number that JSON allows"),
        (zero_at("1e999"), "zeroes[0].target[2]: expected int, got float, found inf"),
        (zero_at("true"), "zeroes[0].target[2]: expected int, got bool, found true"),
        (zero_at("1.0"), "zeroes[0].target[2]: expected int, got float, found 1.0"),
        (zero_at("-1"), "zeroes[0].target[2]: expected int >= 0, found -1"),
        (zero_at("281474976710657"), "zeroes[0].target[2]: expected int <= 281474976710656, found 281474976710657"),
        (zero_at(str(2**70)), f"zeroes[0].target[2]: expected int <= 281474976710656, found {2**70}"),
        (zero_at("null"), "zeroes[0].target[2]: expected int, got null, found null"),
        (b'{"case": "one"}', "plan: the key format is missing"),
        (plan_with(PLAN, format=2), "format: expected 1, found 2"),
        (plan_with(PLAN, copies={}), "copies: expected array, got object, found {}"),
        (plan_with(PLAN, moves=[]), "plan: unknown key moves; allowed: format, case, copies, zeroes, permutes"),
        (plan_with(PLAN, zeroes=[{"target": ["D0", "m"], "bytes": 1}]), "zeroes[0].target: expected array of length 3"),
        (plan_with(PLAN, zeroes=[{"bytes": 1}]), "zeroes[0]: the key target is missing"),
        (plan_with(LISTS, moves=[]), "descriptor lists: unknown key moves; allowed: format, case, bases, transfers"),
        (plan_with(LISTS, bases={"P0": {"main": -1}}), "bases.P0.main: expected int >= 0, found -1"),
        (plan_with(LISTS, bases={"": {}}), 'bases, a key: expected str of length >= 1, found ""'),
        (
            plan_with(LISTS, transfers=[{"op": "COPY"}]),
            'transfers[0].op: expected one of "READ", "WRITE", found "COPY"',
        ),
        (plan_with(LISTS, transfers=[{"op": "READ", "to": 1}]), "transfers[0]: unknown key to; allowed: producer"),
        (
            json.dumps(LISTS).replace('"attention"', '"mla"').encode(),
            'transfers[0].source.sections, a key: expected one of "attention", "ssm", "replicated-ssm", found "mla"',
        ),
        (b'{"format": 1, "format": 1}', "format: the key is given twice in one object"),
        (
            b'{"format": 1, "case": "one", "zeroes": [{"bytes": 1, "bytes": 1}]}',
            "zeroes[0].bytes: the key is given twice in one object",
        ),
        (b'{"a": 1, "a": {"b": 1, "b": 2}}', "a: the key is given twice in one object"),
        (b'{"format": 1, "case": "\\ud800"}', "case: half of a surrogate pair is not text"),
        (b'{"format": 1, "case": ["\\uDFFF"]}', "case[0]: half of a surrogate pair is not text"),
        (b'{"format": 1, "case": "one", "\\ud800": 1}', "the file: half of a surrogate pair is not text"),
        (b'{"format": "\\ud800"}', "format: half of a surrogate pair is not text"),
        (b'"\\ud800"', "the file: half of a surrogate pair is not text"),
    ],
)
def test_json_that_is_no_plan_is_an_error(data: bytes, words: str) -> None:
    assert plan_words(data).startswith(words)


def test_a_whole_surrogate_pair_is_text() -> None:
    plan = decode_plan(b'{"format": 1, "case": "\\ud83d\\ude00 \\\\ud800"}')
    assert plan.case == "\U0001f600 \\ud800"


def test_permutes_are_decoded() -> None:
    plan = decode_plan(plan_with(PLAN, permutes=[{"layer": "a"}, 1]))
    assert isinstance(plan, PlanFile)
    assert len(plan.permutes) == 2


def test_a_message_is_one_short_line() -> None:
    for text in (case_words('name = "P0"', f"name = {['x' * 50] * 50}"), case_words("tokens = 4", '"""\n""" = 4')):
        assert "\n" not in text
        assert len(text) < 300


BYTES = st.integers(0, 255).map(lambda byte: bytes([byte]))
SNIPPETS = st.sampled_from(
    [b"", b"\n", b"0", b"-1", b"true", b"1.5", b"nan", b'"', b"'", b"[", b"]", b"{", b"}", b"=", b".", b",", b"#",
     b"[[worker]]", b"[expect]", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\\ud800", b"\\", b"0x" + b"F" * 5000,
     b"281474976710657", b"999999999999999999999999", b"null", b"1979-05-27", b"NaN", b'"parts"', b"a.b.c"]
)  # fmt: skip
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), BYTES | SNIPPETS), min_size=1, max_size=4)


def edited(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for place, cut, new in edits:
        start = int(place * len(data))
        data = data[:start] + new + data[start + cut :]
    return data


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(CASES.glob("*.toml"))), EDITS)
def test_only_bad_input_escapes_a_spoilt_case(file: Path, edits: list[tuple[float, int, bytes]]) -> None:
    try:
        load_case(edited(file.read_bytes(), edits))
    except BadInput as error:
        assert str(error).isprintable(), repr(str(error))
        str(error).encode()


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([PLAN, LISTS]), EDITS)
def test_only_bad_input_escapes_a_spoilt_plan(plan: dict[str, Any], edits: list[tuple[float, int, bytes]]) -> None:
    try:
        decode_plan(edited(plan_with(plan), edits))
    except BadInput as error:
        assert str(error).isprintable(), repr(str(error))
        str(error).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([PLAN, LISTS]), st.data())
def test_only_bad_input_escapes_a_plan_with_another_value(plan: dict[str, Any], data: st.DataObject) -> None:
    raw = json.loads(json.dumps(plan))
    place, key = raw, data.draw(st.sampled_from(sorted(raw)))
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = data.draw(JSON)
    try:
        decode_plan(json.dumps(raw).encode())
    except BadInput as error:
        assert str(error).isprintable(), repr(str(error))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\na = 2\n", "the key a is given twice, or clashes with another (at line 2)"),
        ("[t]\r\n'c d' = 1\r\n'c d' = 2  # again\r\n", "the key 'c d' is given twice"),
        ("a.b = 1\na . b = 2\n", "the key a . b is given twice"),
        ("a = 1\na = [\n  {b = 1},\n  2,\n]\n", "the key a is given twice, or clashes with another (at line 5)"),
        ("[t]\na = 1\n[ t ]\nb = 1\n", "the table t is given twice"),
        ("[[t]]\na = 1\n[t]\nb = 1\n", "the table t is given twice"),
        ("a = 1\n[a.b]\n", "the table a.b is given twice, or clashes with another"),
        ("a = {b = 1, b = 2}\n", "Duplicate inline table key 'b'"),
    ],
)
def test_a_key_given_twice_is_named(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=f"^not TOML: {re.escape(words)}"):
        decode_case(text.encode())
