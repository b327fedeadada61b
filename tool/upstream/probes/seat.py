# SPDX-License-Identifier: Apache-2.0
"""What every probe sits on: the loop of questions and answers, and what an exception means.

A probe runs in the target's Python and knows nothing of kvproof: this file imports the standard library alone. The
messages are described in ``kvproof.upstream.protocol``; here they are plain dicts.
"""

from __future__ import annotations

import argparse
import dis
import json
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, SimpleNamespace, TracebackType
from typing import Any, BinaryIO, Protocol

Answer = dict[str, Any]
"""One message to the stand; the key ``answer`` says which."""

PROTOCOL = 1
TEXT_LIMIT = 20_000
"""Characters of one text in an answer; the stand takes no longer ones."""

DELIBERATE = (ValueError, RuntimeError, NotImplementedError, AssertionError)
"""Types that the targets raise to refuse something."""

PROJECTS = ("vllm",)
"""Packages that are put under test."""

PROBES = Path(__file__).resolve().parent

STORAGE = {"shared": None}
POOL = {"null": None}
GROUP = {"block_tokens": None, "pages_per_block": 1, "window_tokens": None, "retained_tokens": 0}
LAYER = {"tokens_per_state": 1, "parts": (), "key": None}
PART = {"units": 1, "first": 0, "count": 1, "order": "unit-major"}
TABLE = {"first": 0, "cached_tokens": None, "live": None}
WORKER = {"tables": {}, "tp": [0, 1], "pp": [0, 1], "context": [0, 1], "interleave_tokens": 1}
"""What the case format lets a file leave out (docs/formats.md)."""


class NotDriven(Exception):
    """The probe cannot build this case with this target. ``missing`` names the feature in a few words."""

    def __init__(self, reason: str, missing: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing


class Swallowed(Exception):
    """The target failed, but kept the error to its log. ``cause`` is that error, or else ``place`` who logged it."""

    def __init__(self, message: str, cause: BaseException | None, place: tuple[str, int]) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.place = place


class Unfinished(Exception):
    """The target did not finish in time. It has no place in the target's code: nothing there failed."""


class Probe(Protocol):
    """What the loop asks of a probe."""

    tree: Path | None
    """Folder that the target's package was imported from; None before that."""
    stage: str
    """What the target is being asked to do, in words."""
    reached: Answer | None
    """How far the geometry is the target's own, once known."""
    library: tuple[str, ...]
    """Files of the probe that stand for a library: what they raise, the target met."""

    def hello(self) -> Answer:
        """Answer to ``hello``."""

    def run(self, ask: dict[str, Any]) -> Answer:
        """Answer to ``run``."""


def serve(probe: Probe) -> None:
    """Answer questions, one a line, until the stand closes the pipe. Ends the process: nothing after it runs."""
    options = argparse.ArgumentParser(description="A probe of kvproof; started by it, not by hand.")
    options.add_argument("--in", dest="questions", type=int, required=True, help="file descriptor of the questions")
    options.add_argument("--out", dest="answers", type=int, required=True, help="file descriptor of the answers")
    chosen = options.parse_args()
    with os.fdopen(chosen.questions, "rb") as questions, os.fdopen(chosen.answers, "wb") as answers:
        _loop(probe, questions, answers)
    sys.stdout.flush()
    sys.stderr.flush()
    # A target's libraries take seconds to take themselves apart, and nothing is left to put in order.
    os._exit(0)


def _loop(probe: Probe, questions: BinaryIO, answers: BinaryIO) -> None:
    for line in questions:
        answers.write(json.dumps(reply(probe, line)).encode() + b"\n")
        answers.flush()


def reply(probe: Probe, line: bytes) -> Answer:
    """The answer to one question, with the question's number if it has one, whatever happens on the way."""
    probe.stage, probe.reached = "start", None
    ask = json.loads(line)
    answer = _answer(probe, ask)
    return {**answer, "number": ask["number"]} if "number" in ask else answer


def _answer(probe: Probe, ask: dict[str, Any]) -> Answer:
    try:
        if ask["ask"] == "hello":
            if ask.get("protocol", PROTOCOL) != PROTOCOL:
                return _failed(f"this probe speaks protocol {PROTOCOL}, asked for {ask['protocol']}")
            return probe.hello()
        if ask["ask"] == "run":
            return probe.run(ask)
        return _failed(f"unknown question {ask['ask']!r}")
    except NotDriven as error:
        return {"answer": "not-driven", "reason": clip(error.reason), "missing": error.missing}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return judge(error, probe)


def judge(error: BaseException, probe: Probe) -> Answer:
    """What an exception means: the target refused, the target fell over, or the probe is at fault."""
    if isinstance(error, Unfinished):
        return _crashed(probe, "TransferUnfinished", str(error), ("", 0))
    if probe.stage == "import":
        return unimported(error, probe)
    if isinstance(error, Swallowed):
        if error.cause is None:
            return _crashed(probe, "LoggedError", error.message, _within(error.place, probe.tree))
        error = error.cause
    frames = [frame for frame in walk(error.__traceback__) if frame.file not in probe.library]
    ours = [index for index, frame in enumerate(frames) if _belongs(frame.file, PROBES)]
    theirs = [index for index, frame in enumerate(frames) if _targets(frame.file, probe.tree)]
    if not theirs or (ours and ours[-1] > theirs[-1]):
        return _failed(str(error), type(error).__name__, "".join(traceback.format_exception(error)))
    inner = frames[theirs[-1]]
    place = _within((inner.file, inner.line), probe.tree)
    deliberate = theirs[-1] == len(frames) - 1 and inner.raises and isinstance(error, DELIBERATE)
    if not deliberate:
        return _crashed(probe, type(error).__name__, str(error), place)
    return {
        "answer": "refused",
        "stage": probe.stage,
        "error": type(error).__name__,
        "message": clip(str(error)),
        "place": place,
        "reached": probe.reached or worker_level("the target refused before it was asked for its own geometry"),
    }


def unimported(error: BaseException, probe: Probe) -> Answer:
    """What it means that the target cannot be imported: whose code it is, a module it lacks, or one that it needs."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        lacks = f"the target has no {error.name}: another version than the probe knows, or not all of it"
        needs = f"the target needs {error.name}, which its environment does not have"
        own = error.name.partition(".")[0] in PROJECTS
        return {"answer": "not-driven", "reason": lacks if own else needs, "missing": "module" if own else "dependency"}
    if isinstance(error, SyntaxError) and error.filename:
        return _crashed(probe, type(error).__name__, error.msg, (error.filename, error.lineno or 0))
    frames = [frame for frame in walk(error.__traceback__) if not frame.file.startswith("<frozen ")]
    if not frames or _belongs(frames[-1].file, PROBES):
        return _failed(str(error), type(error).__name__, "".join(traceback.format_exception(error)))
    return _crashed(probe, type(error).__name__, str(error), (frames[-1].file, frames[-1].line))


class Frame(SimpleNamespace):
    """One call of a traceback: ``file``, ``line``, and whether a raise or assert statement there raised."""

    file: str
    line: int
    raises: bool


def walk(found: TracebackType | None) -> Iterable[Frame]:
    """The calls of a traceback, outermost first."""
    while found is not None:
        code = found.tb_frame.f_code
        yield Frame(file=code.co_filename, line=found.tb_lineno, raises=is_raise(code, found.tb_lasti))
        found = found.tb_next


def is_raise(code: CodeType, offset: int) -> bool:
    """Whether the instruction is that of a ``raise`` or ``assert``.

    A refusal is a statement; a ValueError that int() or torch raises in the target's line is an accident there.
    """
    return dis.opname[code.co_code[offset]] == "RAISE_VARARGS"


def worker_level(*words: str) -> Answer:
    """Reached as far as a worker by itself, and why no further."""
    return {"tag": "worker-level", "words": list(words), "flags": []}


def clip(text: str) -> str:
    """A text that fits in an answer."""
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


def filled(case: dict[str, Any]) -> SimpleNamespace:
    """A case as it came over the pipe, as objects, with what may be left out filled in."""
    return SimpleNamespace(
        name=case["name"],
        tokens=case["request"]["tokens"] if case.get("request") else None,
        workers=[_worker(worker) for worker in case["worker"]],
    )


def _worker(raw: dict[str, Any]) -> SimpleNamespace:
    worker = SimpleNamespace(**{**WORKER, **raw})
    worker.storages = _named(raw["storages"], STORAGE)
    worker.pools = _named(raw["pools"], POOL)
    worker.groups = _named(raw["groups"], GROUP)
    worker.layers = _named(raw["layers"], LAYER)
    for layer in worker.layers.values():
        layer.parts = [SimpleNamespace(**{**PART, **part}) for part in layer.parts]
    worker.tables = {name: SimpleNamespace(**{**TABLE, **table}) for name, table in worker.tables.items()}
    return worker


def _named(rows: list[dict[str, Any]], defaults: dict[str, Any]) -> dict[str, SimpleNamespace]:
    return {row["name"]: SimpleNamespace(**{**defaults, **row}) for row in rows}


def _crashed(probe: Probe, error: str, message: str, place: tuple[str, int]) -> Answer:
    answer = {"answer": "crashed", "stage": probe.stage, "error": error, "message": clip(message), "place": place}
    return answer if probe.reached is None else {**answer, "reached": probe.reached}


def _failed(message: str, error: str = "ProbeError", trace: str = "") -> Answer:
    return {"answer": "probe-failed", "error": error, "message": clip(message), "traceback": trace[-TEXT_LIMIT:]}


def _belongs(file: str, folder: Path | None) -> bool:
    return folder is not None and Path(file).is_relative_to(folder)


def _targets(file: str, tree: Path | None) -> bool:
    """Whether a file is the target's. Where it is installed, the libraries that it calls lie beside it."""
    if tree is None or not _belongs(file, tree):
        return False
    return tree.name not in ("site-packages", "dist-packages") or Path(file).relative_to(tree).parts[0] in PROJECTS


def _within(place: tuple[str, int], tree: Path | None) -> tuple[str, int]:
    """A place, its file relative to the target's tree: what can be found in any checkout of that release."""
    file = Path(place[0])
    return (str(file.relative_to(tree)) if tree is not None and file.is_relative_to(tree) else place[0], place[1])
