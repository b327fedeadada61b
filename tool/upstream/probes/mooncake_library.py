# SPDX-License-Identifier: Apache-2.0
"""Mooncake's own transfer engine on a machine without RDMA.

Its wheel leaves ``libibverbs`` to the system. Where the system has none, NIXL's wheel has one, under a name of its own.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import sys
from pathlib import Path

PACKAGE = "mooncake"
NEEDED = "libibverbs.so.1"
SEARCHED = "LD_LIBRARY_PATH"


def lend_verbs(folder: Path) -> None:
    """Start this process anew with NIXL's library under the name that Mooncake looks for, if that is what it lacks.

    ``folder`` is where that name goes. The loader reads its search path once, so there is no other way.
    """
    if importlib.util.find_spec(PACKAGE) is None or ctypes.util.find_library("ibverbs"):
        return
    lent = folder / NEEDED
    found = borrowed()
    if found is None or lent.exists():
        return
    lent.symlink_to(found)
    path = ":".join([str(folder), str(found.parent), *filter(None, [os.environ.get(SEARCHED)])])
    os.execve(sys.executable, sys.orig_argv, {**os.environ, SEARCHED: path})


def borrowed() -> Path | None:
    """The libibverbs of NIXL's wheel, if it is installed here."""
    folders = (Path(entry) for entry in sys.path if entry)
    return next((file for folder in folders for file in sorted(folder.glob("nixl_cu*.libs/libibverbs-*.so*"))), None)
