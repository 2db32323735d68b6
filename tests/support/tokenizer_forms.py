"""Real vocabularies without their weights, for tests of constraints. Each is opened once and kept for the process."""

import functools
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from llguidance import LLTokenizer

from agent.llama.tokenizer_form import build_tokenizer_form
from agent.llama.vocabulary import LlamaVocabulary, VocabularyLease, load_vocabulary
from tests.support.tiny_model import demo_model_path, large_vocabulary_model_path


@dataclass(frozen=True, slots=True)
class OpenVocabulary:
    """A vocabulary under a lease that is never given back, and its tokenizer form."""

    lease: VocabularyLease
    form: LLTokenizer

    @property
    def vocabulary(self) -> LlamaVocabulary:
        """The vocabulary itself."""
        return self.lease.vocabulary

    def text_of(self, tokens: list[int]) -> str:
        """What the tokens say. Raises UnicodeDecodeError when that is not UTF-8."""
        return b"".join(self.vocabulary.token_piece(token) for token in tokens).decode("utf-8")


@functools.cache
def demo_vocabulary() -> OpenVocabulary:
    """SmolLM2's 49,152 tokens, in half a second."""
    return _open(demo_model_path())


@functools.cache
def large_vocabulary() -> OpenVocabulary:
    """Gemma 3's 262,144 tokens, in four seconds and more: for benchmarks and long tests only."""
    folder = Path(gettempdir()) / "steersman-test-models"
    folder.mkdir(exist_ok=True)
    return _open(large_vocabulary_model_path(folder))


def _open(path: Path) -> OpenVocabulary:
    lease = load_vocabulary(str(path))
    return OpenVocabulary(lease, build_tokenizer_form(lease.vocabulary))
