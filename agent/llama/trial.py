"""Tries a model in a process of its own: on some files llama.cpp does not fail, it ends the process.

`python -m agent.llama.trial ORDER`, started by `trial_process.run_trial`. Ends with 0 when the file did all that is
asked of a model; else the last line written says why. Run by hand: TrialOrder(...).to_text() is the argument.

What is tried is what would follow in the agent: the vocabulary is loaded and reads a text, every tensor is matched with
the architecture, a context is made, and its graph is built. A file that is small enough (`computes`) has its weights
mapped, its pages shared with the agent's, and evaluates a few rows as well: that also shows a llama.cpp that was
compiled for another processor. Of a larger one the weights are only simulated, so that two models are never in memory.

Not seen here: faults of accelerators, which are left alone, and what only shows when large weights are computed with.
"""

import ctypes
import os
import signal
import sys

from agent.core.backend import BatchPlan, DecodeOutcome, PlannedRun, Sampler
from agent.llama.adapters import load_adapters, title
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.errors import ContextCannotBeCreated, ModelCannotBeLoaded
from agent.llama.model import LlamaModel
from agent.llama.trial_process import CONTEXT_REFUSED, MODEL_REFUSED, TrialOrder
from agent.llama.vocabulary import LlamaVocabulary, require_tokenizer
from shared.generation import SamplingParameters

CELLS = 256  # llama.cpp makes no smaller context
ROWS = 8  # more than one: matrix products of several rows take other paths
_PLANES = [0x1000 * index for index in (*range(1, 0xD), 0xE, 0xF)] + [0x10000 * index for index in range(1, 0x11)]
TEXT = "Once upon 12 times,\n" + "".join(map(chr, (*range(0x800), *_PLANES))) + "<s><|im_start|>"
"""Every byte that UTF-8 text can hold: llama.cpp ends the process at one that the vocabulary has no token for."""

_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(arguments: list[str]) -> int:
    """The exit status."""
    order = TrialOrder.from_text(arguments[0])
    if not _dies_with(order.parent):
        return MODEL_REFUSED
    try:
        _try(order)
    except ModelCannotBeLoaded as error:
        return _refuse(error, MODEL_REFUSED)
    except ContextCannotBeCreated as error:
        return _refuse(error, CONTEXT_REFUSED)
    return 0


def _dies_with(parent: int) -> bool:
    """Have the kernel kill this process when the one that wants to know has ended; False when it has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _try(order: TrialOrder) -> None:
    model = LlamaModel.load(order.path, extra_buffers=order.extra_buffers, simulate=not order.computes)
    try:
        require_tokenizer(model.pointer, order.path)
        tokens = _read_a_text(LlamaVocabulary(model.pointer, order.path))
        adapters = load_adapters(model, order.adapters)
        context = LlamaContext(
            model,
            ContextParameters(
                slots=1,
                context_size=min(order.context_size or CELLS, CELLS),
                n_batch=min(order.n_batch, CELLS),
                k_cache_dtype=order.k_cache_dtype,
                v_cache_dtype=order.v_cache_dtype,
            ),
        )
        try:
            if order.computes:
                backend = LlamaBackend(context, _no_sampler, adapters)
                for adapter in (None, *adapters):
                    _evaluate(backend, tokens, order.path, adapter)
        finally:
            context.close()
    finally:
        model.close()


def _read_a_text(vocabulary: LlamaVocabulary) -> list[int]:
    tokens = vocabulary.tokenize(TEXT, add_special=True, parse_special=True)
    for token in tokens:
        vocabulary.token_piece(token)
    return tokens


def _evaluate(backend: LlamaBackend, tokens: list[int], path: str, adapter: str | None) -> None:
    """A prompt of several rows, then one row more, as an answer would have it."""
    backend.clear()
    limits = backend.limits
    prompt = tuple((tokens * ROWS or [0])[: min(ROWS, limits.batch_tokens, limits.request_limit_tokens)])
    for run in (PlannedRun(0, prompt, 0, wants_logits=True), PlannedRun(0, prompt[:1], len(prompt), wants_logits=True)):
        if backend.decode(BatchPlan((run,), adapter)) is DecodeOutcome.FATAL:
            beside = "" if adapter is None else f" with the {title(adapter)}"
            raise ModelCannotBeLoaded(f"{path}: llama.cpp cannot evaluate this model{beside}")


def _no_sampler(parameters: SamplingParameters, seed: int) -> Sampler:
    raise NotImplementedError("nothing is sampled in a trial")


def _refuse(error: Exception, status: int) -> int:
    sys.stderr.write(" ".join(str(error).split()) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
