# SPDX-License-Identifier: Apache-2.0
"""A probe in a target's process, seen from the stand: asked one question at a time, each with a deadline.

The process is expected to do anything: it may crash, hang, print, write garbage, pin itself to a core or leave children
behind. None of that reaches the stand, and all of it ends with `Seat.close` (see kvproof.upstream.running.keeper).
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

import msgspec

from kvproof.upstream.protocol import AnyAnswer, Ask, answer_of, question
from kvproof.upstream.running.keeper import Launch, Report
from kvproof.upstream.running.kept import CORES, Kept
from kvproof.upstream.running.lost import Lost, LostKind
from kvproof.upstream.running.surroundings import surroundings
from kvproof.upstream.targets.target import Target

T = TypeVar("T")

PROBES = Path(__file__).resolve().parents[1] / "probes"
"""The folder of the files that run in targets."""

LINE_BYTES = 64 * 2**20
"""An answer may be this long."""

_READ_BYTES = 2**20
_GRACE_SECONDS = 2.0
_LOG_SHOWN = 600


class _Turn(NamedTuple):
    """One question: what is asked, and for how long an answer is waited for."""

    asked: object
    seconds: float
    until: float

    @property
    def words(self) -> str:
        return f"at {self.asked!r}"


class Seat:
    """A process of the target with a probe in it. ``folder``: its working directory and place for temporary files.

    ``litter``: what is to be deleted should the stand be killed; by default the folder.
    After `Lost` it is closed. Use it in one thread at a time.
    """

    def __init__(self, target: Target, probe: Path, folder: Path, litter: Path | None = None) -> None:
        self.folder = folder
        self._label = target.label
        self._read = bytearray()
        self._open = True
        their_in, self._questions = os.pipe()
        self._answers, their_out = os.pipe()
        for ours in (self._questions, self._answers):
            os.set_blocking(ours, False)
        command = [str(target.python), str(probe), "--in", str(their_in), "--out", str(their_out)]
        launch: Launch = {
            "command": command,
            "environment": surroundings(target, folder),
            "folder": str(folder),
            "keep": [their_in, their_out],
            "cores": CORES,
            "litter": str(litter or folder),
        }
        try:
            self._kept = Kept(launch)
        except BaseException:
            os.close(self._questions)
            os.close(self._answers)
            raise
        finally:
            os.close(their_in)
            os.close(their_out)

    def ask(self, ask: Ask, seconds: float) -> AnyAnswer:
        """Ask one question. Raises Lost if no answer comes within ``seconds``, or none that is one."""
        return self.exchange(ask.__struct_config__.tag, question(ask), answer_of, seconds)

    def exchange(self, asked: object, line: bytes, read: Callable[[bytes], T], seconds: float) -> T:
        """Send a line and ``read`` the one that comes back. ``asked`` names the question in what Lost says.

        Raises Lost if none comes within ``seconds``, or one that ``read`` raises a msgspec.MsgspecError for.
        """
        turn = _Turn(asked, seconds, time.monotonic() + seconds)
        try:
            self._send(line, turn)
            answer = self._receive(turn)
            if self._read:
                self._lose("garbage", f"wrote more than one answer {turn.words}")
            return read(answer)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._lose("garbage", f"answered {_shown(answer)} {turn.words}, which is no answer: {error}")
        except BaseException:  # an interrupt, say: what it answers later would be taken for the next answer
            self.close()
            raise

    def quiet(self) -> bool:
        """It can be asked: it is there, and has not said anything unasked."""
        return self._open and not select.select([self._answers], [], [], 0)[0]

    def close(self) -> None:
        """End the process and all that it started, at once, and wait until they are gone."""
        if self._open:
            self._end()

    def _end(self) -> Report:
        self._open = False
        os.close(self._questions)
        os.close(self._answers)
        return self._kept.end()

    def _send(self, data: bytes, turn: _Turn) -> None:
        left = memoryview(data)
        while left:
            self._await(turn, write=[self._questions])
            try:
                left = left[os.write(self._questions, left) :]
            except BrokenPipeError:
                self._gone(turn.words)

    def _receive(self, turn: _Turn) -> bytes:
        while True:
            self._await(turn, read=[self._answers])
            read = os.read(self._answers, _READ_BYTES)
            if not read:
                self._gone(turn.words)
            end = read.find(b"\n")
            if end >= 0:
                line = bytes(self._read + read[:end])
                self._read = bytearray(read[end + 1 :])
                return line
            self._read += read
            if len(self._read) > LINE_BYTES:
                self._lose("garbage", f"wrote {LINE_BYTES} bytes and no end of a line {turn.words}")

    def _await(self, turn: _Turn, *, read: Sequence[int] = (), write: Sequence[int] = ()) -> None:
        left = turn.until - time.monotonic()
        if left <= 0 or not any(select.select(read, write, [], left)):
            self._lose("hung", f"gave no answer within {turn.seconds:g} s {turn.words}")

    def _gone(self, doing: str) -> NoReturn:
        """It closed its end: as a rule because it ended, and then the keeper reports so on its own."""
        self._kept.ended_within(_GRACE_SECONDS)
        report = self._end()
        if report["failed"] is not None:
            raise Lost("crashed", f"{self._label}: {report['failed']} {doing}")
        if report["status"] is None:
            raise Lost("garbage", f"{self._label}: closed its pipe {doing}, without ending{_log(report)}")
        raise Lost("crashed", f"{self._label}: {_how(report['status'])} {doing}{_log(report)}")

    def _lose(self, kind: LostKind, words: str) -> NoReturn:
        raise Lost(kind, f"{self._label}: {words}{_log(self._end())}")


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _log(report: Report) -> str:
    text = " ".join(report["log"][-_LOG_SHOWN:].split())
    left = f"; could not be killed: {report['left']}" if report["left"] else ""
    return left + (f"; its log ends: {text}" if text else "")


def _shown(line: bytes) -> str:
    return repr(line[:80].decode(errors="replace")) + ("…" if len(line) > 80 else "")
