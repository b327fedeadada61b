# SPDX-License-Identifier: Apache-2.0
"""Entries of the cache are complete or absent."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvproof.failure import Failure
from kvproof.upstream.targets.cache import cache_folder, entry


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVPROOF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/me")
    monkeypatch.setenv("KVPROOF_CACHE", "/own")
    assert cache_folder() == Path("/own")
    monkeypatch.setenv("KVPROOF_CACHE", "")
    assert cache_folder() == Path("/var/me/kvproof")
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache_folder() == Path("/home/me/.cache/kvproof")


def test_built_once(cache: Path) -> None:
    def build(folder: Path) -> None:
        assert not (cache / "name").exists()
        (folder / "file").write_text("built")

    assert entry("name", build) == cache / "name"
    assert (cache / "name" / "file").read_text() == "built"
    entry("name", lambda folder: pytest.fail("built again"))


@pytest.mark.parametrize("error", [Failure("no network"), KeyboardInterrupt(), ValueError("a fault")])
def test_nothing_is_left_of_what_failed(error: BaseException, cache: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "file").write_text("half")
        raise error

    with pytest.raises(type(error)) as caught:
        entry("name", build)
    assert caught.value is error
    assert [path.name for path in cache.iterdir()] == [".name.lock"]


RUN = """
import sys, time
from pathlib import Path
from kvproof.upstream.targets.cache import entry
marks = Path(sys.argv[1])

def build(folder):
    (folder / "file").write_text("half")
    with (marks / "builds").open("a") as file:
        file.write("x")
    time.sleep(float(sys.argv[2]))
    (folder / "file").write_text("whole")

print((entry("name", build) / "file").read_text())
"""


def start(folder: Path, seconds: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", RUN, str(folder), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_runs_build_it_once(tmp_path: Path) -> None:
    first, second = (start(tmp_path, 1.0) for _ in range(2))
    said = [process.communicate(timeout=60) for process in (first, second)]
    assert [out for out, _ in said] == ["whole\n", "whole\n"]
    assert (tmp_path / "builds").read_text() == "x"
    assert "another run is fetching name; waiting for it" in said[0][1] + said[1][1]


def test_run_that_was_killed_leaves_nothing_that_looks_complete(tmp_path: Path, cache: Path) -> None:
    process = start(tmp_path, 600)
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "builds").exists() and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
    assert not (cache / "name").exists()
    assert list(cache.glob(".name.new-*"))
    entry("name", lambda folder: None)
    assert {path.name for path in cache.iterdir()} == {"name", ".name.lock"}


def test_cache_that_cannot_be_written(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(Failure, match=rf"{cache}/name cannot be written: .* \(KVPROOF_CACHE says where"):
        entry("name", lambda folder: None)


def test_disk_that_is_full(cache: Path) -> None:
    def build(folder: Path) -> None:
        raise OSError(28, os.strerror(28))

    with pytest.raises(Failure, match="cannot be written: No space left on device"):
        entry("name", build)
