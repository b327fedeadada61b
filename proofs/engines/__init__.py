# SPDX-License-Identifier: Apache-2.0
"""The solvers that check queries: z3 and cvc5. Imported only when a proof runs; the core has neither."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from kvproof.proofs.engines.answer import Engine

ENGINES = {"z3": "kvproof.proofs.engines.z3_engine", "cvc5": "kvproof.proofs.engines.cvc5_engine"}
PACKAGES = {"z3": "z3-solver", "cvc5": "cvc5"}


class UnknownEngine(ValueError):
    """There is no engine of that name."""


class MissingExtra(ImportError):
    """A solver is not installed."""


def load(names: Sequence[str]) -> tuple[Engine, ...]:
    """The engines of those names, in that order. z3 must be there whichever is asked for: formulas are its terms."""
    for name in names:
        if name not in ENGINES:
            raise UnknownEngine(f"no engine is called {name!r}; there are {', '.join(ENGINES)}")
    if not names:
        raise UnknownEngine(f"no engine was named; there are {', '.join(ENGINES)}")
    for name in dict.fromkeys(("z3", *names)):
        try:
            import_module(name)
        except ImportError as error:
            raise MissingExtra(
                f"{PACKAGES[name]} is not installed; proofs need it: pip install 'kvproof[prove]'", name=name
            ) from error
    return tuple(import_module(ENGINES[name]).ENGINE for name in dict.fromkeys(names))
