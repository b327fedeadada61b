# SPDX-License-Identifier: Apache-2.0
"""What the probe asks of vLLM's own model runner before it calls a geometry reachable. Here it is a stand-in."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import kvproof.upstream

torch = pytest.importorskip("torch")

PROBES = Path(str(kvproof.upstream.__file__)).resolve().parent / "probes"
RING, FULL = "layers.0.ring", "layers.0.attn"


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Loads a file of the probe, which lives among its own kind and not in the package."""
    monkeypatch.syspath_prepend(str(PROBES))
    names: list[str] = []

    def load(name: str) -> ModuleType:
        names.append(name)
        return importlib.import_module(name)

    yield load
    for name in (*names, "vllm_runner", "vllm_specs", "vllm_requests", "seat"):
        sys.modules.pop(name, None)


def engine(pages_per_block: int = 2, layout: str = "LBHNC") -> SimpleNamespace:
    """Blocks of 32 tokens in pages of 64 bytes, and a ring."""
    groups = {
        "ring": SimpleNamespace(kind="ring", block_tokens=6, pages_per_block=1),
        "full": SimpleNamespace(kind="attention", block_tokens=32, pages_per_block=pages_per_block),
    }
    layers = {RING: SimpleNamespace(group="ring"), FULL: SimpleNamespace(group="full")}
    caches = {RING: torch.zeros(4, 8, dtype=torch.uint8), FULL: torch.zeros(8, 2, 16, 2, dtype=torch.uint8)}
    spec = SimpleNamespace(num_kv_heads=1)
    return SimpleNamespace(
        worker=SimpleNamespace(groups=groups, layers=layers), caches=caches, layout=layout, specs={FULL: spec}
    )


PLAN = SimpleNamespace(
    kv_cache_groups=[
        SimpleNamespace(layer_names=[RING], kv_cache_spec="ring"),
        SimpleNamespace(layer_names=[FULL], kv_cache_spec=SimpleNamespace(kv_cache_specs={FULL: "full"})),
    ]
)


def runner(monkeypatch: pytest.MonkeyPatch, full: Any, size: int = 16) -> None:
    """A target whose runner takes pages of so many tokens, and views the attention layer like this, or raises it."""

    def sizes(plan: Any, groups: Any) -> list[int]:
        assert [[(group.backend, group.kv_cache_spec) for group in found] for found in groups] == [
            [("any", "ring")],
            [("BACKEND", "full")],
        ]
        return [6, size]

    def allocate(plan: Any, device: Any, layout: str, sizes: list[int]) -> dict[str, Any]:
        assert (device.type, layout) == ("meta", "as LBHNC")
        if isinstance(full, Exception):
            raise full
        return {RING: torch.zeros(4, 8, dtype=torch.int8), FULL: full}

    modules = {
        "vllm.v1.worker.utils": SimpleNamespace(prepare_kernel_block_sizes=sizes, allocate_kv_cache=allocate),
        "vllm.v1.attention.backend": SimpleNamespace(AttentionBackend="any"),
        "vllm.v1.kv_cache_interface": SimpleNamespace(KVCacheLayout={"LBHNC": "as LBHNC"}),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


def test_the_runner_has_to_make_the_pages_of_the_case(
    probe: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    unmade = probe("vllm_runner").unmade
    # The same pages, as 16 bit numbers and with heads cut otherwise: nothing that a connector goes by.
    runner(monkeypatch, torch.zeros(8, 4, 8, dtype=torch.bfloat16))
    assert unmade(engine(), PLAN, "BACKEND") is None
    runner(monkeypatch, torch.zeros(4, 2, 32, 2, dtype=torch.uint8), size=32)
    words = "makes kernel pages of 32 tokens of blocks of 32 in group full"
    assert unmade(engine(), PLAN, "BACKEND") == words
    runner(monkeypatch, torch.zeros(8, 128, dtype=torch.uint8)[:, :64])
    words = f"views {FULL} as 8 pages of 64 B, 128 B apart, not 8 pages of 64 B, 64 B apart"
    assert unmade(engine(), PLAN, "BACKEND") == words
    runner(monkeypatch, ValueError("cannot be split"))
    assert unmade(engine(), PLAN, "BACKEND") == "does not get past the runner: ValueError: cannot be split"


def resolver(monkeypatch: pytest.MonkeyPatch, *, default: str, others: tuple[str, ...] = ()) -> None:
    """A target that has this layout unless the variable says otherwise, which may say the others."""

    def resolve(config: Any, names: list[list[str]], specs: Any) -> Any:
        assert config.cache_config.kv_cache_layout is None and names == [["offered"]]
        wanted = os.environ.get("VLLM_KV_CACHE_LAYOUT", default)
        if wanted not in (default, *others):
            raise ValueError(f"{wanted} is not offered")
        return SimpleNamespace(name=wanted)

    module = SimpleNamespace(
        resolve_kv_cache_layout=resolve,
        get_supported_kv_cache_layouts=lambda backends: [SimpleNamespace(name="offered")],
    )
    monkeypatch.setitem(sys.modules, "vllm.v1.attention.backends.utils", module)


def test_the_layout_variable_is_named_where_it_is_needed(
    probe: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = probe("vllm_runner").layout_flag
    config = SimpleNamespace(kv_transfer_config=None, model_config=None)
    monkeypatch.setenv("VLLM_KV_CACHE_LAYOUT", "BLHNC")  # the probe's own surroundings decide nothing
    resolver(monkeypatch, default="LBHNC", others=("BLHNC",))
    assert flag(engine(), config, "BACKEND") == (None, None)
    assert flag(engine(layout="BLHNC"), config, "BACKEND") == ("BLHNC", None)
    resolver(monkeypatch, default="LBNHC")
    assert flag(engine(), config, "BACKEND") == (None, None)  # one head: both orders are the same bytes
    assert flag(engine(layout="BLHNC"), config, "BACKEND") == (None, "the layout cannot be had: BLHNC is not offered")
    several = engine()
    several.specs[FULL].num_kv_heads = 2
    assert flag(several, config, "BACKEND") == (None, "the layout cannot be had: LBHNC is not offered")


def test_older_releases_have_two_layouts(probe: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    flag = probe("vllm_runner").layout_flag
    monkeypatch.setitem(sys.modules, "vllm.v1.attention.backends.utils", SimpleNamespace())
    several = engine(layout="LBNHC")
    several.specs[FULL].num_kv_heads = 2
    assert flag(several, None, "BACKEND") == ("NHD", None)
    assert flag(engine(), None, "BACKEND") == flag(engine(layout="LBNHC"), None, "BACKEND") == (None, None)


def test_the_cache_config_has_the_smallest_block(probe: Callable[[str], ModuleType]) -> None:
    configured = probe("vllm_specs").configured
    groups = engine().worker.groups
    assert configured(SimpleNamespace(groups=groups)) == (32, [16])
    groups["window"] = SimpleNamespace(kind="sliding", block_tokens=24, pages_per_block=1)
    assert configured(SimpleNamespace(groups=groups)) == (24, [16, 24])
    assert configured(SimpleNamespace(groups={"ring": groups["ring"]})) == (16, [])


@dataclass(frozen=True)
class Heads:
    """A spec of the target."""

    block_size: int
    page_size_padded: int | None = None

    def copy_with_new_block_size(self, size: int) -> Heads:
        return replace(self, block_size=size)


class Window(Heads):
    """A spec of the target, of a layer that sees a window."""

    page_size_bytes = 640


class Latent(Heads):
    """An MLA spec, which is one of full attention, too."""


INTERFACE = SimpleNamespace(FullAttentionSpec=Heads, SlidingWindowSpec=Window, MLAAttentionSpec=Latent)


def test_the_planner_is_given_blocks_of_one_size(probe: Callable[[str], ModuleType]) -> None:
    of_one_size = probe("vllm_reach").of_one_size
    specs = {"a": Window(64), "b": Heads(128), "padded": Heads(32, 1), "mla": Latent(16)}
    asked = of_one_size(SimpleNamespace(interface=INTERFACE, specs=specs))
    assert asked == {**specs, "b": Heads(64)}


@pytest.mark.parametrize("old", [False, True])
def test_a_window_has_the_block_that_the_target_chooses(
    probe: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, old: bool
) -> None:
    def choose(backend: str, state: int, budget: Any, size: int) -> int:
        assert (backend, state, size) == ("BACKEND", 10, 128)
        if old:
            assert budget is None
            return 16
        return int(budget // state) - 32  # None is no budget here: TypeError, as in the target

    name = "vllm.model_executor.layers.attention.attention"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(_largest_kernel_block_within=choose))
    specs = {"window": Window(64), "full": Heads(64), "mla": Latent(64)}
    made = probe("vllm_runner").modelled(SimpleNamespace(interface=INTERFACE, specs=specs), "BACKEND", 128)
    assert made == {"window": Window(16 if old else 96), "full": Heads(128), "mla": Latent(64)}


@pytest.mark.parametrize(("tensor", "order"), [("layers", ["a", "b", "c"]), ("shared_by", ["a", "c", "b"])])
def test_layers_are_registered_in_the_runners_order(
    probe: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tensor: str, order: list[str]
) -> None:
    """Releases whose tensors are shared by layers of several groups view them group after group."""
    reach = probe("vllm_reach")
    places = {"offset": 0, "layer_stride": 0, "block_stride": 0}
    planned = SimpleNamespace(
        kv_cache_tensors=[SimpleNamespace(**{tensor: names}, **places) for names in (["a", "b"], ["c"])],
        kv_cache_groups=[SimpleNamespace(layer_names=["a", "c"]), SimpleNamespace(layer_names=["b"])],
    )
    monkeypatch.setattr(reach, "plan", lambda engine, config: planned)
    monkeypatch.setattr(reach, "grouping", lambda engine, planned: [])
    specs = {name: SimpleNamespace(page_size_bytes=1) for name in "abc"}
    assert reach.order_of(SimpleNamespace(specs=specs), None) == order
