# SPDX-License-Identifier: Apache-2.0
"""Which requests the probe takes back to synthetic: those that no engine gets into."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kvproof.upstream

PROBES = Path(str(kvproof.upstream.__file__)).resolve().parent / "probes"

KINDS = {"TOKEN_KINDS": ("attention", "sliding"), "SSM_KINDS": ("ssm", "replicated-ssm")}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The probe's module, with a stand-in for the sibling that needs torch and the target."""
    monkeypatch.syspath_prepend(str(PROBES))
    monkeypatch.setitem(sys.modules, "vllm_specs", SimpleNamespace(**KINDS))
    import importlib

    yield importlib.import_module("vllm_requests")
    for name in ("vllm_requests", "seat"):
        sys.modules.pop(name, None)


def side(name: str, blocks: list[int], *, first: int = 0, kind: str = "attention", **extra: Any) -> SimpleNamespace:
    group = SimpleNamespace(kind=kind, block_tokens=16, window_tokens=extra.get("window"), pool="device")
    return SimpleNamespace(
        name=name,
        groups={"g": group},
        pools={"device": SimpleNamespace(null=0)},
        layers={"l": SimpleNamespace(name="l", key=None, group="g")},
        tables={"g": SimpleNamespace(blocks=blocks, first=first, cached_tokens=extra.get("cached"))},
    )


def tag(requests: Any, tokens: int, *workers: SimpleNamespace) -> str:
    reached = {"tag": "reachable", "words": ["as planned"], "flags": ["P: --x"]}
    answer = requests.demoted(reached, SimpleNamespace(tokens=tokens, workers=list(workers)))
    assert answer["tag"] == "reachable" or (answer["flags"] == [] and answer["words"][-1] == "as planned")
    return str(answer["tag"])


def test_a_table_that_reaches_the_last_token_is_an_engines(requests: Any) -> None:
    assert tag(requests, 32, side("P0", [3, 4])) == "reachable"
    assert tag(requests, 33, side("P0", [3, 4])) == "synthetic"
    assert tag(requests, 17, side("P0", [3, 4, 5])) == "reachable"


def test_only_needed_tokens_count(requests: Any) -> None:
    assert tag(requests, 40, side("P0", [0, 4, 5])) == "synthetic"
    assert tag(requests, 40, side("D0", [4, 5], first=1, cached=16)) == "reachable"
    assert tag(requests, 40, side("P0", [0, 4, 5], kind="sliding", window=16)) == "reachable"
    assert tag(requests, 40, side("P0", [5], first=2, kind="sliding", window=16)) == "synthetic"
    assert tag(requests, 32, side("D0", [], cached=32)) == "reachable"


def test_a_state_needs_a_block(requests: Any) -> None:
    assert tag(requests, 40, side("P0", [], kind="ssm")) == "synthetic"
    assert tag(requests, 40, side("P0", [2], kind="ssm")) == "reachable"
    assert tag(requests, 40, side("D0", [], kind="ssm", cached=40)) == "reachable"


def test_two_models_are_no_pair(requests: Any) -> None:
    assert tag(requests, 16, side("P0", [3]), side("D0", [4], kind="sliding", window=64)) == "synthetic"


def joined(first: SimpleNamespace, second: SimpleNamespace) -> SimpleNamespace:
    """Both sides' groups as those of one worker, the second one's under the name "h"."""
    second.layers["l"].group = "h"
    first.groups["h"], first.tables["h"], first.layers["m"] = second.groups["g"], second.tables["g"], second.layers["l"]
    return first


def test_a_prefix_is_cached_in_all_groups_or_in_none(requests: Any) -> None:
    def pair(kind: str, window: int | None, cached: int, *, state: bool = False) -> str:
        second = side("D0", [6, 7, 8], kind=kind, window=window, cached=cached)
        second.layers["l"].name = "m"
        worker = joined(side("D0", [3, 4, 5], cached=32), second)
        if state:
            third = side("D0", [9], kind="ssm")
            worker.groups["s"], worker.tables["s"] = third.groups["g"], third.tables["g"]
        return tag(requests, 48, worker)

    assert pair("attention", None, 32) == "reachable"
    assert pair("attention", None, 16) == "synthetic"
    assert pair("sliding", 32, 0) == "synthetic"  # tokens 17 to 31 are in the window, and in the other group's cache
    assert pair("sliding", 17, 0) == "reachable"  # the window begins where the hit ends
    assert pair("attention", None, 16, state=True) == "reachable"
