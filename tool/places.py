# SPDX-License-Identifier: Apache-2.0
"""Paths that users give: what lies there, and whether it can be written, asked before the work begins."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kvproof.failure import Failure


def is_folder(path: Path) -> bool:
    """There is a folder. What cannot be looked at is none: whoever reads it will say why."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def unwritable(option: str, path: Path, error: OSError) -> Failure:
    """What to say of a place that cannot be written."""
    return Failure(f"{option}: {path} cannot be written: {error.strerror or error}")


def usable_folder(option: str, path: Path | None) -> None:
    """The folder can be written to, or made. Raises Failure."""
    if path is None:
        return
    for place in (path, *path.absolute().parents):
        try:
            mode = place.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise unwritable(option, path, error) from None
        if not stat.S_ISDIR(mode):
            raise Failure(f"{option}: {place} is no folder")
        if not os.access(place, os.W_OK | os.X_OK):
            raise Failure(f"{option}: {place} is not for you to write to")
        return


def writable_file(option: str, path: Path | None) -> None:
    """The file can be written. Raises Failure. Nothing is left behind, nothing there is changed."""
    if path is None:
        return
    real = Path(os.path.realpath(path))
    try:
        if not real.exists():
            real.open("xb").close()
            real.unlink()
        elif not stat.S_ISFIFO(real.stat().st_mode):  # a reader would take the closing for the end
            real.open("ab").close()
    except OSError as error:
        raise unwritable(option, path, error) from None
