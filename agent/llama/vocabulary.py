"""Text to tokens and back: a vocabulary of its own, apart from the weights.

The handle is a `vocab_only` model (a few tens of MB), so that requests in flight and compiled grammars can go on
using it while the weights are exchanged. Who needs it holds a lease; the last lease to end frees it.

llama.cpp's vocabulary is constant after loading: any number of threads may tokenise at once (ctypes releases the GIL).
"""

import ctypes
import functools
import threading
from types import TracebackType
from typing import Self

import llama_cpp

from agent.llama.errors import ModelCannotBeLoaded
from agent.llama.library import collected_errors, initialise_library, reason

MAX_TEXT_BYTES = 64 << 20
_NO_TOKEN = -1  # LLAMA_TOKEN_NULL
_WORDPIECE = 3  # LLAMA_VOCAB_TYPE_WPM


class LlamaVocabulary:
    """The `Vocabulary` port over one `vocab_only` model. Made by `load_vocabulary`; valid while a lease is held."""

    def __init__(self, model: int, path: str) -> None:
        self._model: int | None = model
        self._vocabulary: int | None = llama_cpp.llama_model_get_vocab(model)
        self._lock = threading.Lock()
        self._leases = 0
        self._pieces: dict[int, bytes] = {}
        self.path = path
        vocabulary = self.pointer
        self._size = int(llama_cpp.llama_vocab_n_tokens(vocabulary))
        self._bos = self._special(llama_cpp.llama_vocab_bos(vocabulary))
        self._eos = self._special(llama_cpp.llama_vocab_eos(vocabulary))
        self._adds_bos = bool(llama_cpp.llama_vocab_get_add_bos(vocabulary)) and self._bos is not None
        self._can_add_special = self._find_whether_special_can_be_added()

    def __repr__(self) -> str:
        return f"<LlamaVocabulary {self._size} tokens, {self._leases} leases>"

    # Leases

    def lease(self) -> "VocabularyLease":
        """One more holder. Raises RuntimeError when the last lease has ended already."""
        with self._lock:
            if self._model is None:
                raise RuntimeError("the vocabulary was freed")
            self._leases += 1
        return VocabularyLease(self)

    def _end_lease(self) -> None:
        with self._lock:
            self._leases -= 1
            if self._leases > 0:
                return
            model, self._model, self._vocabulary = self._model, None, None
        if model is not None:
            llama_cpp.llama_model_free(model)

    @property
    def pointer(self) -> int:
        """The llama_vocab, for libraries that take one. Raises RuntimeError after the last lease."""
        if self._vocabulary is None:
            raise RuntimeError("the vocabulary was freed")
        return self._vocabulary

    # Questions about tokens

    @property
    def size(self) -> int:
        """Number of tokens; ids are 0 to size - 1."""
        return self._size

    @property
    def adds_bos(self) -> bool:
        """Whether the model's metadata asks for a BOS token in front of each prompt (and names one)."""
        return self._adds_bos

    @property
    def bos_token(self) -> int | None:
        """The token that begins a text; None when the model has none."""
        return self._bos

    @property
    def eos_token(self) -> int | None:
        """The token that ends a text; None when the model has none."""
        return self._eos

    def token_text(self, token: int) -> str:
        """The token as the vocabulary spells it, control tokens included: what templates call `bos_token`."""
        text = llama_cpp.llama_vocab_get_text(self.pointer, self._checked(token))
        return (text or b"").decode("utf-8", errors="replace")

    def token_piece(self, token: int) -> bytes:
        """The bytes the token stands for; empty for control tokens. Raises ValueError outside the vocabulary."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._read_piece(self._checked(token))
        return piece

    def is_end_of_generation(self, token: int) -> bool:
        """Whether sampling this token ends the answer. Raises ValueError outside the vocabulary."""
        return bool(llama_cpp.llama_vocab_is_eog(self.pointer, self._checked(token)))

    @functools.cached_property
    def end_of_generation_tokens(self) -> frozenset[int]:
        """All tokens that end an answer. The first use asks for each token: some 0.1 s for 262,144."""
        is_end = llama_cpp.llama_vocab_is_eog
        pointer = self.pointer
        return frozenset(token for token in range(self._size) if is_end(pointer, token))

    # Text to tokens

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of `text`.

        add_special: add what the metadata asks for (BOS, rarely EOS). parse_special: read `<|im_start|>` and the
        like as control tokens, not as text. Raises ValueError for lone surrogates and for texts over 64 MiB.
        """
        data = text.encode("utf-8")
        if len(data) > MAX_TEXT_BYTES:
            raise ValueError(f"text of {len(data)} bytes; {MAX_TEXT_BYTES} can be tokenised")
        add_special = add_special and self._can_add_special
        # Two passes: a guess that ordinary text fits in, then what llama.cpp says it needs (a negative count).
        capacity = len(data) // 2 + 16
        for _ in range(2):
            tokens = (llama_cpp.llama_token * capacity)()
            count = llama_cpp.llama_tokenize(
                self.pointer, data, len(data), tokens, capacity, add_special, parse_special
            )
            if count >= 0:
                return list(tokens[:count])
            capacity = -count
        raise ValueError("the text cannot be tokenised")

    # Private

    def _checked(self, token: int) -> int:
        """llama.cpp throws through C on an id outside the vocabulary, which ends the process."""
        if not 0 <= token < self._size:
            raise ValueError(f"token {token} is not in the vocabulary of {self._size}")
        return token

    def _special(self, token: int) -> int | None:
        return token if 0 <= token < self._size else None

    def _read_piece(self, token: int) -> bytes:
        capacity = 64
        for _ in range(2):
            buffer = ctypes.create_string_buffer(capacity)
            length = llama_cpp.llama_token_to_piece(self.pointer, token, buffer, capacity, 0, False)
            if length >= 0:
                return buffer.raw[:length]
            capacity = -length
        raise ValueError(f"token {token} has no text")

    def _find_whether_special_can_be_added(self) -> bool:
        """False where `add_special` would run into an assertion: metadata that wants a token it does not name."""
        vocabulary = self.pointer
        has_bos, has_eos = self._bos is not None, self._eos is not None
        has_separator = self._special(llama_cpp.llama_vocab_sep(vocabulary)) is not None
        if llama_cpp.llama_vocab_type(vocabulary) == _WORDPIECE and not (has_bos and has_separator):
            return False
        if llama_cpp.llama_vocab_get_add_bos(vocabulary) and not has_bos:
            return False
        return has_eos or not llama_cpp.llama_vocab_get_add_eos(vocabulary)


class VocabularyLease:
    """One holder's right to use the vocabulary. A context manager; `release` is idempotent."""

    def __init__(self, vocabulary: LlamaVocabulary) -> None:
        self._vocabulary: LlamaVocabulary | None = vocabulary
        self._lock = threading.Lock()

    @property
    def vocabulary(self) -> LlamaVocabulary:
        """The vocabulary. Raises RuntimeError after `release`."""
        if self._vocabulary is None:
            raise RuntimeError("the lease has ended")
        return self._vocabulary

    def release(self) -> None:
        """Give the lease back."""
        with self._lock:
            vocabulary, self._vocabulary = self._vocabulary, None
        if vocabulary is not None:
            vocabulary._end_lease()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def load_vocabulary(path: str) -> VocabularyLease:
    """Load the vocabulary of a model file and hold the first lease on it.

    The header must have been read before, and the file tried in another process (`trial_process`): a broken one may
    abort the process. Takes 0.1 to 0.5 s; blocks.
    Raises ModelCannotBeLoaded with llama.cpp's reason.
    """
    if "\0" in path:
        raise ModelCannotBeLoaded("the path holds a NUL character")
    initialise_library()
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    with collected_errors() as errors:
        model = llama_cpp.llama_model_load_from_file(path.encode("utf-8", errors="surrogateescape"), parameters)
    if not model:
        raise ModelCannotBeLoaded(f"{path}: {reason(errors)}")
    try:
        require_tokenizer(model, path)
    except ModelCannotBeLoaded:
        llama_cpp.llama_model_free(model)
        raise
    return LlamaVocabulary(model, path).lease()


def require_tokenizer(model: int, path: str) -> None:
    """Raises ModelCannotBeLoaded when the model has no tokenizer: llama.cpp would abort at the first text."""
    if llama_cpp.llama_vocab_type(llama_cpp.llama_model_get_vocab(model)) == llama_cpp.LLAMA_VOCAB_TYPE_NONE:
        raise ModelCannotBeLoaded(f"{path}: this model has no vocabulary")
