# SPDX-License-Identifier: Apache-2.0
"""Folders that a target may do anything in: made, read from, and deleted all the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kvproof.failure import Failure
from kvproof.interrupts import Held
from kvproof.upstream.running.lost import Lost


@contextmanager
def scratch(prefix: str, within: Path | None = None) -> Iterator[Path]:
    """An empty folder; at the end it is deleted, whatever is in it. Raises Failure as `new_folder` does."""
    folder = new_folder(prefix, within)
    try:
        yield folder
    finally:
        with Held():
            delete(folder)


def new_folder(prefix: str, within: Path | None = None) -> Path:
    """An empty folder, to be deleted by whoever asked for it. Raises Failure where there is no place for one.

    ``within`` is one of ours: where a target did away with it, it is made again.
    """
    if within is not None:
        with contextlib.suppress(OSError):
            within.mkdir(mode=0o700, exist_ok=True)
            within.chmod(0o700)
    try:
        return Path(tempfile.mkdtemp(prefix=prefix, dir=within))
    except OSError as error:
        raise Failure(f"no temporary folder can be made: {error.strerror or error} (TMPDIR says where)") from None


def delete(folder: Path) -> None:
    """Delete, also where a target took our rights away."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        for place, folders, _ in os.walk(folder):
            for name in folders:
                Path(place, name).chmod(0o700, follow_symlinks=False)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def opened(folder: Path, name: str) -> Iterator[IO[bytes]]:
    """The file of that name in the folder. Raises Lost("garbage") for a name that leads elsewhere, or to no file."""
    shown = f"{name[:200]!r}"
    try:
        root = folder.resolve(strict=True)
        path = (root / name).resolve(strict=True)
        if not path.is_relative_to(root):
            raise Lost("garbage", f"named {shown}, which is no file in its folder")
        # Whatever lies there by now: neither a link nor a pipe is waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise Lost("garbage", f"named {shown} as a file in its folder: {error}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Lost("garbage", f"named {shown}, which is no file in its folder")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def read_inside(folder: Path, name: str, size: int) -> bytes:
    """The file's ``size`` bytes. Raises Lost("garbage") if it has more or fewer, or is none of the folder."""
    with opened(folder, name) as file:
        found = os.fstat(file.fileno()).st_size
        try:
            data = file.read(size) if found == size else b""
        except OSError as error:
            raise Lost("garbage", f"{name[:200]!r} cannot be read: {error.strerror or error}") from None
    if len(data) != size:
        raise Lost("garbage", f"{name[:200]!r} holds {len(data) or found} bytes, not {size}")
    return data
