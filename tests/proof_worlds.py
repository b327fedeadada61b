# SPDX-License-Identifier: Apache-2.0
"""Integer worlds for claims: neighbours of a claim's example, and transfers built from scratch."""

from collections.abc import Mapping

from hypothesis import strategies as st

from kvproof.proofs.source import Numbers, listed


@st.composite
def neighbours(draw: st.DrawFn, example: Numbers) -> Numbers:
    """The example with up to three numbers changed, by little or to something small."""
    integers = dict(example.integers)
    for name in draw(st.lists(st.sampled_from(sorted(integers)), max_size=3)):
        near = [integers[name] - 1, integers[name] + 1, 2 * integers[name]]
        integers[name] = max(0, draw(st.sampled_from([0, 1, 2, 3, *near])))
    return Numbers(integers, example.functions, example.default)


@st.composite
def transfers(draw: st.DrawFn) -> Numbers:
    """One layer on both sides and a rival layer behind the target's, well formed, of few tokens and pages."""
    small = st.integers(1, 3)
    states, tokens_per_state, unit_bytes, count = draw(small), draw(small), draw(small), draw(small)
    first, start, padding = draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.integers(0, 2))
    page_tokens, page_bytes = states * tokens_per_state, start + count * states * unit_bytes + padding
    cached = draw(st.integers(0, 3)) * page_tokens
    tokens = cached + draw(st.integers(1, 3 * page_tokens))
    numbers = {
        "page_bytes": page_bytes,
        "states_per_page": states,
        "tokens_per_state": tokens_per_state,
        "part.start": start,
        "part.first": first,
        "part.count": count,
        "part.unit_bytes": unit_bytes,
        "tokens": tokens,
        "window": draw(st.integers(1, 3 * page_tokens)),
        "retained": draw(st.integers(0, page_tokens)),
        "cell.unit": draw(st.integers(first, first + count - 1)),
        "cell.state": draw(st.integers(0, -(-tokens // tokens_per_state))),
        "ordinal": draw(st.integers(cached // page_tokens, -(-tokens // page_tokens) - 1)),
        "other": draw(st.integers(0, -(-tokens // page_tokens) + 1)),
        "index": draw(st.integers(0, unit_bytes - 1)),
        "target.null": draw(st.integers(0, 30)),
        "writer": draw(st.integers(0, 1)),
    }
    functions: dict[str, Mapping[tuple[int, ...], int]] = {}
    end = 0
    for name in ("source", "target", "rival"):
        pages_per_block = draw(small) if name != "rival" else numbers["target.pages_per_block"]
        stride = page_bytes + draw(st.integers(0, 2))
        listed_blocks = -(-tokens // (page_tokens * pages_per_block)) + draw(st.integers(0, 1))
        pool = listed_blocks + draw(st.integers(0, 3))
        offset = draw(st.integers(0, 3)) + (end if name == "rival" else 0)
        end = offset + pool * pages_per_block * stride
        functions[f"{name}.block"] = listed(tuple(draw(st.permutations(range(pool)))[:listed_blocks]))
        side = {
            "storage": 0 if name == "source" else 1,
            "offset": offset,
            "stride": stride,
            "blocks": pool,
            "pages_per_block": pages_per_block,
            "first": 0,
            "count": listed_blocks,
            "cached_tokens": cached,
            "storage_bytes": end,
            "base": draw(st.integers(0, 2**40)),
            "memory": 0,
        }
        numbers |= {f"{name}.{field}": value for field, value in side.items()}
    shape = ("page_bytes", "states_per_page", "tokens_per_state", "part.start", "part.first", "part.count")
    numbers |= {f"rival.{name}": numbers[name] for name in (*shape, "part.unit_bytes")}
    return Numbers(numbers, functions)
