# SPDX-License-Identifier: Apache-2.0
"""Maps the source folders to one import name: `tool` is `kvproof`, every other one a package below it."""

from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
FOLDERS = {
    "tool": "kvproof",
    "spec": "kvproof.spec",
    "reference": "kvproof.reference",
    "gpu_impl": "kvproof.gpu_impl",
    "proofs": "kvproof.proofs",
    "cases": "kvproof.cases",
}


def packages() -> list[str]:
    """Every folder that holds Python files, so that a new subfolder needs no entry anywhere."""
    found = set()
    for folder, name in FOLDERS.items():
        for file in (ROOT / folder).rglob("*.py"):
            found.add(".".join([name, *file.parent.relative_to(ROOT / folder).parts]))
    return sorted(found)


setup(packages=packages(), package_dir={name: folder for folder, name in FOLDERS.items()})
