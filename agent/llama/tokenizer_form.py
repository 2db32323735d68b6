"""The form of a vocabulary that constraints work on: a trie of all tokens, and which of them end an answer."""

from llguidance import LLTokenizer
from llguidance.llamacpp import lltokenizer_from_vocab

from agent.llama.vocabulary import LlamaVocabulary

_PLAIN = r'[^"\\\x00-\x1F\x7F]'  # what a JSON string may hold without an escape, by the library's own reading
SLICES = (r"[\x20\x0A\x0D\x09]+", *(_PLAIN + count for count in ("{1,6}", "{1,10}", "{1,16}", "+")))
"""Tokens by what they hold: those of a slice that is possible as a whole are allowed without a look at each.

The library's own have 10 and 30 for 6, 10 and 16. In a string of at most 24 characters these take 0.06 ms for a mask of
262,144 tokens and the library's 1.1 ms: hardly any token is longer than 16. Each slice makes the form 0.1 s slower.
"""


SPARE_TOKENS = 33
"""Past the vocabulary, without a logit and without text. The first is the end for a model that has none; the others
stand in grammars for rules with options."""


def build_tokenizer_form(vocabulary: LlamaVocabulary) -> LLTokenizer:
    """The tokenizer form of `vocabulary`, immutable and usable from any thread.

    It keeps llama.cpp's pointer and tokenises through it: valid while a lease on the vocabulary is held. All tokens
    that end an answer are named to it, not only the vocabulary's EOS: the mask would keep the others (`<end_of_turn>`)
    from ever ending one. Takes 0.4 s for 49,152 tokens and some seconds for 262,144; blocks.
    """
    size = vocabulary.size
    # The library wants one at least.
    ends = sorted(vocabulary.end_of_generation_tokens, key=lambda token: (token != vocabulary.eos_token, token))
    padded_size = size + SPARE_TOKENS
    form = lltokenizer_from_vocab(vocabulary.pointer, n_vocab=padded_size, eos_token=ends or [size], slices=[])
    # In two parts: both keep other threads of Python waiting, 0.7 and 1.0 s for 262,144 tokens, 2.4 s in one.
    return form.with_slices(list(SLICES))
