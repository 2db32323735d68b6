"""The seed of each choice: a pure function of the request's seed and the choice's number among its prompt's. Pure."""

import hashlib
import struct
from typing import Final

_WORD_MASK: Final = 2**64 - 1
_PERSON: Final = b"steersm. choice"  # keeps these hashes apart from any other use of BLAKE2b


def choice_seed(seed: int, sample: int) -> int:
    """64 bits. The first choice has the request's own seed, so that `n` adds choices and changes none.

    The others have BLAKE2b (digest size 8) over seed and number as little-endian 64-bit words. Signed and unsigned
    forms of a seed are the same seed.
    """
    word = seed & _WORD_MASK
    if sample == 0:
        return word
    digest = hashlib.blake2b(struct.pack("<QQ", word, sample), digest_size=8, person=_PERSON).digest()
    return int.from_bytes(digest, "little")
