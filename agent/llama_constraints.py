"""Constraints of a llama.cpp model: its vocabulary in the library's form, and the compiler over it."""

import logging
import weakref

from agent.constraint.compiler import ConstraintCompiler
from agent.constraint.matcher import ConstraintVocabulary
from agent.core.backend import ConstraintMatcher
from agent.core.statistics import CompilerStatistics
from agent.llama.tokenizer_form import build_tokenizer_form
from agent.llama.vocabulary import LlamaVocabulary, VocabularyLease
from shared.failures import Failure, FailureKind
from shared.messages_to_agent import ConstraintText

logger = logging.getLogger(__name__)

NOT_CONSTRAINABLE = "the vocabulary of this model cannot be used with constraints; use another model"


def open_constraint_vocabulary(vocabulary: LlamaVocabulary) -> ConstraintVocabulary:
    """Takes 0.5 s for 49,152 tokens, 3 to 6 s and 100 MB for 262,144; blocks. Raises ValueError for vocabularies that
    the library does not take.

    Holds a lease of its own, which ends with the last reference to the outcome: compiles that were left alone and
    matchers in requests go on using the vocabulary after its model was closed.
    """
    lease = vocabulary.lease()
    try:
        form = build_tokenizer_form(vocabulary)
        ends = tuple(sorted(vocabulary.end_of_generation_tokens))
        longest = max(len(form.decode_bytes([token])) for token in range(vocabulary.size))
    except BaseException:
        lease.release()
        raise
    return ConstraintVocabulary(form, vocabulary.size, ends, _HeldLease(lease), longest)


class LlamaConstraints:
    """Implements `ConstraintSource`. Without a compiler every constraint is refused, and free text is served."""

    def __init__(self, compiler: ConstraintCompiler | None) -> None:
        self.compiler = compiler

    def compile(self, constraint: ConstraintText) -> ConstraintMatcher | Failure:
        """A matcher of the caller's own, or why there is none. Blocks for a second at most."""
        if self.compiler is None:
            return Failure(FailureKind.GRAMMAR_INITIALIZATION, NOT_CONSTRAINABLE, "grammar")
        return self.compiler.compile(constraint)

    def statistics(self) -> CompilerStatistics:
        """What was compiled, also after `close`."""
        return CompilerStatistics() if self.compiler is None else self.compiler.statistics()

    def close(self) -> None:
        """Forget what was compiled, and the vocabulary with it. Idempotent."""
        if self.compiler is not None:
            self.compiler.close()


def open_constraints(vocabulary: LlamaVocabulary) -> LlamaConstraints:
    """Never fails: a vocabulary that cannot be constrained serves free text. Costs what its vocabulary does."""
    try:
        return LlamaConstraints(ConstraintCompiler(open_constraint_vocabulary(vocabulary)))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of the library is no Exception
        logger.exception("constraints cannot be had for %r", vocabulary)
        return LlamaConstraints(None)


class _HeldLease:
    """Gives the lease back when nobody refers to it any more."""

    def __init__(self, lease: VocabularyLease) -> None:
        finalizer = weakref.finalize(self, lease.release)
        finalizer.atexit = False  # a process that ends frees everything itself
