"""From the bytes that tokens stand for to text that may be sent: whole characters only.

A token is a run of bytes, not of characters: an emoji may span four tokens, and a model may sample bytes that are no
UTF-8 at all. Text leaves in the order of its bytes; what cannot be decided yet stays inside.
"""

import codecs

_new_decoder = codecs.getincrementaldecoder("utf-8")


class TextAssembler:
    """Decodes the pieces of one answer as they are sampled.

    Rules: an emitted string never ends inside a character; bytes that can never complete one become U+FFFD, once per
    maximal subpart (Unicode 3.9, WHATWG; the same as `bytes.decode("utf-8", "replace")`), as soon as that is known.
    """

    def __init__(self) -> None:
        self._decoder = _new_decoder("replace")

    @property
    def pending_bytes(self) -> bytes:
        """The beginning of a character whose rest has not come yet; at most three bytes."""
        return self._decoder.getstate()[0]

    def push(self, piece: bytes) -> str:
        """Take the bytes of the next token; returns the text that is now certain, often empty."""
        text = self._decoder.decode(piece)
        if _begins_surrogate(self.pending_bytes):
            text += self._decoder.decode(b"", final=True)
        return text

    def flush(self) -> str:
        """End the answer: returns the text still held back; the assembler is empty afterwards.

        A character that the end of generation cut (an incomplete sequence that could still have been completed) is
        dropped: a client that asked for a limit gets whole characters, not a replacement mark.
        """
        self._decoder.reset()
        return ""


def _begins_surrogate(pending: bytes) -> bool:
    """Whether these are the first two bytes of an encoded surrogate (ED A0..BF), which UTF-8 does not have.

    Python's decoder waits for the third byte here, the only case where it holds back what can never complete.
    """
    return len(pending) == 2 and pending[0] == 0xED and pending[1] >= 0xA0
