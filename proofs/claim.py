# SPDX-License-Identifier: Apache-2.0
"""A claim: what is assumed of a world, what follows, and which instances of proven claims help.

Claims know no solver. The same three functions are turned into formulas by the proofs, and evaluated on integers by
the vacuity check, by replays and by the tests.
"""

from __future__ import annotations

import inspect
import re
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

from kvproof.proofs.source import Numbers, Source
from kvproof.spec.logic import Bool, all_of, implies
from kvproof.spec.vocabulary import Law

W = TypeVar("W")

Kind = Literal["lemma", "theorem", "refutation"]


class Instance(NamedTuple):
    """A proven claim applied to some world. Made by ``Claim.at`` only, so that a proof uses nothing unproven."""

    claim: str
    formula: Bool


class Claim(Generic[W]):
    """Base of all claims. The class's name is the claim's name; its docstring begins with the claim in one sentence."""

    id: ClassVar[str]
    kind: ClassVar[Kind]
    law: ClassVar[Law | None] = None
    variants: ClassVar[tuple[str, ...]] = ("",)
    """One query each: values of an enum, or base and step of an induction. All must be proved."""

    def world(self, source: Source, variant: str) -> W:
        """The world of a variant, its integers taken from the source."""
        raise NotImplementedError

    def hypotheses(self, w: W) -> list[Bool]:
        """What is assumed. Together they hold in the example, so that the claim is not vacuous."""
        raise NotImplementedError

    def claim(self, w: W) -> Bool:
        """What follows."""
        raise NotImplementedError

    def lemmas(self, w: W) -> list[Instance]:
        """Instances of proven claims that the proof needs."""
        del w
        return []

    def example(self, variant: str) -> Numbers:
        """A concrete world in which the hypotheses hold."""
        raise NotImplementedError

    @classmethod
    def at(cls, w: W) -> Instance:
        """This claim as a fact about a world, for use in another proof."""
        claim = cls()
        return Instance(cls.id, implies(all_of(*claim.hypotheses(w)), claim.claim(w)))

    @classmethod
    def name(cls) -> str:
        """The English name, in snake case."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def sentence(cls) -> str:
        """The claim in one sentence."""
        return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


class Lemma(Claim[W]):
    """A nonlinear fact, or an induction: what the theorems are built from. Checked as it stands, not lifted."""

    kind: ClassVar[Kind] = "lemma"


class Theorem(Claim[W]):
    """A fact about the reference's own functions and the laws' kernels, for all sizes. Lifted to linear form."""

    kind: ClassVar[Kind] = "theorem"


class Refutation(Claim[W]):
    """A claim that must be false: a faulty rule, or a condition dropped. Proved by a counterexample that replays."""

    kind: ClassVar[Kind] = "refutation"

    def words(self, w: W) -> str:
        """The counterexample in words, where numbers alone say little."""
        del w
        return ""

    def on_reference(self, w: W) -> bool:
        """The counterexample replays on the reference too, where the fault is a rule that it can be given."""
        del w
        return True
