# SPDX-License-Identifier: Apache-2.0
"""The probe of vLLM's NixlConnector: what an exception means, what the fake NIXL does; real workers, if asked for."""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from commands import REGRESSIONS

from kvproof.spec.decode import decode_case
from kvproof.upstream.protocol import Answer, Crashed, NotDriven, Observed, ProbeFailed, RefusedBy, answer_of
from kvproof.upstream.running.session import PROBES, Session
from kvproof.upstream.targets.target import release_target

TARGET = """
import logging

def refuse():
    raise ValueError("no such layout")

def insist():
    assert 1 == 2

def convert():
    return int("many")

def index():
    return [][0]

def call(what):
    return what()

def log_and_go_on():
    try:
        refuse()
    except ValueError as error:
        raised = error
    return raised
"""


def loaded(name: str) -> ModuleType:
    """A file of the probe, which lives among its own kind and not in the package."""
    sys.path.insert(0, str(PROBES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(PROBES))


@pytest.fixture
def target(tmp_path: Path) -> Iterator[ModuleType]:
    """Something in a tree of its own that refuses and falls over."""
    (tmp_path / "refusing_target.py").write_text(TARGET, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        yield importlib.import_module("refusing_target")
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("refusing_target")


def judged(target: ModuleType, run: Any) -> Answer:
    """The answer of a probe whose run does what is given."""
    assert target.__file__ is not None
    tree = Path(target.__file__).parent
    probe = SimpleNamespace(tree=tree, stage="", reached=None, library=(), run=lambda ask: run())
    found = answer_of(json.dumps(loaded("seat").reply(probe, b'{"ask": "run"}')).encode())
    assert isinstance(found, RefusedBy | Crashed | NotDriven | ProbeFailed)
    return found


def test_what_the_target_raises_on_purpose_is_a_refusal(target: ModuleType) -> None:
    found = judged(target, target.refuse)
    assert isinstance(found, RefusedBy)
    assert (found.error, found.message, found.place) == ("ValueError", "no such layout", ("refusing_target.py", 5))
    assert isinstance(judged(target, target.insist), RefusedBy)


def test_an_accident_in_the_target_is_a_crash(target: ModuleType) -> None:
    # int() raises a ValueError too, but nobody there meant to refuse anything.
    found = judged(target, target.convert)
    assert isinstance(found, Crashed)
    assert (found.error, found.place) == ("ValueError", ("refusing_target.py", 11))
    assert isinstance(judged(target, target.index), Crashed)


def test_a_library_beside_an_installed_target_is_not_the_target(tmp_path: Path) -> None:
    for name, text in (("vllm", "import beside\ndef call():\n    beside.refuse()\n"), ("beside", TARGET)):
        folder = tmp_path / "site-packages" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(tmp_path / "site-packages"))
    try:
        installed = importlib.import_module("vllm")
        tree = tmp_path / "site-packages"
        probe = SimpleNamespace(tree=tree, stage="", reached=None, library=(), run=lambda ask: installed.call())
        found = answer_of(json.dumps(loaded("seat").reply(probe, b'{"ask": "run"}')).encode())
    finally:
        sys.path.remove(str(tmp_path / "site-packages"))
        for name in ("vllm", "beside"):
            sys.modules.pop(name, None)
    # The library refused; the target met it, where it called the library.
    assert isinstance(found, Crashed)
    assert found.place == ("vllm/__init__.py", 3)


def test_a_fault_of_the_probe_is_not_the_targets(target: ModuleType) -> None:
    facts = loaded("seat")
    # The innermost frame is in the probe's own folder: it was called back, and failed.
    assert isinstance(judged(target, lambda: target.call(lambda: facts.filled({}))), ProbeFailed)
    assert isinstance(judged(target, lambda: facts.filled({})), ProbeFailed)


BROKEN = {
    "syntax": ("def broken(:\n", Crashed, "SyntaxError"),
    "exit": ("raise SystemExit(0)\n", Crashed, "SystemExit"),
    "name": ("\n\nundefined\n", Crashed, "NameError"),
    "refusal": ("raise RuntimeError('no GPU')\n", Crashed, "RuntimeError"),
    "own-module": ("import vllm.moved_away\n", NotDriven, "the target has no vllm.moved_away: "),
    "dependency": ("import no_such_library\n", NotDriven, "the target needs no_such_library, "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_target_that_cannot_be_imported_is_not_the_probes_fault(name: str, tmp_path: Path) -> None:
    text, kind, words = BROKEN[name]
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    (tmp_path / "vllm" / "broken.py").write_text(text, encoding="utf-8")
    probe = SimpleNamespace(tree=None, stage="", reached=None, library=())

    def hello() -> None:
        probe.stage = "import"
        importlib.import_module("vllm.broken")

    probe.hello = hello
    sys.path.insert(0, str(tmp_path))
    try:
        found = answer_of(json.dumps(loaded("seat").reply(probe, b'{"ask": "hello"}')).encode())
    finally:
        sys.path.remove(str(tmp_path))
        for module in ("vllm", "vllm.broken"):
            sys.modules.pop(module, None)
    assert isinstance(found, kind)
    assert isinstance(found, Crashed | NotDriven)
    assert (found.error if isinstance(found, Crashed) else found.reason).startswith(words)
    assert not isinstance(found, Crashed) or found.place[0].endswith("vllm/broken.py")


def test_a_probe_that_fails_before_the_target_is_at_fault() -> None:
    seat = loaded("seat")
    probe = SimpleNamespace(tree=None, stage="", reached=None, library=())

    def hello() -> None:
        probe.stage = "import"
        seat.filled({})

    probe.hello = hello
    assert isinstance(answer_of(json.dumps(seat.reply(probe, b'{"ask": "hello"}')).encode()), ProbeFailed)


def test_an_error_that_only_reached_the_log_counts_where_it_was_raised(target: ModuleType) -> None:
    seat = loaded("seat")
    error = target.log_and_go_on()

    def swallowed() -> None:
        raise seat.Swallowed("transfer failed", error, (target.__file__, 1))

    found = judged(target, swallowed)
    assert isinstance(found, RefusedBy)
    assert (found.message, found.place) == ("no such layout", ("refusing_target.py", 5))


def test_what_cannot_be_built_is_said(target: ModuleType) -> None:
    seat = loaded("seat")

    def not_driven() -> None:
        raise seat.NotDriven("no words for that", "rings")

    assert judged(target, not_driven) == NotDriven("no words for that", "rings")


def test_ids_count_through_rows() -> None:
    pytest.importorskip("numpy")
    agents = loaded("nixl_agents")
    rows = [(1000, 8, 0, 16, 3), (5000, 4, 0, 0, 1), (6000, 8, 0, 8, 2)]
    assert agents.spans(rows, [5, 0, 3, 2]) == [(6008, 8), (1000, 8), (5000, 4), (1032, 8)]
    for number in (6, -1):
        with pytest.raises(IndexError, match=f"descriptor id {number} of a list of 6"):
            agents.spans(rows, [0, number])


def pair(agents: ModuleType) -> tuple[Any, Any, Any, Any]:
    """Two agents, with 8 B each, the second one's counting up."""
    near, far = ctypes.create_string_buffer(8), ctypes.create_string_buffer(bytes(range(1, 9)), 8)
    built = []
    for name, memory in (("near", near), ("far", far)):
        agent = agents.FakeAgent(name)
        agent.register_memory(agent.get_reg_descs([(ctypes.addressof(memory), 8, 0, "")], "VRAM"))
        built.append(agent)
    return built[0], built[1], near, far


def test_fake_nixl_copies_what_is_posted_and_tells_the_other_side() -> None:
    pytest.importorskip("numpy")
    agents = loaded("nixl_agents")
    agent, other, near, far = pair(agents)
    ours = agent.prep_xfer_dlist("NIXL_INIT_AGENT", [(ctypes.addressof(near), 2, 0, 2, 4)], mem_type="VRAM")
    theirs = agent.prep_xfer_dlist(other.name, [(ctypes.addressof(far), 2, 0, 2, 4)], mem_type="VRAM")
    handle = agent.make_prepped_xfer("READ", ours, [0, 3], theirs, [2, 1], notif_msg=b"done")
    assert near.raw == bytes(8)
    agent.transfer(handle)
    assert near.raw == bytes([5, 6, 0, 0, 0, 0, 3, 4])
    assert other.get_new_notifs() == {"near": [b"done"]}
    [post] = agent.posted
    assert (post.op, post.local.agent, post.local_ids, post.remote.agent, post.remote_ids) == (
        "READ", "near", [0, 3], "far", [2, 1],
    )  # fmt: skip
    agent.transfer(agent.make_prepped_xfer("WRITE", ours, [0], theirs, [3]))
    assert far.raw == bytes([1, 2, 3, 4, 5, 6, 5, 6])


def test_fake_nixl_refuses_what_nixl_refuses() -> None:
    pytest.importorskip("numpy")
    agents = loaded("nixl_agents")
    agent, _, near, far = pair(agents)
    start = ctypes.addressof(near)
    for rows, kind in (
        ([(start, 9, 0, 0, 1)], "VRAM"),
        ([(start, 4, 0, 8, 2)], "VRAM"),
        ([(start, 8, 0, 0, 1)], "DRAM"),
    ):
        with pytest.raises(agents.NixlRefused, match="not registered"):
            agent.prep_xfer_dlist("", rows, mem_type=kind)
    ours = agent.prep_xfer_dlist("", [(start, 4, 0, 4, 2)], mem_type="VRAM")
    theirs = agent.prep_xfer_dlist("far", [(ctypes.addressof(far), 2, 0, 2, 4)], mem_type="VRAM")
    with pytest.raises(agents.NixlRefused, match="differ in length"):
        agent.make_prepped_xfer("READ", ours, [0], theirs, [0])
    with pytest.raises(agents.NixlRefused, match="descriptor id 2"):
        agent.make_prepped_xfer("READ", ours, [2], theirs, [0])
    with pytest.raises(agents.NixlRefused, match="no descriptors"):
        agent.make_prepped_xfer("READ", ours, [], theirs, [])
    with pytest.raises(agents.NixlRefused, match="empty list"):
        agent.prep_xfer_dlist("", [], mem_type="VRAM")


def test_state_shapes_give_the_parts_of_a_state() -> None:
    pytest.importorskip("torch")
    shapes = loaded("vllm_specs").state_shapes

    def layer(*sizes: int) -> SimpleNamespace:
        return SimpleNamespace(
            name="m", page_bytes=96, parts=[SimpleNamespace(unit_bytes=size, count=1) for size in sizes]
        )

    # Six rows of 2 + 1 + 1 B, and a temporal state as wide as x: 2 B, 16 times.
    assert shapes(SimpleNamespace(notes=[]), layer(12, 6, 6, 32)) == ("MAMBA2", (4, 6), (1, 2, 16))
    assert shapes(SimpleNamespace(notes=[]), layer(6, 6, 12, 32)) == ("GDN_ATTN", (4, 6), (1, 2, 16))
    assert shapes(SimpleNamespace(notes=[]), layer(32, 64)) == ("MAMBA1", (1, 32), (1, 64))
    engine = SimpleNamespace(notes=[])
    assert shapes(engine, layer()) == ("MAMBA1", (1, 1), (1, 95))
    assert engine.notes
    seat = loaded("seat")
    with pytest.raises(seat.NotDriven, match="no mixer"):
        shapes(SimpleNamespace(notes=[]), layer(5, 7, 9))


def test_places_are_compared_from_layer_to_layer() -> None:
    pytest.importorskip("torch")
    reach = loaded("vllm_reach")
    place, relation = reach.Place, reach.relation
    # Rows of 100 B: the layers lie between each other. Layer after layer: how far apart does not matter.
    assert relation(place(0, 0, 100, 40), place(0, 40, 100, 60), 5) == 40
    assert relation(place(0, 0, 10, 10), place(0, 50, 10, 10), 5) is None
    assert relation(place(0, 0, 10, 10), place(0, 40, 10, 10), 5) == 40
    assert relation(place(0, 0, 10, 10), place(1, 0, 10, 10), 5) is None


@pytest.fixture(scope="module", params=["nixl-pull", "nixl-push"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """vLLM 0.33.0, which is fetched if need be."""
    with Session(release_target("0.33.0"), request.param) as opened:
        yield opened


def answered(session: Session, name: str) -> Answer:
    case = decode_case((REGRESSIONS / f"{name}.toml").read_bytes())
    with session.scratch() as folder:
        found = session.run(case, folder, 60.0)
    assert not isinstance(found, Exception), found
    return found


@pytest.mark.upstream
def test_both_connectors_move_the_same_pages(session: Session) -> None:
    found = answered(session, "hybrid-equal-geometry")
    assert isinstance(found, Observed)
    [transfer] = found.transfers
    assert transfer.op == ("READ" if session.connector == "nixl-pull" else "WRITE")
    assert (transfer.producer, transfer.consumer) == ("P0", "D0")
    # P's blocks 4 2 7 5 and D's 3 8 1 6, two pages each, of two attention layers of 20 pages.
    pages = {"P0": [8, 9, 4, 5, 14, 15, 10, 11], "D0": [6, 7, 16, 17, 2, 3, 12, 13]}
    assert transfer.source_ids[:16] == (*pages["P0"], *(20 + page for page in pages["P0"]))
    assert transfer.target_ids[:16] == (*pages["D0"], *(20 + page for page in pages["D0"]))
    assert transfer.source.sections == {"attention": (0, 40), "ssm": (40, 120)}
    assert found.notes == () and found.zeroes == ()


@pytest.mark.upstream
def test_reach_comes_from_the_targets_own_planner_and_backend(session: Session) -> None:
    found = answered(session, "mla-padded-tail")
    assert isinstance(found, Observed | Crashed)
    assert found.reached is not None
    assert found.reached.tag == "reachable"
    assert "P: --block-size 128" in found.reached.flags
    split = answered(session, "mla-padded-tail-split-groups")
    assert isinstance(split, Observed | RefusedBy)
    assert split.reached.tag == "synthetic"
    assert any("planner's groups are layers.0.attn layers.1.attn" in word for word in split.reached.words)


@pytest.mark.upstream
def test_target_refuses_by_itself(session: Session) -> None:
    found = answered(session, "refused-layer-absent")
    assert isinstance(found, RefusedBy)
    assert found.message == "Number of KV layers must match between prefill and decode"
    assert found.place[0].endswith("nixl/base_worker.py")
