# SPDX-License-Identifier: Apache-2.0
"""JUnit reports, which CI systems show beside the tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import msgspec

from kvproof.exits import Exit
from kvproof.output import remark
from kvproof.places import unwritable

ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped."""

Outcome = Literal["failure", "error", "skipped"]


class TestCase(msgspec.Struct, frozen=True):
    """One line of the report. ``outcome`` is None where it passed."""

    name: str
    outcome: Outcome | None = None
    words: str = ""
    details: str = ""
    seconds: float = 0.0


def outcome_of(status: Exit) -> Outcome | None:
    """A broken law or a missed claim is a failure; whatever kept kvproof from answering is an error."""
    if status == Exit.OK:
        return None
    return "failure" if status in (Exit.BROKEN, Exit.VACUOUS, Exit.DISAGREEMENT) else "error"


def write_junit(path: Path | None, suite: str, cases: list[TestCase]) -> Exit:
    """Write the report, if one is wanted. If it cannot be written, say so: the answer counts all the same."""
    if path is None:
        return Exit.OK
    root = ElementTree.Element("testsuites")
    element = ElementTree.SubElement(root, "testsuite", name=f"kvproof {suite}", tests=str(len(cases)))
    for what, key in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        element.set(key, str(sum(case.outcome == what for case in cases)))
    element.set("time", f"{sum(case.seconds for case in cases):.3f}")
    for case in cases:
        entry = ElementTree.SubElement(
            element, "testcase", classname=f"kvproof.{suite}", name=legal(case.name), time=f"{case.seconds:.3f}"
        )
        if case.outcome is not None:
            ElementTree.SubElement(entry, case.outcome, message=legal(case.words)).text = legal(case.details)
    ElementTree.indent(root)
    try:
        ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        remark(unwritable("--junit", path, error).line)
        return Exit.USAGE
    return Exit.OK


def legal(text: str) -> str:
    """The text with characters that XML cannot hold written as escapes."""
    return ILLEGAL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
