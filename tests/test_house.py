# SPDX-License-Identifier: Apache-2.0
"""The house itself: licence lines, packaging, pins, and a core that needs no solver, no torch and no NIXL."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kvproof

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "tool": "kvproof",
    "spec": "kvproof/spec",
    "reference": "kvproof/reference",
    "gpu_impl": "kvproof/gpu_impl",
    "proofs": "kvproof/proofs",
    "cases": "kvproof/cases",
}
DATA = {"cases": (".toml",), "tool": (".toml", ".txt")}
SPDX = "# SPDX-License-Identifier: Apache-2.0\n"


def shipped_files() -> dict[str, Path]:
    """What a wheel must hold: the name in the wheel, and the file."""
    return {
        f"{name}/{file.relative_to(ROOT / folder).as_posix()}": file
        for folder, name in FOLDERS.items()
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix == ".py" or file.name == "py.typed" or file.suffix in DATA.get(folder, ())
    }


def constraints() -> dict[str, str]:
    """The lines of constraints.txt by canonical package name."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(Requirement(line).name): line for line in lines}


def test_every_python_file_names_its_licence() -> None:
    files = [file for folder in [*FOLDERS, "tests", "bench"] for file in (ROOT / folder).rglob("*.py")]
    files.append(ROOT / "setup.py")
    assert [str(file) for file in files if not file.read_text(encoding="utf-8").startswith(SPDX)] == []


def test_every_folder_with_python_files_is_a_package() -> None:
    folders = {file.parent for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_every_shipped_file_is_installed() -> None:
    assert kvproof.__file__ is not None
    site = Path(kvproof.__file__).parent.parent
    missing = [name for name, file in shipped_files().items() if not (site / name).is_file()]
    assert missing == [], "run `make setup`: the strict editable install links files one by one"


def test_a_wheel_holds_every_shipped_file(tmp_path: Path) -> None:
    for folder in FOLDERS:
        copytree(ROOT / folder, tmp_path / folder, ignore=ignore_patterns("__pycache__"))
    for name in ["pyproject.toml", "setup.py", "README.md", "LICENSE"]:
        copy(ROOT / name, tmp_path)
    # By way of the source distribution, as a release is built: it must hold everything too.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert names == set(shipped_files())


def test_constraints_are_exact_pins() -> None:
    pin = re.compile(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*( *;.+)?")
    assert [line for line in constraints().values() if not pin.fullmatch(line)] == []


def test_everything_that_setup_installs_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    waiting = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(r for e in extras for r in e),
    ]
    seen = {"kvproof"}
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        # torch itself pins what a CUDA build needs.
        if name in seen or name.startswith(("nvidia-", "cuda-", "triton")):
            continue
        seen.add(name)
        for line in requires(name) or []:
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in ["", *requirement.extras]):
                waiting.append(line)
    assert sorted(seen - {"kvproof"} - set(constraints())) == []


@pytest.mark.parametrize("module", ["kvproof.cli", "kvproof.spec.judge", "kvproof.reference", "kvproof.gpu_impl"])
def test_the_core_needs_no_extra(module: str) -> None:
    extras = ["z3", "cvc5", "torch", "nixl", "hypothesis"]
    program = f"import sys; sys.modules.update(dict.fromkeys({extras!r})); import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
