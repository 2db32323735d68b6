"""The scheduler on a tiny F32 model: contexts, runs of requests in them, and how far their logits lie apart."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import llama_cpp
import numpy as np
import numpy.typing as npt

from agent.core.commands import Submit
from agent.core.events import MemberEnded
from agent.core.scheduler import Scheduler, SchedulerSettings
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.model import LlamaModel
from agent.llama.vocabulary import LlamaVocabulary, load_vocabulary
from shared.generation import FinishReason, SamplingParameters
from tests.support.tiny_model import EOS_TOKEN

ANSWER_TOKENS = 12

Row = npt.NDArray[np.float32]


@dataclass(slots=True)
class RecordingSampler:
    """Keeps each row of logits; draws the likeliest token, or the given ones in order."""

    given: Sequence[int] = ()
    rows: list[Row] = field(default_factory=list)

    def observe(self, tokens: Sequence[int]) -> None:
        pass

    def use_temperature(self, temperature: float | None) -> None:
        """As it is: what it draws depends on no temperature."""

    def sure_token(self, logits: Row) -> int | None:
        return None

    def forbid(self, logits: Row, tokens: Collection[int]) -> None:
        logits[list(tokens)] = -np.inf

    def sample(self, logits: Row, answer_index: int) -> int | None:
        self.rows.append(logits.copy())
        if self.given:
            return self.given[answer_index]
        logits[EOS_TOKEN] = -np.inf  # so that every answer is as long as asked for
        return int(logits.argmax())


@dataclass(slots=True)
class ColdRun:
    """What a prompt gives in a context of its own."""

    prompt: list[int]
    answer: list[int]
    rows: list[Row]


class ExactParameters(ContextParameters):
    """Everything in 32 bits, attention included."""

    def to_llama(self) -> llama_cpp.llama_context_params:
        parameters = super().to_llama()
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        return parameters


class Laboratory:
    """The tiny model, contexts on it, and runs of requests in them."""

    def __init__(self, path: Path) -> None:
        self.model = LlamaModel.load(str(path))
        self._lease = load_vocabulary(str(path))
        self.vocabulary: LlamaVocabulary = self._lease.vocabulary
        self._samplers: Iterator[RecordingSampler] = iter(())

    def use_samplers(self, *samplers: RecordingSampler) -> None:
        """For the next members, in their order."""
        self._samplers = iter(samplers)

    def backend(self, *, cells: int = 1024, batch: int = 64, slots: int = 6) -> LlamaBackend:
        parameters = ExactParameters(
            slots=slots,
            context_size=cells,
            n_batch=batch,
            k_cache_dtype="F32",
            v_cache_dtype="F32",
        )
        return LlamaBackend(LlamaContext(self.model, parameters), lambda *_: next(self._samplers))

    def scheduler(
        self, backend: LlamaBackend, *, slots: int = 6, chunk: int = 32, store_bytes: int = 0, draft_tokens: int = 0
    ) -> Scheduler:
        settings = SchedulerSettings(slots, chunk, chunk, store_bytes, draft_tokens)
        return Scheduler(backend, self.vocabulary, settings)

    def cold(self, prompt: list[int], answer_tokens: int = ANSWER_TOKENS) -> ColdRun:
        backend = self.backend()
        try:
            sampler = RecordingSampler()
            (answer,) = self.run(backend, self.scheduler(backend), [(prompt, answer_tokens)], [sampler])
            return ColdRun(prompt, answer, sampler.rows)
        finally:
            backend.close()

    def run(
        self,
        backend: LlamaBackend,
        scheduler: Scheduler,
        requests: list[tuple[list[int], int]],
        samplers: list[RecordingSampler],
    ) -> list[list[int]]:
        """Submit all at once and step until all have ended; the answers in the order of the requests."""
        self._samplers = iter(samplers)
        tokens: dict[object, list[int]] = {key: [] for key in range(len(requests))}
        for key, (prompt, answer_tokens) in enumerate(requests):
            scheduler.handle(Submit(key, tuple(prompt), answer_tokens, SamplingParameters(), 1, key))
        while (plan := scheduler.plan_next_batch()) is not None:
            scheduler.commit(plan, backend.decode(plan), backend.logits)
            scheduler.check_invariants()
            backend.clear_abort()
            for event in scheduler.take_events():
                if isinstance(event, MemberEnded):
                    assert event.finish_reason is FinishReason.LENGTH, event.failure
                else:
                    tokens[event.key] += getattr(event, "token_ids", ())
        return list(tokens.values())

    def difference(self, backend: LlamaBackend, scheduler: Scheduler, runs: list[ColdRun]) -> float:
        """Run them all together on the cold runs' tokens; the largest difference of any logit."""
        samplers = [RecordingSampler(run.answer) for run in runs]
        self.run(backend, scheduler, [(run.prompt, len(run.answer)) for run in runs], samplers)
        return max(
            float(np.abs(np.stack(sampler.rows) - np.stack(run.rows)).max())
            for sampler, run in zip(samplers, runs, strict=True)
        )

    def close(self) -> None:
        self.model.close()
        self._lease.release()
