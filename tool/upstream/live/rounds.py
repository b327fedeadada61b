# SPDX-License-Identifier: Apache-2.0
"""Two whole engines of the target on this machine: one computes prompts, the other pulls their caches and goes on.

Two answers are held together that have nothing to do with each other: what the judge says of the descriptor lists that
were posted, and whether the consumer says the same as when it computes the prompt itself.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from time import monotonic

import msgspec

from kvproof.exits import Exit
from kvproof.spec.validate import problems
from kvproof.spec.vocabulary import Case
from kvproof.upstream.judging.outcome import Outcome, outcome_of
from kvproof.upstream.live.case import Unread, live_case, misheard, observation
from kvproof.upstream.live.engine import (
    PROBE,
    AskForget,
    AskGenerate,
    AskModel,
    AskStart,
    Engine,
    Generated,
    Started,
    Unserved,
)
from kvproof.upstream.live.scenarios import LLAMA, Round, Scenario, prompt_of, warm_lengths
from kvproof.upstream.protocol import Answer, ProbeFailed, RefusedBy
from kvproof.upstream.running.lost import Lost
from kvproof.upstream.running.scratch import scratch
from kvproof.upstream.targets.target import Target

START_SECONDS = 300.0
"""For an engine to start: 8 to 15 s as a rule."""
MODEL_SECONDS = 120.0
SEED = 7
ANSWER_TOKENS = 16
FAR: dict[str, object] = {"do_remote_decode": True, "do_remote_prefill": False}
"""What a router tells the producer's engine."""


class Found(msgspec.Struct, frozen=True):
    """What came out of one round.

    ``pulled`` and ``alone``: the consumer's tokens with the pulled cache, and without; None where it never got there.
    ``misses``: what is not as known, or where nothing is known, not as it should be.
    """

    scenario: Scenario
    round: Round
    outcome: Outcome
    seconds: float
    case: Case | None = None
    pulled: tuple[int, ...] | None = None
    alone: tuple[int, ...] | None = None
    known: bool = False
    misses: tuple[str, ...] = ()

    @property
    def agree(self) -> bool | None:
        """Whether the consumer said the same with the pulled cache as without."""
        return None if self.pulled is None or self.alone is None else self.pulled == self.alone

    @property
    def right(self) -> bool:
        """It is as it should be, whatever is known."""
        return not any(_wrong(self))

    @property
    def status(self) -> Exit:
        """What this means for the run."""
        if self.outcome.verdict == "fault":
            return Exit.FAULT
        if self.misses:
            return Exit.BROKEN
        return Exit.UNKNOWN if self.outcome.verdict in ("not-covered", "unknown") and not self.known else Exit.OK


def play(
    target: Target,
    scenarios: Sequence[Scenario],
    seconds: float,
    *,
    begins: Callable[[Scenario], None] | None = None,
    known: bool = False,
    probe: Path = PROBE,
) -> Generator[Found, None, None]:
    """Run scenarios, one after the other. ``seconds``: for one prompt. Close it: processes stand behind it.

    ``begins`` is told of each scenario before its engines are started, which takes a while. ``known``: the target is
    the one whose outcomes the scenarios know.
    """
    with scratch("kvproof-engines-") as folder:
        for scenario in scenarios:
            if begins is not None:
                begins(scenario)
            home = folder / scenario.name
            home.mkdir()
            with contextlib.ExitStack() as stack:
                for found in _played(_Pair(target, probe, scenario, home, seconds), stack):
                    yield found if found.misses else held_against(found, known)


def _played(pair: _Pair, stack: contextlib.ExitStack) -> Generator[Found, None, None]:
    scenario = pair.scenario
    began = monotonic()
    todo = list(scenario.rounds)
    try:
        pair.start(stack)
        while todo:
            found = pair.play(todo[0], len(scenario.rounds) - len(todo), began)
            todo.pop(0)
            yield found
            began = monotonic()
    except (Lost, Unserved) as error:
        for round_ in todo:
            outcome = _early(f"{scenario.name}-{round_.name}", error)
            yield Found(scenario, round_, outcome, monotonic() - began, misses=("it never came to a transfer",))
            began = monotonic()


class _Pair:
    """The two engines of a scenario."""

    producer: Engine
    consumer: Engine
    geometry: tuple[Started, Started]

    def __init__(self, target: Target, probe: Path, scenario: Scenario, folder: Path, seconds: float) -> None:
        self.target, self.probe, self.scenario = target, probe, scenario
        self.folder, self.seconds = folder, seconds

    def start(self, stack: contextlib.ExitStack) -> None:
        """Start both, and warm them up: block ids are then neither in order nor the same on both sides."""
        scenario = self.scenario
        model, cache = self.folder / "model", self.folder.parent / "cache"
        model.mkdir()
        config = LLAMA | scenario.config
        (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
        self.producer, self.consumer = (self._seated(side, stack) for side in ("producer", "consumer"))
        self.producer.do(AskModel(str(model), config, SEED), MODEL_SECONDS)
        asks = [
            AskStart(str(model), str(cache), free_port(), block, scenario.blocks, scenario.page_tokens)
            for block in (scenario.producer_block, scenario.consumer_block)
        ]
        self.geometry = self.producer.start(asks[0], START_SECONDS), self.consumer.start(asks[1], START_SECONDS)
        self._warm()

    def play(self, round_: Round, number: int, began: float) -> Found:
        """One round. Raises Lost, Unserved where nothing can be said of it."""
        prompt = prompt_of(round_.tokens, number)
        sent = self._say(self.producer, prompt[::-1] if round_.other else prompt, 1, FAR)
        if round_.cached_tokens:
            self._say(self.consumer, prompt[: round_.cached_tokens + 1])
        if round_.appended:
            prompt += sent.tokens
        pulled = self._say(self.consumer, prompt, transfer=sent.transfer)
        self.consumer.do(AskForget(), self.seconds)
        alone = self._say(self.consumer, prompt)
        self.consumer.do(AskForget(), self.seconds)
        name, case = f"{self.scenario.name}-{round_.name}", None
        try:
            case = live_case(name, (self.geometry[0], sent), (self.geometry[1], pulled))
            outcome = self._judged(case, sent, pulled)
        except Unread as error:
            outcome = Outcome(name, "not-covered", words=str(error), reason=str(error))
        return Found(self.scenario, round_, outcome, monotonic() - began, case, pulled.tokens, alone.tokens)

    def _seated(self, side: str, stack: contextlib.ExitStack) -> Engine:
        engine = Engine(self.target, self.folder / side, self.probe, litter=self.folder.parent)
        stack.callback(engine.close)
        return engine

    def _warm(self) -> None:
        """Use all blocks once, in bites of different sizes."""
        sides = ((self.producer, self.scenario.producer_block), (self.consumer, self.scenario.consumer_block))
        for start, (engine, block) in enumerate(sides):
            for number, tokens in enumerate(warm_lengths(block, self.scenario.blocks, start)):
                self._say(engine, prompt_of(tokens, 1000 + number), 1)

    def _say(
        self,
        engine: Engine,
        prompt: tuple[int, ...],
        tokens: int = ANSWER_TOKENS,
        transfer: dict[str, object] | None = None,
    ) -> Generated:
        return engine.generate(AskGenerate(prompt, tokens, transfer), self.seconds)

    def _judged(self, case: Case, sent: Generated, pulled: Generated) -> Outcome:
        for words in problems(case):
            return Outcome(case.name, "hazard", words=f"what the workers registered is not well-formed: {words}")
        for words in misheard(self.geometry[0], pulled.peer) if pulled.peer is not None else ():
            return Outcome(case.name, "hazard", words=words)
        reached = self.scenario.reached
        answer: Answer
        if pulled.failure is not None:
            failure = pulled.failure
            answer = RefusedBy("handshake", failure.error, failure.message, failure.place, reached)
        else:
            answer = observation((self.geometry[0], sent), (self.geometry[1], pulled), reached)
        return outcome_of(case, answer, self.folder)


def held_against(found: Found, known: bool) -> Found:
    """The same with its misses: against what is known of the release, or else against what should be."""
    misses = _unlike(found, found.round.verdict, found.round.agree) if known else _wrong(found)
    return msgspec.structs.replace(found, known=known, misses=tuple(misses))


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _early(case: str, error: Lost | Unserved) -> Outcome:
    """The outcome of a round that never came to a transfer."""
    if isinstance(error, Lost):
        return Outcome(case, error.kind, words=error.words, reason=error.words)
    answer = error.answer
    words = f"{answer.error}: {answer.message}"
    if isinstance(answer, ProbeFailed):
        return Outcome(case, "fault", words=words, reason=words, notes=(answer.traceback,))
    words = f"{words} ({answer.place[0]}:{answer.place[1]}, {answer.stage})"
    return Outcome(case, "refused" if isinstance(answer, RefusedBy) else "crashed", words=words, reason=words)


def _unlike(found: Found, verdict: str, agree: bool) -> Iterator[str]:
    """How it differs from what is known of the release."""
    if found.outcome.verdict != verdict:
        yield f"known to be {verdict}, but it is {found.outcome.verdict}"
    if found.agree is not agree:
        yield f"known to give {'the same' if agree else 'other'} tokens, but it does not"


def _wrong(found: Found) -> Iterator[str]:
    """What is not as it should be."""
    if found.outcome.verdict not in ("lawful", "wasteful", "not-covered", "unknown"):
        yield f"{found.outcome.verdict}: {found.outcome.words}"
    if found.agree is found.round.other:
        same = "the tokens are the same, with the cache of another prompt"
        yield same if found.round.other else "with the pulled cache the consumer says other tokens than without"
