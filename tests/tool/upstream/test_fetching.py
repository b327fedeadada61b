# SPDX-License-Identifier: Apache-2.0
"""Fetching releases, with indexes made here: nothing of a real one is asked for."""

import contextlib
import hashlib
import io
import json
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvproof.failure import Failure
from kvproof.upstream.targets import fetch, index
from kvproof.upstream.targets.environment import REQUIREMENTS, environment
from kvproof.upstream.targets.fetch import FILE_BYTES, fetch_release, fetch_tests, unpack_tests, unpack_wheel
from kvproof.upstream.targets.index import Index, configured_index
from kvproof.upstream.targets.releases import CURRENT, PINNED, SUPPORTED, checked_version

METADATA = b"Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n"
INFO = {
    "vllm-0.33.0.dist-info/METADATA": METADATA,
    "vllm-0.33.0.dist-info/RECORD": b"",
    "vllm-0.33.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own, and a pip that knows of no index unless the test names one."""
    monkeypatch.setenv("KVPROOF_CACHE", str(tmp_path / "cache"))
    for name in (
        "PIP_FIND_LINKS",
        "PIP_EXTRA_INDEX_URL",
        "PIP_CERT",
        "http_proxy",
        "HTTP_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "file:///nowhere")
    monkeypatch.setenv("TORCH_INDEX", "file:///nowhere")
    monkeypatch.setattr(fetch, "environment", lambda: Path(sys.executable))


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tarball(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return data.getvalue()


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_releases() -> None:
    assert set(PINNED) < set(SUPPORTED) and CURRENT in PINNED
    assert [checked_version(version) for version in SUPPORTED] == list(SUPPORTED)


@pytest.mark.parametrize(
    "version", ["", "latest", "0.33.0/..", "../x", "-r", "0.33.0 --pre", "1" * 41, "0.33.0\n", "0.33", "00.33.0"]
)
def test_no_version(version: str) -> None:
    for fetch_it in (fetch_release, fetch_tests):
        with pytest.raises(Failure, match=r"is no version of vllm, such as 0\.33\.0; supported are 0\.25\.0, "):
            fetch_it(version)


def test_wheel_without_binaries(tmp_path: Path) -> None:
    kept = {"vllm/__init__.py": b"x = 1", "vllm/a/b.json": b"{}", "vllm/so.py": b""}
    left_out = {"vllm/_C.abi3.so": b"", "vllm/libx.so.1": b"", "vllm/k.cubin": b"", "vllm/data": bytes(FILE_BYTES + 1)}
    unpack_wheel(wheel(tmp_path / "vllm.whl", {**kept, **left_out}), tmp_path / "out")
    assert files(tmp_path / "out") == set(kept)
    assert (tmp_path / "out" / "vllm" / "__init__.py").read_bytes() == b"x = 1"


@pytest.mark.parametrize("name", ["../evil", "tests/../../evil", "/tmp/evil", "tests\\..\\evil"])
def test_wheel_that_would_leave_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="would write outside of its folder"):
        unpack_wheel(wheel(tmp_path / "vllm.whl", {name: b""}), tmp_path / "out" / "deep")
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("name", ["tests/../../evil", "tests/..\\evil"])
def test_source_distribution_that_would_leave_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "vllm.tar.gz").write_bytes(tarball({"vllm-1/tests/x.py": b"", f"vllm-1/{name}": b""}))
    with pytest.raises(Failure, match="would write outside of its folder"):
        unpack_tests(tmp_path / "vllm.tar.gz", tmp_path / "out" / "deep")
    assert not list(tmp_path.rglob("evil"))


def test_tests_of_a_source_distribution(tmp_path: Path) -> None:
    data = tarball(
        {"vllm-1/setup.py": b"", "vllm-1/tests/v1/test_x.py": b"x", "vllm-1/vllm/tests/y.py": b""},
        {"vllm-1/tests/link": "/etc/passwd"},
    )
    (tmp_path / "vllm.tar.gz").write_bytes(data)
    unpack_tests(tmp_path / "vllm.tar.gz", tmp_path / "out")
    assert files(tmp_path / "out") == {"tests/v1/test_x.py"}


def test_archives_that_are_none(tmp_path: Path) -> None:
    good = tarball({"vllm-1/tests/x.py": bytes(range(256)) * 1000})
    for number, data in enumerate([b"", b"<html>", good[: len(good) // 2], tarball({"vllm-1/setup.py": b""})]):
        path = tmp_path / f"{number}.tar.gz"
        path.write_bytes(data)
        with pytest.raises(Failure, match=path.name):
            unpack_tests(path, tmp_path / "out" / path.name)
    (tmp_path / "vllm.whl").write_bytes(b"<html>")
    with pytest.raises(Failure, match=r"vllm\.whl is no wheel that can be unpacked"):
        unpack_wheel(tmp_path / "vllm.whl", tmp_path / "out")


@pytest.mark.parametrize("place", range(0, 1000, 50))
def test_damaged_archives(place: int, tmp_path: Path) -> None:
    content = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(64))
    wheel(tmp_path / "vllm.whl", {"vllm/__init__.py": content, "vllm/a.py": content})
    (tmp_path / "vllm.tar.gz").write_bytes(tarball({"vllm-1/tests/x.py": content, "vllm-1/tests/y.py": content}))
    for name, unpack in (("vllm.whl", unpack_wheel), ("vllm.tar.gz", unpack_tests)):
        data = bytearray((tmp_path / name).read_bytes())
        for at in range(place, min(place + 12, len(data))):
            data[at] ^= 0xFF
        (tmp_path / name).write_bytes(data)
        with contextlib.suppress(Failure):  # which bytes nobody looks at is the formats' affair
            unpack(tmp_path / name, tmp_path / "out")


@pytest.fixture
def local_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of vllm in an index of files, as pip reads it."""
    folder = tmp_path / "index" / "vllm"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PIP_INDEX_URL", folder.parent.as_uri())
    name = "vllm-0.33.0-py3-none-any.whl"
    wheel(folder / name, {"vllm/__init__.py": b"", "vllm/_C.so": b"", **INFO})
    (folder / "index.html").write_text(f"<a href='{name}'>{name}</a>")
    return folder


def test_release_is_fetched_once(local_index: Path, tmp_path: Path) -> None:
    tree = fetch_release("0.33.0")
    assert tree == tmp_path / "cache" / "vllm-0.33.0"
    assert "vllm/__init__.py" in files(tree)
    assert "vllm/_C.so" not in files(tree)
    assert [path.name for path in tree.parent.iterdir() if not path.name.startswith(".")] == ["vllm-0.33.0"]
    assert not list(tree.parent.rglob("*.whl"))
    (local_index / "index.html").unlink()
    assert fetch_release("0.33.0") == tree


def test_release_that_there_is_not(local_index: Path, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"^vllm 0\.99\.0: the registry has no such release.*; supported are 0\.25\.0, "):
        fetch_release("0.99.0")
    assert not files(tmp_path / "cache") - {".vllm-0.99.0.lock"}


def test_release_without_vllm_in_it(local_index: Path) -> None:
    wheel(local_index / "vllm-0.33.0-py3-none-any.whl", INFO)
    with pytest.raises(Failure, match=r"has no vllm/__init__\.py"):
        fetch_release("0.33.0")


def test_no_index_is_not_the_same_as_no_such_release() -> None:
    with pytest.raises(
        Failure, match=r"^fetching vllm 0\.33\.0: .*no package index that pip is configured with was reached"
    ):
        fetch_release("0.33.0")


def test_environment_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"^making the environment for vLLM: .*torch.*no package index"):
        environment()
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".lock"}


def test_environment_is_a_closed_list() -> None:
    lines = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert all(line.count("==") == 1 for line in lines)
    names = {line.partition("==")[0].lower() for line in lines}
    assert {"torch", "nixl", "nixl-cu13", "xgrammar"} <= names
    assert not any(name.startswith(("nvidia", "triton", "nixl-cu12", "vllm")) for name in names)


class Server(ThreadingHTTPServer):
    """An index over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, tuple[str, bytes]] = {}
        self.authorized: set[str | None] = set()
        self.dawdles = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.authorized.add(self.headers["Authorization"])
        found = self.server.pages.get(self.path)
        self.send_response(200 if found else 404)
        kind, data = found or ("text/plain", b"")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            for piece in [data[n : n + 1] for n in range(len(data))] if self.server.dawdles else [data]:
                self.wfile.write(piece)
                time.sleep(0.1 if self.server.dawdles else 0)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


SDIST = tarball({"vllm-0.33.0/tests/test_x.py": b"x"})
JSON = "application/vnd.pypi.simple.v1+json"


def listing(digest: str = hashlib.sha256(SDIST).hexdigest()) -> bytes:
    name = "vllm-0.33.0.tar.gz"
    return json.dumps({"files": [{"url": f"../../files/{name}", "hashes": {"sha256": digest}}]}).encode()


@pytest.mark.parametrize("kind", ["json", "html"])
def test_tests_are_fetched_once(kind: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    page = b"<a href='../../files/vllm-0.33.0.tar.gz'>vllm-0.33.0.tar.gz</a>"
    server.pages["/simple/vllm/"] = (JSON, listing()) if kind == "json" else ("text/html", page)
    server.pages["/files/vllm-0.33.0.tar.gz"] = ("application/gzip", SDIST)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
    tree = fetch_tests("0.33.0")
    assert files(tree) == {"tests/test_x.py"}
    server.pages.clear()
    assert fetch_tests("0.33.0") == tree
    with pytest.raises(Failure, match="cannot be read: HTTP Error 404"):
        fetch_tests("0.32.0")


def test_tests_of_a_release_that_there_is_not(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.pages["/simple/vllm/"] = (JSON, listing())
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    with pytest.raises(Failure, match=r"^vllm 0\.3\.0: the registry has no such release"):
        fetch_tests("0.3.0")


def test_file_that_is_not_the_one_listed(server: Server, tmp_path: Path) -> None:
    server.pages["/simple/vllm/"] = (JSON, listing("0" * 64))
    server.pages["/files/vllm-0.33.0.tar.gz"] = ("application/gzip", SDIST)
    with pytest.raises(Failure, match="is not the file that it lists"):
        Index(f"{server.url}/simple").source_distribution("vllm", "0.33.0", tmp_path / "file")


@pytest.mark.parametrize("page", [b"", b"[]", b"{}", b'{"files": [{}]}', b'{"files": [{"url": 3, "hashes": {}}]}'])
def test_page_that_is_none(page: bytes, server: Server, tmp_path: Path) -> None:
    server.pages["/simple/vllm/"] = (JSON, page)
    with pytest.raises(Failure, match="is no page of a package index"):
        Index(f"{server.url}/simple").source_distribution("vllm", "0.33.0", tmp_path / "file")


def test_file_without_a_hash(server: Server, tmp_path: Path) -> None:
    page = {"files": [{"url": "../../files/vllm-0.33.0.tar.gz", "hashes": {}}]}
    server.pages["/simple/vllm/"] = (JSON, json.dumps(page).encode())
    server.pages["/files/vllm-0.33.0.tar.gz"] = ("application/gzip", SDIST)
    assert Index(f"{server.url}/simple").source_distribution("vllm", "0.33.0", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == SDIST


@pytest.mark.parametrize("url", ["nowhere", "gopher://x/simple", "http://[x/simple", "http://ä.invalid:x/simple"])
def test_addresses_that_are_none(url: str, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="package index"):
        Index(url).source_distribution("vllm", "0.33.0", tmp_path / "file")


def test_links_that_are_no_addresses(server: Server, tmp_path: Path) -> None:
    server.pages["/simple/vllm/"] = ("text/html", b"<a href='http://[x/vllm-0.33.0.tar.gz'>x</a>")
    with pytest.raises(Failure, match="is no page of a package index"):
        Index(f"{server.url}/simple").source_distribution("vllm", "0.33.0", tmp_path / "file")


def test_page_without_end(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "PAGE_BYTES", 1000)
    server.pages["/simple/vllm/"] = (JSON, b" " * 1001)
    with pytest.raises(Failure, match="more than 1000 bytes"):
        Index(f"{server.url}/simple").source_distribution("vllm", "0.33.0", tmp_path / "file")


def test_index_that_dawdles(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "FETCH_SECONDS", 0.3)
    server.dawdles = True
    server.pages["/simple/vllm/"] = (JSON, b" " * 100)
    began = time.monotonic()
    with pytest.raises(Failure, match=r"its page of vllm: not fetched within 0\.3 s"):
        Index(f"{server.url}/simple").source_distribution("vllm", "0.33.0", tmp_path / "file")
    assert time.monotonic() - began < 5


def test_password_goes_to_the_index_and_nowhere_else(server: Server, tmp_path: Path) -> None:
    url = server.url.replace("//", "//me:se%40cret@")
    with pytest.raises(Failure) as caught:
        Index(f"{url}/simple").source_distribution("vllm", "0.33.0", tmp_path / "file")
    assert server.authorized == {"Basic bWU6c2VAY3JldA=="}
    assert "cret" not in caught.value.words
    assert server.url in caught.value.words


def test_pip_says_which_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.invalid/simple/")
    assert configured_index(Path(sys.executable)).url == "https://mirror.invalid/simple"
    monkeypatch.delenv("PIP_INDEX_URL")
    assert configured_index(Path(sys.executable)).url == "https://pypi.org/simple"
    monkeypatch.setenv("PIP_CERT", "/nowhere.pem")
    with pytest.raises(Failure, match=r"certificates /nowhere\.pem cannot be read"):
        configured_index(Path(sys.executable))
