# SPDX-License-Identifier: Apache-2.0
"""Releases of vLLM from the package registry, without their binaries: kept in the cache, and never committed."""

from __future__ import annotations

import lzma
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from kvproof.failure import Failure
from kvproof.output import remark
from kvproof.upstream.targets import cache, pip
from kvproof.upstream.targets.environment import environment
from kvproof.upstream.targets.index import configured_index
from kvproof.upstream.targets.releases import SUPPORTED, checked_version

FETCH_SECONDS = 1800.0
FILE_BYTES = 20_000_000
"""Larger files of a wheel are data for GPUs, or binaries under another name."""

_BINARIES = {".so", ".cubin"}
_OTHER_VERSIONS = "(from versions: "

DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError,
    ValueError, struct.error,
)  # fmt: skip
"""What Python raises over archives that are cut, altered, or packed in ways that it does not know."""


def fetch_release(version: str) -> Path:
    """The folder of a release's Python files: ``vllm`` lies in it. Fetched once.

    Raises Failure where the registry cannot be reached, or has no such release.
    """
    checked_version(version)
    return cache.entry(f"vllm-{version}", lambda folder: _fetch_wheel(version, folder))


def fetch_tests(version: str) -> Path:
    """The folder of a release's own tests: ``tests`` lies in it, as in the source distribution. Fetched once.

    Raises Failure as `fetch_release` does.
    """
    checked_version(version)
    return cache.entry(f"vllm-{version}-tests", lambda folder: _fetch_sources(version, folder))


def unpack_wheel(wheel: Path, folder: Path) -> None:
    """Unpack all but binaries and huge files. Raises Failure for a wheel that would write outside of the folder."""
    with _unpacking(wheel, "wheel"), zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir() or _binary(member.filename) or member.file_size > FILE_BYTES:
                continue
            place = _place(folder, member.filename, wheel.name)
            with archive.open(member) as data:
                _write(place, data)


def unpack_tests(archive: Path, folder: Path) -> None:
    """Unpack ``tests`` of a source distribution. Raises Failure for one that would write outside of the folder."""
    with _unpacking(archive, "source distribution"), tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            inner = member.name.partition("/")[2]
            if not member.isfile() or not inner.startswith("tests/"):
                continue
            data = tar.extractfile(member)
            assert data is not None
            with data:
                _write(_place(folder, inner, archive.name), data)
    if not (folder / "tests").is_dir():
        raise Failure(f"{archive.name} has no tests")


@contextmanager
def _unpacking(archive: Path, what: str) -> Iterator[None]:
    """Raises Failure for an archive that is damaged. What cannot be written is not its fault: that has a number."""
    try:
        yield
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Failure(f"{archive.name} is no {what} that can be unpacked: {error}") from None


def _fetch_wheel(version: str, folder: Path) -> None:
    python = environment()
    remark(f"kvproof: fetching vllm {version}: about 0.3 GB, once")
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder.parent) as place:
        words = ("download", "--no-input", "--no-deps", "--only-binary", ":all:", "--dest", place, f"vllm=={version}")
        try:
            pip.run(python, "pip", *words, doing=f"fetching vllm {version}", seconds=FETCH_SECONDS)
        except Failure as failure:
            if _OTHER_VERSIONS in str(failure) and pip.UNREACHED not in str(failure):
                raise none_such(version) from None
            raise
        for wheel in Path(place).iterdir():
            unpack_wheel(wheel, folder)
    if not (folder / "vllm" / "__init__.py").is_file():
        raise Failure(f"vllm {version}: what the registry has under that name has no vllm/__init__.py")


def _fetch_sources(version: str, folder: Path) -> None:
    remark(f"kvproof: fetching the tests of vllm {version}: about 0.05 GB, once")
    index = configured_index(environment())
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder.parent) as place:
        archive = Path(place) / f"vllm-{version}.tar.gz"
        if not index.source_distribution("vllm", version, archive):
            raise none_such(version)
        unpack_tests(archive, folder)


def _binary(name: str) -> bool:
    # Compiled modules carry a version after the ending, at times: libx.so.1.
    return not _BINARIES.isdisjoint(PurePosixPath(name).suffixes)


def _place(folder: Path, name: str, archive: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise Failure(f"{archive} would write outside of its folder: {name!r}")
    return folder / path


def _write(place: Path, data: IO[bytes]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        shutil.copyfileobj(data, file)


def none_such(version: str) -> Failure:
    """What to say of a version that the registry does not have."""
    words = f"vllm {version}: the registry has no such release, or none for this machine"
    return Failure(f"{words}; supported are {', '.join(SUPPORTED)}")
