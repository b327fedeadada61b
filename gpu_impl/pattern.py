# SPDX-License-Identifier: Apache-2.0
"""What fills the memory before a transfer: bytes that tell from where they come.

Every aligned 8-byte word names its storage (16 bits) and its index there (40 bits), mixed so that neighbours look
unrelated, seven bits a byte with the top bit set. So no byte is ever zero, any aligned word can be traced back, and a
byte in the wrong place agrees by chance once in 128. Any process can compute any stretch of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

WORD_BYTES = 8
STORAGE_LIMIT = 2**16
INDEX_BITS = 40
_BITS = 56
_MASK = np.uint64(2**_BITS - 1)
_FACTORS = (0x9E3779B97F4A7D, 0xC2B2AE3D27D4EB)
_INVERSES = tuple(pow(factor, -1, 2**_BITS) for factor in _FACTORS)
_SEED_FACTOR = 0xD6E8FEB86659FD
_CHUNK_WORDS = 2**15
_TOP_BITS = np.uint64(0x8080808080808080)


def fill(out: Bytes, number: int, seed: int = 0, start: int = 0) -> None:
    """Write the pattern of storage ``number``, from byte ``start`` of that storage on, into ``out``."""
    end = start + len(out)
    for low in range(start // WORD_BYTES, -(-end // WORD_BYTES), _CHUNK_WORDS):
        high = min(low + _CHUNK_WORDS, -(-end // WORD_BYTES))
        octets = _encode(np.arange(low, high, dtype=np.uint64), number, seed).view(np.uint8)
        first, last = max(low * WORD_BYTES, start), min(high * WORD_BYTES, end)
        out[first - start : last - start] = octets[first - low * WORD_BYTES : last - low * WORD_BYTES]


def stretch(number: int, start: int, count: int, seed: int = 0) -> Bytes:
    """``count`` bytes of storage ``number``'s pattern, from byte ``start`` on."""
    out = np.empty(count, dtype=np.uint8)
    fill(out, number, seed, start)
    return out


def trace(found: Bytes, sizes: Mapping[int, int], seed: int = 0) -> tuple[int, int] | None:
    """The storage number and byte offset that these bytes come from, or None.

    ``sizes`` holds the bytes of the storages to consider. At least one whole word of the pattern must be in ``found``
    (15 bytes always hold one). Where the bytes come from several places, the answer is about the first.
    """
    for shift in range(min(WORD_BYTES, len(found) - WORD_BYTES + 1)):
        word = int.from_bytes(found[shift : shift + WORD_BYTES].tobytes(), "little")
        number, index = _decode(word, seed)
        offset = index * WORD_BYTES - shift
        if number in sizes and 0 <= offset and offset + shift + WORD_BYTES <= sizes[number]:
            head = stretch(number, offset, shift + WORD_BYTES, seed)
            if np.array_equal(head, found[: len(head)]):
                return number, offset
    return None


def _encode(index: Words, number: int, seed: int) -> Words:
    value = index | np.uint64(number << INDEX_BITS)
    value ^= np.uint64(seed * _SEED_FACTOR % 2**_BITS)
    half = np.uint64(_BITS // 2)
    for factor in _FACTORS:
        value *= np.uint64(factor)
        value &= _MASK
        value ^= value >> half
    # Spread seven groups of seven bits over the bytes, halves first.
    for low, high, shift in (
        (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x007F007F007F007F, 0x3F803F803F803F80, 1),
    ):
        upper = value & np.uint64(high)
        value &= np.uint64(low)
        upper <<= np.uint64(shift)
        value |= upper
    value |= _TOP_BITS
    return value.astype("<u8", copy=False)


def _decode(word: int, seed: int) -> tuple[int, int]:
    """Storage number and word index of one word; nonsense for a word that is not of the pattern."""
    value = sum((word >> 8 * place & 0x7F) << 7 * place for place in range(WORD_BYTES))
    for inverse in reversed(_INVERSES):
        value ^= value >> _BITS // 2
        value = value * inverse % 2**_BITS
    value ^= seed * _SEED_FACTOR % 2**_BITS
    return value >> INDEX_BITS, value & (2**INDEX_BITS - 1)
