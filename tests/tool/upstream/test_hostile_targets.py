# SPDX-License-Identifier: Apache-2.0
"""Targets that misbehave: the stand answers in time, what comes next works, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from fake_target import CASE, PYTHON, fake_session

from kvproof.failure import Failure
from kvproof.upstream.protocol import Answer, AskRun, Hello, NotDriven, Observed
from kvproof.upstream.running.lost import Lost
from kvproof.upstream.running.process import LINE_BYTES, Seat
from kvproof.upstream.running.scratch import opened, read_inside
from kvproof.upstream.running.session import Session

ENOUGH = 30.0
"""Seconds for what should answer at once, on a machine with other things to do."""
WITH_HELPERS = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}:{os.environ.get('PYTHONPATH', '')}"}


def ran(session: Session, seconds: float = ENOUGH) -> Answer | Lost:
    with session.scratch() as folder:
        return session.run(CASE, folder, seconds)


def lost(session: Session, seconds: float = ENOUGH) -> Lost:
    found = ran(session, seconds)
    assert isinstance(found, Lost)
    return found


def good(session: Session) -> int:
    """The process id of a target that answers."""
    found = ran(session)
    assert isinstance(found, Observed), found
    return int(found.notes[0])


def gone(pid: int) -> bool:
    """There is no such process, or only what its parent has not taken note of."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in b"ZX"
    return True


def eventually(check: Callable[[], bool]) -> bool:
    until = time.monotonic() + ENOUGH
    while not check():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_a_good_one_keeps_its_process(tmp_path: Path) -> None:
    with fake_session(tmp_path) as session:
        assert isinstance(session.start(), Hello)
        pid = good(session)
        assert good(session) == pid
    assert gone(pid)


MISBEHAVIOURS = {
    "exit": ("os._exit(3)", "crashed", "ended with exit status 3 at 'run'"),
    "exit-zero": ("sys.exit()", "crashed", "ended with exit status 0"),
    "exception": ("raise ValueError('last words')", "crashed", "ValueError: last words"),
    "segfault": ("ctypes.string_at(0)", "crashed", "was killed by SIGSEGV"),
    "kill": ("os.kill(os.getpid(), 9)", "crashed", "was killed by SIGKILL"),
    "kill-group": ("os.killpg(0, 9)", "crashed", "was killed by SIGKILL"),
    "kill-keeper": ("os.kill(os.getppid(), 9); hang()", "crashed", "its keeper was killed"),
    "no-json": ("write(b'Loading model...\\n'); hang()", "garbage", "'Loading model...' at 'run', which is no answer"),
    "no-text": ("write(b'\\xff\\xfe\\n'); hang()", "garbage", "which is no answer"),
    "no-struct": ("write(line(answer='observed', workers=3)); hang()", "garbage", "which is no answer"),
    "unknown-key": ("write(line(answer='not-driven', reason='', a=1)); hang()", "garbage", "which is no answer"),
    "nested": ("write(b'[' * 100_000 + b'\\n'); hang()", "garbage", "which is no answer"),
    "another-answer": ("write(hello()); hang()", "garbage", "said hello when asked to run a case"),
    "stale-answer": ("write(observed().replace(b'1', b'7', 1)); hang()", "garbage", "answered question 7 when asked 1"),
    "no-number": ("write(observed().replace(b'\"number\": 1, ', b'')); hang()", "garbage", "answered question 0"),
    "two-answers": ("write(observed() + observed())", "garbage", "wrote more than one answer"),
    "half-an-answer": ("write(observed()[:-1]); os._exit(0)", "crashed", "ended with exit status 0"),
    "closed": ("os.close(OUT); hang()", "garbage", "closed its pipe at 'run', without ending"),
    "all-closed": ("os.closerange(0, 100); hang()", "garbage", "closed its pipe at 'run', without ending"),
}


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_misbehaviour_in_a_case(name: str, tmp_path: Path) -> None:
    body, kind, words = MISBEHAVIOURS[name]
    with fake_session(tmp_path, f"def run(asked): {body}") as session:
        found = lost(session)
        assert (found.kind, words in found.words) == (kind, True), found.words
        assert found.words.startswith("fake: ")
        pid = int((tmp_path / "first").read_text())
        assert eventually(lambda: gone(pid))
        good(session)


HANGS = {
    "sleeps": "def run(asked): hang()",
    "ignores-signals": """
        def run(asked):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            hang()
        """,
    "stopped": "def run(asked): os.kill(os.getpid(), signal.SIGSTOP)",
    "drips": """
        def run(asked):
            while True:
                write(b" ")
                time.sleep(0.05)
        """,
    "does-not-read": """
        def start():
            write(hello())
            hang()
        """,
}


@pytest.mark.parametrize("name", HANGS)
def test_hang_in_a_case(name: str, tmp_path: Path) -> None:
    with fake_session(tmp_path, HANGS[name]) as session:
        session.start()
        before = time.monotonic()
        found = lost(session, 0.5)
        assert 0.5 <= time.monotonic() - before < 10
        assert found.kind == "hung"
        assert "gave no answer within 0.5 s at 'run'" in found.words
        assert gone(int((tmp_path / "first").read_text()))
        good(session)


def test_question_that_nobody_reads(tmp_path: Path) -> None:
    """It is longer than a pipe holds."""
    with fake_session(tmp_path, "hang()") as session, session.scratch() as folder:
        seat = Seat(PYTHON, tmp_path / "probe.py", folder)
        with pytest.raises(Lost, match=r"gave no answer within 0\.5 s"):
            seat.ask(AskRun("x" * 2**20, "fake", CASE, "", 1), 0.5)


def test_hang_before_hello(tmp_path: Path) -> None:
    with fake_session(tmp_path, "hang()", start_seconds=3) as session:
        assert lost(session).kind == "hung"
        good(session)


def test_one_that_never_starts_is_not_waited_for_again(tmp_path: Path) -> None:
    with fake_session(tmp_path) as session:
        (tmp_path / "probe.py").write_text(f"open({str(tmp_path / 'starts')!r}, 'a').write('x')\n1 / 0")
        found = [lost(session) for _ in range(4)]
    assert {each.kind for each in found} == {"crashed"}
    assert all("ZeroDivisionError" in each.words for each in found)
    assert (tmp_path / "starts").read_text() == "xx"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("{'nixl-push': ['fake']}", "the probe drives no nixl-pull here, only nixl-push"),
        ("{'nixl-pull': ['real']}", "the probe drives nixl-pull with real NIXL only"),
    ],
)
def test_hello_that_does_not_know_what_is_asked_for(answer: str, words: str, tmp_path: Path) -> None:
    hello = f"line(answer='hello', project='', version='', connectors={answer})"
    with fake_session(tmp_path, f"def start(): write({hello}); os.rmdir(SHARED + '/once')") as session:
        (tmp_path / "once").mkdir()
        for _ in range(2):
            found = ran(session)
            assert isinstance(found, NotDriven)
            assert words in found.reason


def test_line_without_end(tmp_path: Path) -> None:
    body = "def run(asked):\n    while True: write(b'x' * 2**20)"
    with fake_session(tmp_path, body) as session:
        found = lost(session)
        assert found.kind == "garbage"
        assert f"wrote {LINE_BYTES} bytes and no end of a line" in found.words
        good(session)


def test_what_comes_unasked_is_not_taken_for_the_next_answer(tmp_path: Path) -> None:
    body = """
        def run(asked):
            write(observed())
            time.sleep(0.1)
            write(observed("0"))
            open(SHARED + "/said", "w")
        """
    with fake_session(tmp_path, body) as session:
        first = good(session)
        assert eventually((tmp_path / "said").exists)
        assert good(session) not in (first, 0)


def test_what_it_prints_is_harmless(tmp_path: Path) -> None:
    body = """
        def run(asked):
            for number in (1, 2):
                os.write(number, b'{"answer": "observed"}' + bytes(10))
                for _ in range(300):
                    os.write(number, b"noise\\n" * 10_000)
            os.write(1, b"last words")
            if os.path.exists(SHARED + "/twice"):
                os._exit(1)
            open(SHARED + "/twice", "w")
            write(observed())
        """
    with fake_session(tmp_path, body) as session:
        good(session)
        found = lost(session)
        assert found.words.endswith("noise last words")
        assert len(found.words) < 1000


@pytest.mark.parametrize("victim", ["os.getpid()", "os.getppid()"])
def test_one_core_is_its_own_affair(victim: str, tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    pin = f"os.sched_setaffinity({victim}, [{min(cores)}])"
    show = "os.write(1, str(sorted(os.sched_getaffinity(0))).encode()); os._exit(1)"
    with fake_session(tmp_path, f"def run(asked): {pin}; {show}") as session:
        lost(session)
        assert os.sched_getaffinity(0) == cores
        probe = tmp_path / "probe.py"
        probe.write_text(probe.read_text().replace("    write(observed())", f"    {show}"))
        assert lost(session).words.endswith(str(sorted(cores)))


def test_cores_of_new_targets_when_one_pinned_us(tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    show = "os.write(1, str(sorted(os.sched_getaffinity(0))).encode()); os._exit(1)"
    with fake_session(tmp_path, f"def run(asked): {show}") as session:
        try:
            os.sched_setaffinity(0, [min(cores)])
            assert lost(session).words.endswith(str(sorted(cores)))
        finally:
            os.sched_setaffinity(0, cores)


LEAVES_CHILDREN = """
    def hide(name):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.chdir("/")
                open(f"{SHARED}/{name}.new", "w").write(str(os.getpid()))
                os.rename(f"{SHARED}/{name}.new", f"{SHARED}/{name}")
                os.closerange(0, 100)
                code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
                os.execve(sys.executable, ["innocent", "-c", code], {})
            os._exit(0)
        while not os.path.exists(f"{SHARED}/{name}"):
            time.sleep(0.01)
    """


@pytest.mark.parametrize("end", ["write(observed())", "os._exit(1)", "os.kill(os.getpid(), 11)", "hang()"])
def test_children_that_hide_are_ended(end: str, tmp_path: Path) -> None:
    body = (
        LEAVES_CHILDREN
        + f"""
    def run(asked):
        hide("one")
        hide("two")
        {end}
    """
    )
    with fake_session(tmp_path, body) as session:
        ran(session, 3.0)
        pids = [int((tmp_path / name).read_text()) for name in ("one", "two")]
        if end == "write(observed())":
            assert not any(gone(pid) for pid in pids)
    assert all(gone(pid) for pid in pids)


def test_nothing_outlives_a_stand_that_is_killed(tmp_path: Path) -> None:
    body = (
        LEAVES_CHILDREN
        + """
    def run(asked):
        hide("hidden")
        open(f"{SHARED}/target", "w").write(str(os.getpid()))
        hang()
    """
    )
    stand = f"""
from pathlib import Path
from fake_target import CASE, fake_session
with fake_session(Path({str(tmp_path)!r}), {body!r}) as session, session.scratch() as folder:
    session.run(CASE, folder, 600)
"""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**WITH_HELPERS, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", stand], env=environment) as process:
        try:
            assert eventually(lambda: (tmp_path / "target").exists() and (tmp_path / "target").read_text() != "")
            assert list(temporary.iterdir())
        finally:
            process.kill()
    pids = [int((tmp_path / name).read_text()) for name in ("hidden", "target")]
    assert eventually(lambda: all(gone(pid) for pid in pids))
    assert eventually(lambda: not list(temporary.iterdir()))


def test_interrupt_ends_everything_at_once(tmp_path: Path) -> None:
    body = "def run(asked):\n    open(f'{SHARED}/target', 'w').write(str(os.getpid())); hang()"
    stand = f"""
from pathlib import Path
from fake_target import CASE, fake_session
try:
    with fake_session(Path({str(tmp_path)!r}), {body!r}) as session, session.scratch() as folder:
        print(session._folder, flush=True)
        session.run(CASE, folder, 600)
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen(
        [sys.executable, "-c", stand], env=WITH_HELPERS, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert eventually(lambda: (tmp_path / "target").exists() and (tmp_path / "target").read_text() != "")
            before = time.monotonic()
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=ENOUGH)[0].splitlines()
            assert time.monotonic() - before < 10
        finally:
            process.kill()
    assert said[1:] == ["interrupted"]
    assert not Path(said[0]).exists()
    assert gone(int((tmp_path / "target").read_text()))


def test_answer_after_an_interrupt_is_nobodys(tmp_path: Path) -> None:
    body = f"""
        def run(asked):
            os.kill({os.getpid()}, signal.SIGINT)
            time.sleep(0.2)
            write(observed("0"))
        """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with fake_session(tmp_path, body) as session:
            with pytest.raises(KeyboardInterrupt):
                ran(session)
            assert gone(int((tmp_path / "first").read_text()))
            assert good(session) != 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_target_that_is_no_program(tmp_path: Path) -> None:
    with Session(PYTHON, "nixl-pull", probe=tmp_path / "none.py") as session:
        assert "can't open file" in lost(session).words
    target = type(PYTHON)("nothing", tmp_path / "nothing")
    with Session(target, "nixl-pull", probe=tmp_path / "none.py") as session:
        assert "nothing: could not be started: " in lost(session).words


def test_scratch_folder_that_is_eaten(tmp_path: Path) -> None:
    eaten = """
        def run(asked):
            import shutil
            shutil.rmtree(asked["folder"])
            shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
            write(observed())
        """
    with fake_session(tmp_path, eaten) as session:
        first = good(session)
        assert good(session) == first


@pytest.mark.parametrize("how", ["shutil.rmtree(home)", "os.chmod(home, 0)"])
def test_folder_of_all_scratch_folders_that_is_eaten(how: str, tmp_path: Path) -> None:
    eaten = f"""
        def run(asked):
            import shutil
            home = os.path.dirname(asked["folder"])
            {how}
            write(observed())
        """
    with fake_session(tmp_path, eaten) as session:
        first = good(session)
        assert good(session) == first


def test_scratch_folder_without_rights_is_deleted(tmp_path: Path) -> None:
    locked = """
        def run(asked):
            os.makedirs(asked["folder"] + "/a/b")
            open(asked["folder"] + "/a/b/c", "w").close()
            os.chmod(asked["folder"] + "/a/b", 0)
            os.chmod(asked["folder"], 0)
            write(observed())
        """
    with fake_session(tmp_path, locked) as session, session.scratch() as folder:
        session.run(CASE, folder, ENOUGH)
    assert not folder.exists()


def test_scratch_folder_is_empty_and_then_gone(tmp_path: Path) -> None:
    with fake_session(tmp_path) as session:
        with session.scratch() as folder:
            assert list(folder.iterdir()) == []
            (folder / "memory").write_bytes(b"x")
        assert not folder.exists()


def test_no_place_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(Failure, match="no temporary folder can be made: No such file"):
        fake_session(tmp_path, "")


def test_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "mine")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    wanted = ["PYTHONPATH", "VLLM_ATTENTION_BACKEND", "HTTPS_PROXY", "VLLM_TARGET_DEVICE"]
    body = f"def run(asked): print([os.environ.get(name) for name in {wanted!r}], flush=True); os._exit(1)"
    with fake_session(tmp_path, body) as session:
        assert lost(session).words.endswith("[None, None, 'http://proxy.invalid', 'cpu']")


NAMES = ["/etc/passwd", "../outside", "a/../../outside", "link", "folder", "fifo", "none", "", ".", "a\0b", "circle"]


@pytest.mark.parametrize("name", NAMES)
def test_file_names_that_lead_elsewhere(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "circle").symlink_to(folder / "circle")
    os.mkfifo(folder / "fifo")
    with pytest.raises(Lost) as caught, opened(folder, name):
        pass
    assert caught.value.kind == "garbage"


def test_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "memory").write_bytes(b"12345")
    assert read_inside(tmp_path, "memory", 5) == b"12345"
    for size in (4, 6):
        with pytest.raises(Lost, match=rf"'memory' holds 5 bytes, not {size}"):
            read_inside(tmp_path, "memory", size)
