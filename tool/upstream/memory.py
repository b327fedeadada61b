# SPDX-License-Identifier: Apache-2.0
"""Files that a target names in its answer: read from its scratch folder, and from nowhere else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kvproof.upstream.lost import Lost


def inside(folder: Path, name: str) -> Path:
    """The file of that name in the folder. Raises Lost("garbage") for a name that leads elsewhere, or to no file."""
    try:
        root = folder.resolve(strict=True)
        path = (root / name).resolve(strict=True)
        if path.is_relative_to(root) and stat.S_ISREG(path.stat().st_mode):
            return path
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise Lost("garbage", f"named {name[:200]!r} as a file in its folder: {error}") from None
    raise Lost("garbage", f"named {name[:200]!r}, which is no file in its folder")


def read_inside(folder: Path, name: str, size: int) -> bytes:
    """The file's ``size`` bytes. Raises Lost("garbage") if it has more or fewer, or is none of the folder."""
    path = inside(folder, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                raise Lost("garbage", f"{name[:200]!r} holds {status.st_size} bytes, not {size}")
            data = file.read(size)
    except OSError as error:
        raise Lost("garbage", f"{name[:200]!r} cannot be read: {error.strerror or error}") from None
    if len(data) != size:
        raise Lost("garbage", f"{name[:200]!r} holds {len(data)} bytes, not {size}")
    return data
