# SPDX-License-Identifier: Apache-2.0
"""What `kvproof plan` prints does to memory what each case's hand-worked numbers say.

Nothing of kvproof is used but the command's output: the plan is executed by the few lines of `execute`, the memory
it must leave is computed from the case's own numbers and `expect.pages` and `expect.zeroed`.
"""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kvproof.cli import main

CASES = Path(__file__).parents[2] / "cases" / "regressions"
Memory = dict[tuple[str, str], bytearray]


def planned_cases() -> list[Any]:
    """Cases with expected pages. Very large storages are left to `kvproof check` and `transfer`."""
    found = []
    for path in sorted(CASES.glob("*.toml")):
        case = tomllib.loads(path.read_text())
        size = sum(storage["bytes"] for worker in case["worker"] for storage in worker["storages"])
        if "request" in case and case.get("expect", {}).get("verdict") == "lawful" and size < 2**26:
            found.append(pytest.param(path, case, id=path.stem))
    return found


def execute(plan: dict[str, Any], memory: Memory) -> None:
    """Copies read the memory as it was; zeroes come last."""
    before = {name: bytes(data) for name, data in memory.items()}
    for copy in plan["copies"]:
        (source, source_name, start), (target, target_name, goal) = copy["source"], copy["target"]
        for i in range(copy.get("count", 1)):
            a, b = start + i * copy.get("source_stride", 0), goal + i * copy.get("target_stride", 0)
            moved = before[source, source_name][a : a + copy["bytes"]]
            assert len(moved) == copy["bytes"]
            memory[target, target_name][b : b + copy["bytes"]] = moved
    for zero in plan["zeroes"]:
        worker, storage, start = zero["target"]
        for i in range(zero.get("count", 1)):
            a = start + i * zero.get("target_stride", 0)
            memory[worker, storage][a : a + zero["bytes"]] = bytes(zero["bytes"])


def filled(case: dict[str, Any]) -> Memory:
    """Random bytes, none of them zero."""
    dice = random.Random(case["name"])
    return {
        (worker["name"], storage["name"]): bytearray(dice.randbytes(storage["bytes"]).replace(b"\0", b"\1"))
        for worker in case["worker"]
        for storage in worker["storages"]
    }


def page(layer: dict[str, Any], number: int) -> range:
    start = layer["offset"] + number * layer["page_stride"]
    return range(start, start + layer["page_bytes"])


def row(worker: dict[str, Any], layer: dict[str, Any], number: int) -> range:
    """The row of a page where the storage's views lie side by side in one stride; else nothing."""
    views = [other for other in worker["layers"] if other["storage"] == layer["storage"]]
    stride = layer["page_stride"]
    alike = all(v["page_stride"] == stride and v["offset"] + v["page_bytes"] <= stride for v in views)
    return range(number * stride, (number + 1) * stride) if alike else range(0)


def held_bytes(worker: dict[str, Any], layer: dict[str, Any], number: int) -> range:
    """The bytes of a page that must arrive: all, but of an ssm page with parts only the parts."""
    kind = next(group["kind"] for group in worker["groups"] if group["name"] == layer["group"])
    whole = page(layer, number)
    if kind != "ssm" or "parts" not in layer:
        return whole
    return whole[: sum(part.get("count", 1) * part["unit_bytes"] for part in layer["parts"])]


@pytest.mark.parametrize(("path", "case"), planned_cases())
def test_the_printed_plan_leaves_the_memory_the_numbers_predict(
    path: Path, case: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(path)]) == 0
    plan = json.loads(capsys.readouterr().out)
    before, after = filled(case), filled(case)
    execute(plan, after)
    workers = {worker["name"]: worker for worker in case["worker"]}
    layers = {name: {layer["name"]: layer for layer in worker["layers"]} for name, worker in workers.items()}
    touched: dict[tuple[str, str], set[int]] = {name: set() for name in after}
    for name, pages in case["expect"].get("pages", {}).items():
        sources, targets = pages["P0"], pages["D0"]
        assert len(sources) == len(targets)
        target = layers["D0"][name]
        key = target.get("key", name)
        source = next(layer for layer in layers["P0"].values() if layer.get("key", layer["name"]) == key)
        for a, b in zip(sources, targets, strict=True):
            there, here = held_bytes(workers["P0"], source, a), held_bytes(workers["D0"], target, b)
            arrived = after["D0", target["storage"]][here.start : here.stop]
            assert arrived == before["P0", source["storage"]][there.start : there.stop], (name, a, b)
            touched["D0", target["storage"]].update(page(target, b), row(workers["D0"], target, b))
    for name, pages in case["expect"].get("zeroed", {}).items():
        for number in pages["D0"]:
            place = page(layers["D0"][name], number)
            assert not any(after["D0", layers["D0"][name]["storage"]][place.start : place.stop]), (name, number)
            touched["D0", layers["D0"][name]["storage"]].update(place)
    for storage, data in after.items():
        changed = {i for i, (old, new) in enumerate(zip(before[storage], data, strict=True)) if old != new}
        assert changed <= touched[storage], f"{storage}: bytes outside the moved pages and their rows changed"


def test_there_are_cases_to_run() -> None:
    assert len(planned_cases()) >= 20
