"""The random number of a draw: a pure function of the request's seed and the token's index in the answer.

No generator state exists, so a draw is the same whether a sequence runs alone or batched, is set aside and evaluated
again, or continues on another agent.
"""

import hashlib
import struct

_WORD_MASK = 2**64 - 1
_PERSON = b"steersman draw"  # keeps these hashes apart from any other use of BLAKE2b on the same bytes
_MANTISSA_BITS = 53


def uniform_draw(seed: int, answer_index: int) -> float:
    """A number in [0, 1) for the token at `answer_index` (0-based) of the answer.

    Defined for every platform: the first 8 bytes, little-endian, of BLAKE2b (digest size 8, personalisation
    "steersman draw") over seed and index as little-endian 64-bit words; its upper 53 bits divided by 2**53. Both
    integers are taken modulo 2**64, so that signed and unsigned forms of a seed are the same seed.
    """
    message = struct.pack("<QQ", seed & _WORD_MASK, answer_index & _WORD_MASK)
    digest = hashlib.blake2b(message, digest_size=8, person=_PERSON).digest()
    word = int.from_bytes(digest, "little")
    return float(word >> (64 - _MANTISSA_BITS)) * 2.0**-_MANTISSA_BITS
