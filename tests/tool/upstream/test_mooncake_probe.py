# SPDX-License-Identifier: Apache-2.0
"""The Mooncake probe: its parts without a target, and all of it with one, where one is in the cache."""

import asyncio
import ctypes
import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kvproof.sources import built_in, read_case
from kvproof.upstream.judging.outcome import Outcome, outcome_of
from kvproof.upstream.judging.pages import page_words
from kvproof.upstream.protocol import Hello
from kvproof.upstream.running.session import PROBE_FILES, PROBES, Session
from kvproof.upstream.targets.target import release_target

RELEASE = "0.33.0"


def sibling(name: str) -> ModuleType:
    """A file of the probe, as the probe itself imports it."""
    return importlib.import_module(name)


@pytest.fixture(autouse=True)
def beside_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROBES))


class Memory:
    """Some bytes, and where they are."""

    def __init__(self, data: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(data, len(data))
        self.address = ctypes.addressof(self._buffer)
        self.size = len(data)

    def data_ptr(self) -> int:
        return self.address

    def numel(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self._buffer.raw


@pytest.fixture
def engines() -> Iterator[tuple[Any, Any]]:
    """Two recording engines that take part."""
    kind = sibling("mooncake_engine").RecordingEngine
    pair = kind(), kind()
    for engine in pair:
        assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    yield pair
    for engine in pair:
        engine.close()


def test_a_batch_is_recorded_and_copied_in_order(engines: tuple[Any, Any]) -> None:
    ours, theirs = engines
    source, target = Memory(b"abcdef"), Memory(b"......")
    ours.batch_register_memory([source.address], [source.size])
    theirs.batch_register_memory([target.address], [target.size])
    session = f"127.0.0.1:{theirs.get_rpc_port()}"
    copies = [source.address, source.address + 3], [target.address, target.address + 1], [2, 2]
    assert ours.batch_transfer_sync_write(session, *copies) == 0
    assert target.read() == b"ade..."
    [batch] = ours.record.batches
    assert (batch.session, batch.sources, batch.targets, batch.lengths) == (session, *map(tuple, copies))
    assert theirs.record.batches == []


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (3, 2), (0, 5)])
def test_memory_that_nobody_registered_is_not_touched(engines: tuple[Any, Any], start: int, length: int) -> None:
    ours, theirs = engines
    source, around = Memory(b"abcdef"), Memory(b"........")
    inside = around.address + 2
    ours.batch_register_memory([source.address], [source.size])
    theirs.batch_register_memory([inside], [4])
    session = f"127.0.0.1:{theirs.get_rpc_port()}"
    targets = [inside + start, inside + 1]
    assert ours.batch_transfer_sync_write(session, [source.address] * 2, targets, [length, 1]) == -1
    assert around.read() == b"...a...."
    assert ours.record.batches[0].targets == tuple(targets)


def test_an_engine_that_was_closed_is_unknown_and_forgets(engines: tuple[Any, Any]) -> None:
    ours, theirs = engines
    source, target = Memory(b"ab"), Memory(b"..")
    ours.batch_register_memory([source.address], [2])
    theirs.batch_register_memory([target.address], [2])
    session = f"127.0.0.1:{theirs.get_rpc_port()}"
    theirs.close()
    assert ours.batch_transfer_sync_write(session, [source.address], [target.address], [2]) == -1
    ours.batch_unregister_memory([source.address])
    assert ours.record.memory == {}
    assert target.read() == b".."


def test_every_engine_has_a_port_of_its_own(engines: tuple[Any, Any]) -> None:
    assert engines[0].get_rpc_port() != engines[1].get_rpc_port()


def test_a_batch_of_unequal_lists_is_an_error(engines: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="2 sources, 1 targets and 2 lengths"):
        engines[0].batch_transfer_sync_write("127.0.0.1:1", [1, 2], [3], [4, 5])


def test_the_library_s_engine_is_used_again_and_left_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = sibling("mooncake_engine").LibraryEngine
    calls: list[tuple[Any, ...]] = []

    class Library:
        def initialize(self, *words: str) -> int:
            calls.append(("initialize", *words))
            return 0

        def batch_register_memory(self, addresses: list[int], lengths: list[int]) -> int:
            calls.append(("register", addresses, lengths))
            return 0

        def batch_unregister_memory(self, addresses: list[int]) -> int:
            calls.append(("unregister", addresses))
            return 0

    monkeypatch.setattr(kind, "library", Library)
    monkeypatch.setattr(kind, "_idle", [])
    first = kind()
    first.initialize("here", "P2PHANDSHAKE", "rdma", "")
    first.batch_register_memory([4096], [10])
    first.close()
    kind().initialize("here", "P2PHANDSHAKE", "rdma", "")
    assert calls == [
        ("initialize", "here", "P2PHANDSHAKE", "tcp", ""),
        ("register", [4096], [10]),
        ("unregister", [4096]),
    ]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own, as a producer has it."""
    found = asyncio.new_event_loop()
    thread = threading.Thread(target=found.run_forever)
    thread.start()
    yield found
    found.call_soon_threadsafe(found.stop)
    thread.join(10)
    found.close()


def converse(wire: Any, answers: int) -> list[bytes]:
    """Ask once, as the target does, and take so many answers."""

    async def ask() -> list[bytes]:
        with wire.dial(None, "tcp://nobody", 5, bind=False) as socket:
            socket.setsockopt(27, 1000)
            await socket.send(b"question")
            return [await asyncio.wait_for(socket.recv(), 10) for _ in range(answers)]

    return asyncio.run(ask())


def test_answers_come_in_order_with_the_line_that_gave_them(loop: asyncio.AbstractEventLoop) -> None:
    async def serve(question: bytes, socket: Any) -> None:
        assert question == b"question"
        await socket.send_multipart((b"who", b"one"))
        await socket.send_multipart((b"who", b"two"))

    wire = sibling("mooncake_wire").Wire(loop, serve, lambda error: b"sorry")
    assert converse(wire, 2) == [b"one", b"two"]
    line = serve.__code__.co_firstlineno
    assert [(reply.body, reply.place) for reply in wire.replies] == [
        (b"one", (__file__, line + 2)),
        (b"two", (__file__, line + 3)),
    ]
    assert wire.error is None


def test_what_the_producer_raises_is_kept_and_answered(loop: asyncio.AbstractEventLoop) -> None:
    async def serve(question: bytes, socket: Any) -> None:
        raise RuntimeError(f"no {question.decode()}s")

    wire = sibling("mooncake_wire").Wire(loop, serve, lambda error: f"sorry: {error}".encode())
    assert converse(wire, 1) == [b"sorry: no questions"]
    assert repr(wire.error) == "RuntimeError('no questions')"
    assert wire.replies == []


def test_a_place_is_said_relative_to_the_target() -> None:
    place_in = sibling("mooncake_wire").place_in
    assert place_in(Path("/there"), ("/there/vllm/a.py", 7)) == ("vllm/a.py", 7)
    assert place_in(Path("/there"), ("/elsewhere/b.py", 7)) == ("b.py", 7)


def test_a_batch_is_parted_by_kinds_of_memory() -> None:
    seen, engine = sibling("mooncake_seen"), sibling("mooncake_engine")
    device, host, far = Memory(b"." * 8), Memory(b"." * 8), Memory(b"." * 8)
    producer = side("P0", {"kv": (device, "VRAM"), "host": (host, "DRAM")})
    consumer = side("D0", {"kv": (far, "VRAM")})
    sources = device.address + 2, host.address, device.address + 4
    targets = far.address, far.address + 2, far.address + 4
    parted = seen.parted(engine.Written("x:1", sources, targets, (2, 2, 2)), producer, consumer)
    assert parted == [
        {
            "producer": "P0",
            "consumer": "D0",
            "source": {"memory": kind, "rows": [(sources[i], 2, 0, 0, 1) for i in chosen]},
            "target": {"memory": "VRAM", "rows": [(targets[i], 2, 0, 0, 1) for i in chosen]},
            "source_ids": list(range(len(chosen))),
            "target_ids": list(range(len(chosen))),
            "op": "WRITE",
        }
        for kind, chosen in (("VRAM", [0, 2]), ("DRAM", [1]))
    ]


def test_an_address_in_no_storage_counts_as_the_first_one_s_kind() -> None:
    memory_of = sibling("mooncake_seen").memory_of
    host = Memory(b"." * 8)
    worker = side("P0", {"host": (host, "DRAM"), "kv": (Memory(b"." * 8), "VRAM")})
    assert memory_of(worker, host.address + 7) == "DRAM"
    assert memory_of(worker, 16) == "DRAM"


def side(name: str, storages: dict[str, tuple[Memory, str]]) -> SimpleNamespace:
    """As much of a worker as what it registered is told by."""
    kinds = {key: SimpleNamespace(name=key, memory=kind) for key, (_, kind) in storages.items()}
    return SimpleNamespace(
        worker=SimpleNamespace(name=name, storages=kinds),
        storages={key: memory for key, (memory, _) in storages.items()},
    )


def test_the_verbs_of_nixl_are_lent_under_the_name_that_mooncake_looks_for(tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "folder"
    for made in (site / "mooncake", site / "nixl_cu12.libs", folder):
        made.mkdir(parents=True)
    (site / "mooncake" / "__init__.py").touch()
    library = site / "nixl_cu12.libs" / "libibverbs-1de1263b.so.1.14.48.0"
    library.touch()
    program = (
        f"import sys; sys.path[:0] = [{str(site)!r}, {str(PROBES)!r}]\n"
        "import ctypes.util, json, os, pathlib\n"
        "ctypes.util.find_library = lambda name: None\n"
        "from mooncake_library import lend_verbs\n"
        f"lend_verbs(pathlib.Path({str(folder)!r}))\n"
        "print(json.dumps([os.getpid(), os.environ['LD_LIBRARY_PATH']]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={"LD_LIBRARY_PATH": "/before"}
    )
    printed, _ = process.communicate(timeout=60)
    assert json.loads(printed) == [process.pid, f"{folder}:{library.parent}:/before"]
    assert (folder / "libibverbs.so.1").resolve() == library


def test_nothing_is_lent_where_mooncake_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = sibling("mooncake_library")
    monkeypatch.setattr(library, "PACKAGE", "no_such_package")
    monkeypatch.setattr(library.os, "execve", lambda *words: pytest.fail("started anew"))
    library.lend_verbs(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_session_knows_the_probe() -> None:
    assert PROBE_FILES["mooncake"].is_file()


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """The connector of a release, which is fetched if need be."""
    with Session(release_target(RELEASE), "mooncake") as found:
        hello = found.start()
        assert isinstance(hello, Hello), hello
        yield found


def put(session: Session, name: str) -> Outcome:
    """What comes of a built-in case."""
    source = built_in(name)
    assert source is not None
    case = read_case(source)
    with session.scratch() as folder:
        return outcome_of(case, session.run(case, folder, 30.0), folder)


@pytest.mark.upstream
def test_equal_geometry_is_lawful_and_memory_agrees(session: Session) -> None:
    for name in ("hybrid-equal-geometry", "v41-flash-window-and-ring", "exact-alias-two-groups"):
        found = put(session, name)
        assert (found.verdict, found.memory) == ("lawful", "agrees"), found.words


@pytest.mark.upstream
def test_the_producer_writes(session: Session) -> None:
    found = put(session, "hybrid-equal-geometry")
    assert found.lists is not None
    assert {transfer.op for transfer in found.lists.transfers} == {"WRITE"}


@pytest.mark.upstream
def test_a_refusal_is_told_in_the_target_s_words_and_line(session: Session) -> None:
    found = put(session, "mla-padded-tail")
    assert (found.verdict, found.needless) == ("refused", True)
    assert found.told is not None
    assert (found.told.message, found.told.stage) == ("P num blocks less than D", "transfer")
    file, line = found.told.place
    assert file.startswith("vllm/") and file.endswith("mooncake_connector.py") and line > 0


@pytest.mark.upstream
def test_a_speculative_slot_takes_the_place_of_the_state(session: Session) -> None:
    found = put(session, "live-slots")
    assert (found.verdict, found.laws, found.memory) == ("corrupt", ("alignment",), "agrees")
    assert any("layers.1.mamba" in words for words in page_words(found.pages))


@pytest.mark.upstream
def test_nothing_moves_after_a_full_prefix_hit(session: Session) -> None:
    found = put(session, "full-prefix-hit-empty-producer")
    assert (found.verdict, found.lists.transfers if found.lists else None) == ("lawful", ())


@pytest.mark.upstream
def test_blocks_of_unequal_size_land_in_other_requests(session: Session) -> None:
    found = put(session, "mla-reverse")
    assert (found.verdict, found.memory) == ("corrupt", "agrees")
    assert {"coverage", "confinement"} <= set(found.laws)
    assert found.reached is not None and found.reached.tag == "reachable"
