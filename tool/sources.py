# SPDX-License-Identifier: Apache-2.0
"""Reading what a command is given: case files, folders of them, the built-in cases, plans, standard input."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import BinaryIO

import msgspec

from kvproof.failure import STDIN, Failure
from kvproof.places import is_folder
from kvproof.reference.faults.registry import FAULTS, Fault
from kvproof.spec.decode import CASE_BYTES_LIMIT, PLAN_BYTES_LIMIT, BadInput, decode_plan
from kvproof.spec.descriptors import DescriptorFile
from kvproof.spec.plan import PlanFile
from kvproof.spec.validate import load_case
from kvproof.spec.vocabulary import Case

STDIN_NAME = "<stdin>"
BUILT_IN = "built-in"


class Source(msgspec.Struct, frozen=True):
    """A file of the user's, a built-in one, or standard input. ``name`` is what messages call it."""

    name: str
    path: Path | None = None
    built_in: Traversable | None = None

    def read(self, limit: int, what: str) -> bytes:
        """The bytes, if there are not too many of them. Raises Failure."""
        try:
            return self._read(limit, what)
        except OSError as error:
            raise Failure(f"cannot be read: {error.strerror or error}", source=self.name) from None

    def _read(self, limit: int, what: str) -> bytes:
        if self.built_in is not None:
            return self.built_in.read_bytes()
        if self.path is None:
            if sys.stdin is None:
                raise Failure("standard input is closed", source=self.name)
            return self._bounded(sys.stdin.buffer, limit, what)
        with _opened(self.path, self.name, what) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > limit:
                raise Failure(f"{size} bytes: {what} may have at most {limit}", source=self.name)
            return self._bounded(stream, limit, what)

    def _bounded(self, stream: BinaryIO, limit: int, what: str) -> bytes:
        data = stream.read(limit + 1)
        if len(data) > limit:
            raise Failure(f"more than {limit} bytes, the most that {what} may have", source=self.name)
        return data


def _opened(path: Path, name: str, what: str) -> BinaryIO:
    """The file, or the pipe. A pipe without a writer is empty: nobody is waited for."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise Failure(f"is a folder; {what} is a file", source=name)
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise Failure(f"is a device; {what} is a file or a pipe, or '-' for standard input", source=name)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    stream = os.fdopen(descriptor, "rb")
    if stat.S_ISFIFO(mode) and not stream.peek(1):
        stream.close()
        raise Failure("is a pipe that nothing comes out of; '-' reads standard input", source=name)
    return stream


def source_of(argument: str) -> Source:
    """The source that an argument names; ``-`` is standard input."""
    if argument == STDIN:
        return Source(STDIN_NAME)
    if not argument or "\0" in argument:
        raise Failure("a file name is empty or contains NUL")
    return Source(argument, Path(argument))


BUILT_IN_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
"""What the name of a built-in case looks like."""


def case_source(argument: str) -> Source:
    """The case that an argument names: a file, standard input, or a built-in case where no file has that name."""
    source = source_of(argument)
    if source.path is None or os.path.lexists(argument):
        return source
    found = built_in(argument)
    if found is None and BUILT_IN_NAME.fullmatch(argument):
        near = get_close_matches(argument, [Path(one.name).stem for one in built_in_cases()], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise Failure(
            f"cannot be read: No such file or directory, nor a built-in case of that name{hint}", source=argument
        )
    return found or source


def built_in(name: str) -> Source | None:
    """The built-in case of that name."""
    return next((source for source in built_in_cases() if source.name.endswith(f"/{name}.toml")), None)


def case_sources(arguments: tuple[str, ...]) -> list[Source]:
    """The cases that arguments name: files, folders (searched for ``*.toml``), built-in ones; nothing: all of those.

    Each file is taken once.
    """
    if arguments.count(STDIN) > 1:
        raise Failure("standard input can be read only once: '-' is given twice")
    if not arguments:
        return list(built_in_cases())
    found: dict[str, Source] = {}
    for argument in arguments:
        source = case_source(argument)
        if source.path is None:
            found[source.name] = source
        elif is_folder(source.path):
            for path in folder_cases(source.path):
                found.setdefault(os.path.normpath(path), Source(str(path), path))
        else:
            found.setdefault(os.path.normpath(argument), source)
    return list(found.values())


def folder_cases(folder: Path) -> list[Path]:
    """The case files in a folder and the folders below it."""

    def unreadable(error: OSError) -> None:
        raise Failure(f"cannot be read: {error.strerror}", source=str(error.filename))

    paths = [
        Path(place) / name
        for place, _, names in os.walk(folder, onerror=unreadable)
        for name in names
        if name.endswith(".toml")
    ]
    if not paths:
        raise Failure("no case in this folder: it holds no *.toml file", source=str(folder))
    return sorted(paths)


def built_in_cases() -> Iterator[Source]:
    """The cases that come with kvproof, wherever it is installed."""
    yield from _below(resources.files("kvproof.cases"), BUILT_IN)


def _below(folder: Traversable, name: str) -> Iterator[Source]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _below(item, f"{name}/{item.name}")
        elif item.name.endswith(".toml"):
            yield Source(f"{name}/{item.name}", built_in=item)


def read_case(source: Source) -> Case:
    """Load and check a case. Raises Failure, with the file's name."""
    try:
        case = load_case(source.read(CASE_BYTES_LIMIT, "a case"))
    except BadInput as error:
        raise Failure(str(error), source=source.name) from None
    for field, names in (("faults", case.expect.faults), ("ratio", case.expect.ratio)):
        for name in names:
            if name not in FAULTS and not (field == "ratio" and name == "lawful"):
                raise Failure(f"expect.{field}: {unknown_fault(name)}", source=source.name)
    return case


def read_plan(source: Source) -> PlanFile | DescriptorFile:
    """Decode a plan file or descriptor lists. Raises Failure, with the file's name."""
    try:
        return decode_plan(source.read(PLAN_BYTES_LIMIT, "a plan"))
    except BadInput as error:
        raise Failure(str(error), source=source.name) from None


def fault_named(name: str | None) -> Fault | None:
    """The faulty rule of that name; None for no name."""
    if name is None:
        return None
    if name not in FAULTS:
        raise Failure(f"--fault: {unknown_fault(name)}")
    return FAULTS[name]


def unknown_fault(name: str) -> str:
    """What to say of a rule that does not exist."""
    return f"no faulty rule is called {name!r}; known: {', '.join(FAULTS)}"
