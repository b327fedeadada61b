# SPDX-License-Identifier: Apache-2.0
"""Tests of a made-up vLLM, run and captured as those of the real one are."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path

import pytest

from kvproof.exits import Exit
from kvproof.failure import Failure
from kvproof.upstream.own_tests import run as tests_run
from kvproof.upstream.own_tests.explained import read_explained
from kvproof.upstream.own_tests.report import JUDGED
from kvproof.upstream.targets.fetch import fetch_tests
from kvproof.upstream.targets.releases import CURRENT
from kvproof.upstream.targets.target import Target, release_target

pytest.importorskip("torch")

WORKER = """
class NixlBaseConnectorWorker:
    def __init__(self, groups, blocks):
        self.engine_id, self.block_size, self._physical_blocks_per_logical_kv_block = "e", 4, 1
        self.num_blocks = self._logical_num_blocks = blocks
        self.kv_cache_config, self._has_mamba = groups, False
        self.region_group_ids, self.nixl_wrapper = [], Agent()

    def register_kv_caches(self, kv_caches):
        views = list(kv_caches.values())
        self.block_len_per_layer = [view[0].nbytes for view in views]
        self.region_group_ids = [0] * len(views)
        self.src_blocks_data = [
            (view[page].data_ptr(), view[page].nbytes, 0) for view in views for page in range(self.num_blocks)
        ]
        self.nixl_wrapper.prep_xfer_dlist("", self.src_blocks_data)

    def _logical_to_kernel_block_ids(self, block_ids):
        return block_ids

    def _compute_desc_ids(self, block_ids, dst_num_blocks):
        regions = range(len(self.region_group_ids))
        return [region * dst_num_blocks + page for group in block_ids for region in regions for page in group]


class Agent:
    def prep_xfer_dlist(self, agent, descs):
        return 1
"""

CONFIG = """
import contextlib


class VllmConfig:
    current = False


@contextlib.contextmanager
def set_current_vllm_config(config):
    config.current = True
    yield
    config.current = False
"""

TEST = """
import time
from types import SimpleNamespace

import pytest
import torch

from vllm.distributed.kv_transfer.kv_connector.v1.nixl.base_worker import Agent, NixlBaseConnectorWorker


class MLAAttentionSpec:
    block_size, page_size_bytes, tokens_per_state = 4, 32, 1


class AttentionSpec(MLAAttentionSpec):
    pass


def worker():
    group = SimpleNamespace(layer_names=["a", "b"], kv_cache_spec=AttentionSpec(), host_resident=False)
    return NixlBaseConnectorWorker(SimpleNamespace(kv_cache_groups=[group], num_blocks=3), 3)


@pytest.mark.cpu_test
@pytest.mark.parametrize("content", [32, 24])
def test_pages(content):
    rows = torch.zeros(3, 64, dtype=torch.uint8)
    one = worker()
    one.register_kv_caches({"a": rows[:, :content], "b": rows[:, 32 : 32 + content]})
    assert type(one.nixl_wrapper) is Agent


@pytest.mark.cpu_test
def test_fails():
    assert False


def test_needs_a_gpu():
    raise AssertionError


def test_register_unmarked(default_vllm_config):
    assert default_vllm_config.current
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tests_run, "_install", lambda _target, _folder: None)  # it is installed here as it is
    nixl = tmp_path / "tree" / "vllm" / "distributed" / "kv_transfer" / "kv_connector" / "v1" / "nixl"
    nixl.mkdir(parents=True)
    (nixl / "base_worker.py").write_text(WORKER, encoding="utf-8")
    (tmp_path / "tree" / "vllm" / "config.py").write_text(CONFIG, encoding="utf-8")
    unit = tmp_path / tests_run.FOLDER
    unit.mkdir(parents=True)
    (tmp_path / "tests" / "conftest.py").write_text("import not_there", encoding="utf-8")
    (unit / tests_run.FILES[0]).write_text(TEST, encoding="utf-8")
    return tmp_path


def target(room: Path) -> Target:
    return Target("made-up", Path(sys.executable), room / "tree")


def test_tests_are_run_captured_and_judged(room: Path) -> None:
    report = tests_run.run_upstream_tests(target(room), room, 120.0)
    found = {test.test.split("::")[-1]: test for test in report.tests}
    assert report.faults == ()
    assert {name: test.verdict for name, test in found.items()} == {
        "test_pages[32]": "lawful", "test_pages[24]": "corrupt", "test_fails": "not-covered",
        "test_register_unmarked": "not-covered",
    }  # fmt: skip
    assert [name for name, test in found.items() if test.outcome != "passed"] == ["test_fails"]
    assert [name for name, test in found.items() if test.unmarked] == ["test_register_unmarked"]
    assert "coverage" in found["test_pages[24]"].laws
    assert report.status() == Exit.BROKEN


def test_tests_that_hang_are_ended(room: Path) -> None:
    (room / tests_run.FOLDER / tests_run.FILES[0]).write_text(
        textwrap.dedent("""
            import subprocess, time
            subprocess.Popen(["sleep", "300"], start_new_session=True)
            time.sleep(300)
        """),
        encoding="utf-8",
    )
    began = time.monotonic()
    with pytest.raises(Failure, match="made-up: its tests did not end within 3 s"):
        tests_run.run_upstream_tests(target(room), room, 3.0)
    assert time.monotonic() - began < 30


def test_tests_that_do_not_run_are_named(room: Path) -> None:
    (room / "tree" / "vllm" / "__init__.py").write_text("raise SystemExit('no such device')", encoding="utf-8")
    with pytest.raises(Failure, match=r"made-up: its tests do not run .*no such device"):
        tests_run.run_upstream_tests(target(room), room, 60.0)
    with pytest.raises(Failure, match=r"has none of test_nixl_desc_geometry\.py"):
        tests_run.run_upstream_tests(target(room), room / "tree", 60.0)


@pytest.mark.upstream
def test_the_current_releases_tests_raise_no_alarm() -> None:
    report = tests_run.run_upstream_tests(release_target(CURRENT), fetch_tests(CURRENT))
    assert [test.test for test in report.tests if test.alarm or (test.outcome != "passed" and not test.unmarked)] == []
    assert report.status() == Exit.OK
    # Explanations that explain nothing any more are to be removed.
    assert set(report.excused()) == {one.id for one in read_explained().explained}
    assert sum(test.verdict in JUDGED for test in report.tests) >= 300
