# SPDX-License-Identifier: Apache-2.0
"""Real bytes between two processes, with NIXL on this machine's memory."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from small_cases import attention, case, layer, padded_tail, reverse_geometry, ssm, worker
from transfers import bases, children, job, planned, program, spans

from kvproof.gpu_impl import transfer as transfer_module
from kvproof.gpu_impl.errors import (
    DeviceMissing,
    MissingExtra,
    PlanInvalid,
    ProgramInvalid,
    TransferError,
    TransferTooLarge,
    TransferUnfinished,
    Unsupported,
)
from kvproof.gpu_impl.jobs import Job
from kvproof.gpu_impl.messages import (
    Landed,
    Prepare,
    Prepared,
    Read,
    Released,
    Verified,
    VerifyLanded,
    VerifyUnchanged,
)
from kvproof.gpu_impl.pattern import stretch
from kvproof.gpu_impl.tables import descriptor_file, plan
from kvproof.gpu_impl.transfer import Corrupt, DeviceChoice, Report, run, run_many
from kvproof.gpu_impl.verify import Findings, unchanged
from kvproof.spec.place import Place
from kvproof.spec.vocabulary import Case, Part, Role, Table

pytest.importorskip("torch")
pytest.importorskip("nixl")
pytestmark = pytest.mark.timeout(120)

replace = msgspec.structs.replace
SECONDS = 60.0

# By hand: pages 20, 21, 22 of P to 30, 31, 32 (64 B, D's host) and 40, 41, 42 (128 B, D's index).
PADDED_TAIL = planned(
    spans(
        *(("P0/main", (20 + page) * 64, "D0/host", (30 + page) * 64, 64) for page in range(3)),
        *(("P0/index", (20 + page) * 128, "D0/index", (40 + page) * 128, 128) for page in range(3)),
    )
)


@pytest.fixture(autouse=True)
def no_orphans() -> Iterator[None]:
    yield
    assert children() == {}


def one(device: DeviceChoice = "cpu") -> Report:
    return run(padded_tail(), program(padded_tail()), PADDED_TAIL, device=device, deadline_seconds=SECONDS)


def report(outcome: Report | TransferError) -> Report:
    assert isinstance(outcome, Report), outcome
    return outcome


def big(storage_bytes: int) -> Case:
    """One page of 64 KiB moves, in storages of a given size: filling and verifying take a while."""
    pages = storage_bytes // 65536
    sides = [
        worker(
            role,
            {"kv": storage_bytes},
            [attention()],
            [layer("a", "kv", "kv", 0, 65536, 65536)],
            {"kv": [block]},
            {"device": pages},
        )
        for role, block in (("producer", 1), ("consumer", pages - 1))
    ]
    return case(*sides, tokens=64)


def odd_sizes() -> Case:
    """Views that straddle their row, ssm parts, and hardly a multiple of eight."""
    parts = (Part("conv", unit_bytes=5), Part("state", unit_bytes=8))
    sides = [
        worker(
            role,
            {"kv": 7 * 33 + 2, "s": 131},
            [attention("kv", 3), ssm("m")],
            [
                layer("a", "kv", "kv", 2, 13, 33),
                layer("b", "kv", "kv", 15, 20, 33),
                layer("m", "m", "s", 1, 14, 19, *parts),
            ],
            {"kv": Table(blocks), "m": Table(live, live=1)},
            {"device": 6},
        )
        for role, blocks, live in (("producer", (5, 0, 2), (4, 3)), ("consumer", (1, 4, 0), (3, 5)))
    ]
    return case(*sides, tokens=8)


def all_jobs() -> dict[str, Job]:
    """Lawful jobs, programs and plans that do not agree with each other, and ones that are refused."""
    good = job(padded_tail(), PADDED_TAIL)
    first, second = good.program.transfers
    elsewhere = {name: {key: base * 3 for key, base in mine.items()} for name, mine in bases(padded_tail()).items()}

    def wrong(**changes: object) -> Job:
        changed = replace(first, **changes)
        return replace(good, program=replace(good.program, transfers=(changed, second)))

    return {
        "mixed memory": good,
        "other bases": replace(good, program=descriptor_file(padded_tail(), elsewhere)),
        "other seed": replace(good, seed=3),
        "zeroes": job(reverse_geometry()),
        "cached prefix": job(reverse_geometry(cached_on_host=64)),
        "odd sizes": job(odd_sizes()),
        "nothing": job(replace(padded_tail(), request=None)),
        "shifted": wrong(source_ids=(21, 22, 23)),
        "omitted": replace(good, program=replace(good.program, transfers=(second,))),
        "astray": wrong(target_ids=(30, 31, 51)),
        "not zeroed": replace(job(reverse_geometry()), program=replace(program(reverse_geometry()), zeroes=())),
        "plan expects more": replace(
            good,
            expected=planned(
                [*good.required, *spans(("P0/main", 0, "D0/host", 0, 64))],
                Place("D0/index", 0, 128),
            ),
            owed=[Place("D0/index", 0, 128)],
        ),
        "write": wrong(op="WRITE"),
        "lists of unequal length": wrong(source_ids=(21,)),
        "plan reads the consumer": replace(good, expected=planned(spans(("D0/host", 0, "D0/host", 64, 64)))),
        "plan leaves its storage": replace(good, expected=planned(spans(("P0/main", 6399, "D0/host", 64, 2)))),
        "plan zeroes the producer": replace(good, owed=[Place("P0/main", 0, 64)]),
        "required of two lengths": replace(good, required=[(Place("P0/main", 0, 64), Place("D0/host", 0, 63))]),
        "two consumers": replace(
            good, case=replace(padded_tail(), worker=(*padded_tail().worker, padded_tail().worker[1]))
        ),
        "again": good,
    }


Outcomes = dict[str, Report | TransferError]


@pytest.fixture(scope="module")
def found() -> Outcomes:
    """What became of all jobs, on one pair of processes."""
    jobs, pids = all_jobs(), []

    def noting() -> Iterator[Job]:
        for each in jobs.values():
            pids.append(children())
            yield each

    outcomes = list(run_many(noting(), device="cpu", deadline_seconds=SECONDS))
    assert pids[1].keys() == {"producer", "consumer"}
    assert all(each == pids[1] for each in pids[1:])
    return dict(zip(jobs, outcomes, strict=True))


def test_bytes_arrive_between_mixed_memories(found: Outcomes) -> None:
    made = report(found["mixed memory"])
    assert made.ok
    assert (made.transfers, made.descriptors) == (2, 6)
    assert (made.moved_bytes, made.zeroed_bytes, made.untouched_bytes) == (576, 0, 19200 - 576)
    assert made.verified_bytes == 2 * 19200
    assert made.device == "cpu"
    assert made.nixl_version
    assert set(made.seconds) == {"start", "register", "prepare", "read", "zero", "verify", "release"}


@pytest.mark.parametrize(
    ("name", "moved", "zeroed"),
    [
        ("other bases", 576, 0),
        ("other seed", 576, 0),
        ("zeroes", 576, 192),
        ("cached prefix", 512, 192),
        ("odd sizes", 3 * 33 + 13, 0),
        ("nothing", 0, 0),
        ("again", 576, 0),
    ],
)
def test_lawful_transfers_are_found_right(found: Outcomes, name: str, moved: int, zeroed: int) -> None:
    made = report(found[name])
    assert (made.ok, made.moved_bytes, made.zeroed_bytes) == (True, moved, zeroed)


def test_pages_one_too_late_are_found_with_where_they_came_from(found: Outcomes) -> None:
    made = report(found["shifted"])
    place = Place("D0/host", 1920, 192)
    assert made.corrupt == (Corrupt(place, Place("P0/main", 1280, 192), Place("P0/main", 1344, 192), zero=False),)
    assert made.mismatches == (place,)
    assert (made.corrupt_bytes, made.mismatching_bytes, made.unzeroed, made.ok) == (192, 192, (), False)


def test_pages_never_written_hold_the_consumers_own_bytes(found: Outcomes) -> None:
    [corrupt] = report(found["omitted"]).corrupt
    assert corrupt.found == corrupt.place == Place("D0/host", 1920, 192)


def test_bytes_outside_the_plan_are_found_though_nobody_requires_them(found: Outcomes) -> None:
    made = report(found["astray"])
    assert [each.place for each in made.corrupt] == [Place("D0/host", 2048, 64)]
    assert made.mismatches == (Place("D0/host", 2048, 64), Place("D0/host", 51 * 64, 64))


def test_owed_pages_left_as_they_were_are_found(found: Outcomes) -> None:
    made = report(found["not zeroed"])
    assert made.unzeroed == (Place("D0/host", 63 * 64, 64), Place("D0/index", 83 * 128, 128))
    assert made.mismatches == made.unzeroed
    assert (made.unzeroed_bytes, made.corrupt, made.ok) == (192, (), False)


def test_expectation_does_not_rest_on_the_program(found: Outcomes) -> None:
    made = report(found["plan expects more"])
    assert made.mismatches == (Place("D0/host", 0, 64), Place("D0/index", 0, 128))
    assert made.unzeroed == (Place("D0/index", 0, 128),)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("write", Unsupported, "WRITE"),
        ("lists of unequal length", ProgramInvalid, "1 source ids, 3 target ids"),
        ("plan reads the consumer", PlanInvalid, "copy 0: D0/host is no storage of the producer"),
        ("plan leaves its storage", PlanInvalid, r"copy 0: \[6399, 6401\) is not inside P0/main"),
        ("plan zeroes the producer", PlanInvalid, "owed 0: P0/main is no storage of the consumer"),
        ("two consumers", Unsupported, "2 workers have the role consumer"),
        ("required of two lengths", PlanInvalid, "required 0: 64 bytes go to 63"),
    ],
)
def test_what_cannot_be_run_is_refused_in_words(found: Outcomes, name: str, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        raise found[name]  # type: ignore[misc]


class ChangedProducer:
    """A pair without processes, whose producer finds one of its bytes changed after the transfer."""

    version, cuda = "none", False

    def __init__(self, *_: object) -> None:
        pass

    def ask(self, requests: dict[Role, object], until: float, doing: str) -> dict[Role, object]:
        return {role: self.answer(request) for role, request in requests.items()}

    def answer(self, request: object) -> object:
        match request:
            case Prepare():
                return Prepared((0,) * len(request.allocations), b"")
            case Read():
                return Landed(0.0, 0.0, 0.0)
            case VerifyUnchanged():
                memory = stretch(1, 0, 12800)
                memory[77] ^= 1
                return Verified(unchanged({1: memory}, 0, request.limit))
            case VerifyLanded():
                return Verified(Findings((), 0, 0))
        return Released()

    def close(self) -> None:
        pass


def test_a_changed_producer_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "Pair", ChangedProducer)
    made = one()
    assert made.mismatches == (Place("P0/index", 77, 1),)
    assert (made.mismatching_bytes, made.ok) == (1, False)


def test_run_raises_what_run_many_yields() -> None:
    made = plan(padded_tail())
    with pytest.raises(TransferTooLarge, match="38400 bytes; the limit is 38399"):
        run(padded_tail(), program(padded_tail()), made, deadline_seconds=SECONDS, byte_limit=38399)
    with pytest.raises(TransferUnfinished, match="the deadline passed while starting"):
        run(padded_tail(), program(padded_tail()), made, deadline_seconds=SECONDS, start_seconds=0.05)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module.importlib.util, "find_spec", lambda name: None if name == "nixl" else name)
    with pytest.raises(MissingExtra, match=r"kvproof\[transfer\].*nixl"):
        one()


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nixl.py").write_text("raise ImportError('no backend of nixl here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingExtra, match="no backend of nixl here"):
        one()


def test_a_gpu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(DeviceMissing):
        one("cuda")


def test_a_killed_or_stopped_process_costs_its_job_only() -> None:
    """Killed between two jobs, killed in the middle of one, stopped: each time the next job gets a fresh pair."""
    small, large = job(padded_tail(), PADDED_TAIL), job(big(200 * 2**20))
    timers = []

    def jobs() -> Iterator[Job]:
        yield small
        os.kill(children()["producer"], signal.SIGKILL)
        yield small  # fails
        yield small
        timers.append(threading.Timer(0.1, os.kill, (children()["consumer"], signal.SIGKILL)))
        timers[0].start()
        yield large  # fails
        yield small
        os.kill(children()["producer"], signal.SIGSTOP)
        yield small  # fails, at the deadline
        yield small
        raise KeyboardInterrupt

    found = []
    with pytest.raises(KeyboardInterrupt):
        for outcome in run_many(jobs(), device="cpu", deadline_seconds=10.0):
            found.append(outcome)
    assert children() == {}
    timers[0].join()
    assert [isinstance(each, Report) for each in found] == [True, False, True, False, True, False, True]
    assert all(report(each).ok for each in found[::2])
    words = [str(each) for each in found[1::2]]
    assert "the producer's process ended (killed by signal 9) while filling" in words[0]
    assert "the consumer's process ended (killed by signal 9) while" in words[1]
    assert "the deadline passed while filling and registering memory, waiting for the producer" in words[2]
    assert all(isinstance(each, TransferUnfinished) for each in found[1::2])


def test_an_iterator_that_is_dropped_ends_its_processes() -> None:
    found = run_many([job(padded_tail(), PADDED_TAIL)] * 3, device="cpu", deadline_seconds=SECONDS)
    assert report(next(found)).ok
    assert children().keys() == {"producer", "consumer"}
    del found
    assert children() == {}


def test_children_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    """Even if one of them is stopped."""
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, time
            from small_cases import padded_tail
            from transfers import job
            from kvproof.gpu_impl.transfer import run_many
            found = run_many([job(padded_tail())] * 2, device="cpu", deadline_seconds=60)
            next(found)
            print("ready", flush=True)
            time.sleep(60)
            """
        )
    )
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": tests}
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"  # and nothing of NIXL's on standard output
        pids = children(parent.pid)
        assert pids.keys() == {"producer", "consumer"}
        os.kill(pids["producer"], signal.SIGSTOP)
        parent.kill()
    deadline = time.monotonic() + 60
    while any(_alive(pid) for pid in pids.values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in pids.values() if _alive(pid)] == []


def test_the_kernel_is_asked_to_kill_a_child_with_its_parent() -> None:
    check = """if True:
        import ctypes, os, signal, sys
        from kvproof.gpu_impl import child
        child._die_with(os.getppid())
        asked = ctypes.c_int()
        ctypes.CDLL(None).prctl(2, ctypes.byref(asked))  # PR_GET_PDEATHSIG
        if asked.value != signal.SIGKILL:
            sys.exit(7)
        child._die_with(1 if os.getppid() != 1 else 2)  # a parent that is gone already
    """
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 1


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
