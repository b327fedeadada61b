# SPDX-License-Identifier: Apache-2.0
"""What is tried with two whole engines: how they are launched, which prompts they share, what is known to come out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from kvproof.upstream.judging.outcome import OutcomeVerdict
from kvproof.upstream.protocol import Reached

VOCABULARY = 512
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 256,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""A config small enough to compute at once, with several layers and fewer heads of keys than of queries."""

WINDOWED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 64}


class Round(msgspec.Struct, frozen=True):
    """One prompt: computed by the producer, pulled by the consumer, computed by the consumer alone; compared.

    ``cached_tokens``: the consumer has computed so much of it before. ``other``: it pulls what the producer computed
    for the same tokens in reverse order, so that its answer must be wrong if it reads what it pulled. ``appended``: it
    is given the producer's first token with the prompt, as some routers do. ``verdict`` and ``agree`` are what is
    known of release `serving.RELEASE`.
    """

    name: str
    tokens: int
    cached_tokens: int = 0
    other: bool = False
    appended: bool = False
    verdict: OutcomeVerdict = "lawful"
    agree: bool = True


class Scenario(msgspec.Struct, frozen=True):
    """Two engines and their rounds. Block sizes are tokens; ``page_tokens``: the only page that attention may offer."""

    name: str
    words: str
    producer_block: int
    consumer_block: int
    rounds: tuple[Round, ...]
    blocks: int = 24
    page_tokens: int | None = None
    config: dict[str, Any] = {}

    @property
    def reached(self) -> Reached:
        """How a user gets there."""
        flags = (f"P: --block-size {self.producer_block}", f"D: --block-size {self.consumer_block}")
        if self.page_tokens is None:
            return Reached("reachable", flags=flags)
        words = (
            f"CPU attention takes pages of any multiple of 32 tokens; here it is made to take {self.page_tokens} only"
        )
        return Reached("worker-level", (words,), flags)


SCENARIOS = (
    Scenario(
        "equal-blocks",
        "blocks of 32 tokens on both sides, a prompt that ends inside one",
        32,
        32,
        (
            Round("pull", 100),
            Round("cached-prefix", 150, cached_tokens=64),
            Round("wrong-prompt", 100, other=True, agree=False),
            Round("token-appended", 100, appended=True),
            Round("token-appended-in-a-new-block", 128, 96, appended=True, verdict="corrupt", agree=False),
        ),
    ),
    Scenario(
        "windows",
        "two layers with a window of 64 tokens, one without: two groups that share memory",
        32,
        32,
        (Round("pull", 150), Round("cached-prefix", 200, cached_tokens=96)),
        blocks=60,
        config=WINDOWED,
    ),
    Scenario(
        "padded-tail",
        "pages of 64 tokens, P's block 128, D's 64",
        128,
        64,
        (
            Round("no-padding", 256),
            Round("padding", 160, verdict="corrupt", agree=False),
        ),
        page_tokens=64,
    ),
    Scenario(
        "unequal-pages",
        "P's block and page 32 tokens, D's 64",
        32,
        64,
        (Round("pull", 100, verdict="not-covered", agree=False),),
    ),
)


MOST_WARM_TOKENS = 384


def warm_lengths(block_tokens: int, blocks: int, start: int) -> Iterator[int]:
    """Lengths of prompts that use all blocks once. Their blocks come back in other orders than they were taken in.

    All of them fill whole blocks: one that is not full is not kept for its prefix, and used again first of all.
    """
    used, number = 0, start
    while used < blocks:
        bite = min((3, 2, 1, 2)[number % 4], MOST_WARM_TOKENS // block_tokens)
        yield bite * block_tokens
        used += bite
        number += 1


def prompt_of(tokens: int, seed: int) -> tuple[int, ...]:
    """A prompt of so many tokens, the same for the same seed."""
    source = random.Random(seed)
    return tuple(source.randrange(3, VOCABULARY) for _ in range(tokens))
