# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/findings: what they name exists, and their unit tests fail on the release as they say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from commands import REGRESSIONS

from kvproof.application import application
from kvproof.upstream.live.scenarios import SCENARIOS
from kvproof.upstream.own_tests.run import pytest_folder
from kvproof.upstream.running.surroundings import surroundings
from kvproof.upstream.targets.releases import SUPPORTED
from kvproof.upstream.targets.target import release_target

FOLDER = Path(__file__).parents[3] / "docs" / "findings"
INDEX = FOLDER / "README.md"
PAGES = [path for path in sorted(FOLDER.glob("*.md")) if path.name not in (INDEX.name, "upstream-tests.md")]
RELEASE = "0.33.0"
SECONDS = 300.0

CASES = {path.stem for path in REGRESSIONS.glob("*.toml")}
NAMES = CASES | {scenario.name for scenario in SCENARIOS}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FAILS = re.compile(r"^<!-- fails with: (.+) -->$", re.MULTILINE)
NAME = re.compile(r"`([a-z0-9][a-z0-9-]*)`")
TAGS = {"reachable", "worker-level", "synthetic"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return [block for found, block in BLOCK.findall(text(page)) if found == language]


def names(page: Path) -> set[str]:
    """The cases or scenarios in the page's table."""
    [row] = re.findall(r"^\| case \| (.*) \|$", text(page), re.MULTILINE)
    return set(NAME.findall(row)) - {"end-to-end", "nixl-push"}


def commands(page: Path) -> Iterator[dict[str, Any]]:
    """Arguments of each command shown, by name."""
    for block in blocks(page, "console"):
        for line in block.splitlines():
            prompt, program, *words = line.split()
            assert (prompt, program) == ("$", "kvproof"), line
            _, bound, unknown, *_ = application().parse_args(words, exit_on_error=False, print_error=False)
            assert not unknown, line
            yield dict(bound.arguments)


def asked(arguments: dict[str, Any]) -> set[str]:
    """The cases or scenarios that a command is given."""
    return {*arguments.get("cases", ()), *arguments.get("scenarios", ()), arguments.get("case", "")} - {""}


@each_page
def test_page_is_indexed(page: Path) -> None:
    assert f"]({page.name})" in text(INDEX)


def test_index_leads_to_pages_and_names_cases() -> None:
    links = re.findall(r"\]\(([a-z.][^)]*\.md)\)", text(INDEX))
    assert {(FOLDER / link).resolve() for link in links} >= set(PAGES)
    assert all((FOLDER / link).is_file() for link in links)
    assert set(NAME.findall(text(INDEX))) <= NAMES | TAGS


@each_page
def test_page_names_what_exists(page: Path) -> None:
    assert names(page), "no case in the table"
    assert names(page) <= NAMES
    links = re.findall(r"\]\(([^):]*\.md)\)", text(page))
    assert all((FOLDER / link).is_file() for link in links)
    assert set(re.findall(r"\[([a-z]+#\d+)\](?!:)", text(page))) == set(re.findall(r"^\[(.+)\]: ", text(page), re.M))


@each_page
def test_commands_of_a_page_reproduce_its_cases(page: Path) -> None:
    found = list(commands(page))
    assert any(asked(arguments) & names(page) for arguments in found)
    for arguments in found:
        assert asked(arguments) <= NAMES
        assert {*arguments.get("release", ()), arguments.get("base", RELEASE), arguments.get("head", RELEASE)} <= {
            *SUPPORTED
        }


@each_page
def test_fences_of_a_page_are_balanced(page: Path) -> None:
    opened = [line for line in text(page).splitlines() if line.startswith("```")]
    languages = [found for found, _ in BLOCK.findall(text(page))]
    assert len(opened) == 2 * len(languages)
    assert set(languages) <= {"console", "python"}


@each_page
def test_unit_test_of_a_page_says_how_it_fails(page: Path) -> None:
    [source] = blocks(page, "python")
    compile(source, page.name, "exec")
    assert "@pytest.mark.cpu_test\n" in source
    assert FAILS.findall(text(page))


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What pytest says of the tests of each page, in their order, on the release; "" of one that passes."""
    target = release_target(RELEASE)
    folder = tmp_path_factory.mktemp("findings")
    for page in PAGES:
        (folder / module(page)).with_suffix(".py").write_text(blocks(page, "python")[0], encoding="utf-8")
    environment = surroundings(target, folder)
    environment["PYTHONPATH"] = os.pathsep.join((environment["PYTHONPATH"], str(pytest_folder(target))))
    options = ("-vv", "-W", "ignore", "-p", "no:cacheprovider", "--rootdir", ".", "--junitxml", "report.xml")
    done = subprocess.run(
        [str(target.python), "-m", "pytest", *options, "."],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        failure = case.find("failure")
        found.setdefault(case.attrib["classname"], []).append("" if failure is None else failure.text or "")
    return found


def module(page: Path) -> str:
    return "test_" + page.stem.replace("-", "_")


@pytest.mark.upstream
@each_page
def test_unit_test_of_a_page_fails_on_the_release_as_it_says(page: Path, failures: dict[str, list[str]]) -> None:
    said, found = FAILS.findall(text(page)), failures[module(page)]
    assert len(said) == len(found)
    for expected, failure in zip(said, found, strict=True):
        assert expected in failure
