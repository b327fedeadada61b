# SPDX-License-Identifier: Apache-2.0
"""Targets made for tests: a small script each, which talks as a probe does and misbehaves as it is told to."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from commands import PADDED_TAIL

from kvproof.spec.decode import decode_case
from kvproof.upstream.running.session import Session
from kvproof.upstream.targets.target import Target

CASE = decode_case(PADDED_TAIL.read_bytes())
PYTHON = Target("fake", Path(sys.executable))

_SCRIPT = """
import ctypes, json, os, signal, sys, time

READER, OUT, SHARED = os.fdopen(int(sys.argv[2]), "rb"), int(sys.argv[4]), {shared!r}

def write(data):
    while data:
        data = data[os.write(OUT, data):]

def line(**message):
    return json.dumps(message).encode() + b"\\n"

def hello():
    return line(answer="hello", project="fake", version="1", connectors={{"nixl-pull": ["fake"]}})

def observed(note=""):
    seen = dict(workers={{}}, transfers=[], reached={{"tag": "synthetic"}})
    return line(answer="observed", number=NUMBER, notes=[note or str(os.getpid())], **seen)

def ask():
    text = READER.readline()
    if not text:
        sys.exit()
    global NUMBER
    NUMBER = json.loads(text).get("number")
    return json.loads(text)

def hang():
    while True:
        time.sleep(60)

def start():
    write(hello())

def run(asked):
    write(observed())

try:
    os.close(os.open(SHARED + "/started", os.O_CREAT | os.O_EXCL))
except FileExistsError:
    pass
else:
    with open(SHARED + "/first", "w") as file:
        file.write(str(os.getpid()))
{first}
ask()
start()
while True:
    run(ask())
"""


def fake_session(folder: Path, misbehaviour: str = "pass", *, start_seconds: float = 30.0) -> Session:
    """A session with a target whose first process does ``misbehaviour``, which may redefine ``start`` and ``run``.

    Later ones behave, and note their process id. ``SHARED`` is ``folder`` to it.
    """
    first = textwrap.indent(textwrap.dedent(misbehaviour), "    ")
    probe = folder / "probe.py"
    probe.write_text(_SCRIPT.format(shared=str(folder), first=first), encoding="utf-8")
    return Session(PYTHON, "nixl-pull", probe=probe, start_seconds=start_seconds)
