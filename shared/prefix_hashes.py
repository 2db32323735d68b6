"""Hashes of growing prefixes of a prompt, so that a balancer can one day send it where its prefix is cached.

Each hash covers everything up to the end of its block; equal hashes therefore mean equal prefixes. The hashes of
a text and of token ids never meet: they are salted with what they are.
"""

from hashlib import blake2b
from typing import Final

BLOCK_BYTES: Final = 1024
MAX_HASHES: Final = 64


def prefix_hashes(prompt: bytes, kind: str) -> tuple[int, ...]:
    """63-bit hashes of the first 1, 2, 3, ... whole blocks of `prompt`, at most 64 of them.

    `kind` says what the bytes are (`text` or `tokens`). A prompt shorter than one block has no hashes.
    """
    state = blake2b(digest_size=8, person=kind.encode()[:16])
    hashes = []
    for start in range(0, min(len(prompt) // BLOCK_BYTES, MAX_HASHES) * BLOCK_BYTES, BLOCK_BYTES):
        state.update(prompt[start : start + BLOCK_BYTES])
        hashes.append(int.from_bytes(state.copy().digest(), "little") >> 1)
    return tuple(hashes)
