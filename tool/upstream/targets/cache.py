# SPDX-License-Identifier: Apache-2.0
"""The folder where fetched releases and environments are kept between runs.

An entry is complete or absent: it is built beside its place and renamed. Two runs that want the same one build it once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kvproof.failure import Failure
from kvproof.output import remark
from kvproof.places import is_folder

LOCK_SECONDS = 3600.0
"""How long to wait for another run that builds the same entry."""

_POLL_SECONDS = 0.2


def cache_folder() -> Path:
    """``KVPROOF_CACHE``, else ``kvproof`` in ``XDG_CACHE_HOME`` or ~/.cache. It need not exist."""
    if own := os.environ.get("KVPROOF_CACHE"):
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if Path(shared).is_absolute():
        return Path(shared) / "kvproof"
    try:
        return Path.home() / ".cache" / "kvproof"
    except RuntimeError:
        raise Failure("there is no home folder to keep fetched files in: set KVPROOF_CACHE") from None


def entry(name: str, build: Callable[[Path], None]) -> Path:
    """The cache's folder of that name. ``build`` fills an empty folder if there is none yet.

    What ``build`` raises is passed on, and nothing is left behind. Raises Failure where the cache cannot be written.
    """
    path = cache_folder() / name
    if is_folder(path):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path):
            if not is_folder(path):
                _built(path, build)
    except OSError as error:
        raise Failure(
            f"{path} cannot be written: {error.strerror or error} (KVPROOF_CACHE says where to keep fetched files)"
        ) from None
    return path


def _built(path: Path, build: Callable[[Path], None]) -> None:
    for abandoned in path.parent.glob(f".{path.name}.new-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}.new-", dir=path.parent))
    try:
        build(new)
        new.chmod(0o755)
        new.rename(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other process is in here for the same path. The kernel gives the lock up when its holder dies."""
    until = time.monotonic() + LOCK_SECONDS
    with path.with_name(f".{path.name}.lock").open("ab") as lock:
        waiting = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    remark(f"kvproof: another run is fetching {path.name}; waiting for it")
                waiting = True
                if time.monotonic() > until:
                    raise Failure(f"{path}: another run has been fetching it for {LOCK_SECONDS:g} s") from None
                time.sleep(_POLL_SECONDS)
        yield
