# SPDX-License-Identifier: Apache-2.0
"""Files into structs, strictly: unknown or duplicate keys, wrong types and numbers out of range are errors.

An error names the path, the value found there and what is allowed (``BadInput``); nothing else is raised for what a
file contains.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, TypeVar

import msgspec

from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.misfit import bare, brief, misfit, value_words
from kvproof.spec.plan import PlanFile
from kvproof.spec.vocabulary import Case, Raw

CASE_BYTES_LIMIT = 4 * 2**20
PLAN_BYTES_LIMIT = 256 * 2**20
DOTS_LIMIT = 16

KEY_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
DOTTED = re.compile(rf"(?<![A-Za-z0-9_-]){KEY_PART}(?:[ \t]*+\.[ \t]*+{KEY_PART}){{{DOTS_LIMIT + 1}}}")
"""tomllib takes time with the square of a key's dots."""

DOTTED_KEY = rf"{KEY_PART}(?:[ \t]*+\.[ \t]*+{KEY_PART})*+"
STATED = re.compile(rf"[ \t]*+(?:\[\[?+[ \t]*+(?P<table>{DOTTED_KEY})[ \t]*+\]|(?P<key>{DOTTED_KEY})[ \t]*+=)")
"""A line that opens a table or states a key."""

HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
SURROGATE = re.compile("[\ud800-\udfff]")
GIVEN_TWICE = object()

T = TypeVar("T")


class BadInput(Exception):
    """What a file or an argument says cannot be used. The text is one line for the user."""


def decode_case(data: bytes) -> Case:
    """Decode a case from TOML. Only its form is checked here; see ``kvproof.spec.validate``."""
    text = _text(data, CASE_BYTES_LIMIT, "a case")
    if DOTTED.search(text):
        raise BadInput(f"not TOML that can be read: a dotted key of more than {DOTS_LIMIT} dots")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"not TOML: {_toml_words(str(error), text)}") from None
    except (ValueError, RecursionError) as error:
        # tomllib passes on int()'s own complaint about numbers of thousands of digits, and about deep nesting.
        raise BadInput(f"not TOML that can be read: {brief(str(error))}") from None
    return _convert(raw, Case, "case")


def _toml_words(words: str, text: str) -> str:
    """What tomllib says, with the name of a key that is given twice: it tells only the place behind its value."""
    place = re.search(r" \(at line (\d+), column \d+\)$", words)
    if place is None or not words.startswith(("Cannot overwrite a value", "Cannot declare (")):
        return words
    for line in reversed(text.replace("\r\n", "\n").split("\n")[: int(place[1])]):
        found = STATED.match(line)
        if found is not None:
            what = f"the table {found['table']}" if found["table"] else f"the key {found['key']}"
            return f"{what} is given twice, or clashes with another (at line {place[1]})"
    return words


def decode_plan(data: bytes) -> PlanFile | DescriptorFile:
    """Decode a plan file or descriptor lists from JSON: the one with ``transfers`` is descriptor lists."""
    raw = decode_json(data)
    if "transfers" in raw:
        return _convert(raw, DescriptorFile, "descriptor lists")
    return _convert(raw, PlanFile, "plan")


def decode_json(data: bytes) -> Raw:
    """Decode a JSON object; a key given twice is an error."""
    text = _text(data, PLAN_BYTES_LIMIT, "a plan")
    doubtful = bool(HALF_PAIR.search(text))

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal doubtful
        result: dict[str, Any] = {}
        for key, value in pairs:
            doubtful |= key in result
            result[key] = GIVEN_TWICE if key in result else value
        return result

    try:
        raw = json.loads(text, object_pairs_hook=mapping, parse_constant=_constant)
    except BadInput:
        raise
    except RecursionError:
        raise BadInput("not JSON that can be read: nested too deeply") from None
    except ValueError as error:
        raise BadInput(f"not JSON: {brief(str(error))}") from None
    if doubtful:
        _check(raw)
    if not isinstance(raw, dict):
        raise BadInput(f"expected a JSON object, found {value_words(raw)}")
    return raw


def _text(data: bytes, limit: int, what: str) -> str:
    if len(data) > limit:
        raise BadInput(f"{len(data)} bytes: {what} may have at most {limit}")
    if not data.strip():
        raise BadInput("the file is empty")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start}") from None
    if "\0" in text:
        raise BadInput(f"not text: a NUL character at offset {text.index(chr(0))}")
    return text


def _check(raw: Any) -> None:
    """No key is given twice, and every string is text: JSON can spell half of a surrogate pair."""
    waiting: list[tuple[str, Any]] = [("", raw)]
    while waiting:
        path, value = waiting.pop()
        if value is GIVEN_TWICE:
            raise BadInput(f"{path}: the key is given twice in one object")
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
        if any(SURROGATE.search(text) for text in texts):
            raise BadInput(f"{path or 'the file'}: half of a surrogate pair is not text")
        if isinstance(value, dict):
            waiting += [(f"{path}.{bare(key)}".lstrip("."), one) for key, one in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", one) for index, one in enumerate(value)]


def _constant(name: str) -> Any:
    raise BadInput(f"{name} is not a number that JSON allows")


def _convert(raw: Raw, kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        raise BadInput(misfit(str(error), raw, kind, what)) from None
    except (ValueError, RecursionError) as error:
        # msgspec itself fails to show an integer of thousands of digits, which TOML can spell in hexadecimal.
        raise BadInput(f"{what}: a value that cannot be used: {brief(str(error))}") from None
