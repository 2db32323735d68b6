"""The model runtime over llama.cpp: proves a state while another model serves, then loads it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from agent.core.drafting import DRAFT_TOKENS
from agent.core.swap_events import Problem, Proof, Proved
from agent.llama.adapters import load_adapters
from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.errors import ContextCannotBeCreated, ModelCannotBeLoaded, ModelLoadAborted
from agent.llama.extra_buffers import extra_buffers_work
from agent.llama.memory_need import available_memory_bytes, prefix_store_limit
from agent.llama.model import LlamaModel
from agent.llama.threads import on_a_passing_thread
from agent.llama.trial_process import TrialOrder, run_trial
from agent.llama.vocabulary import VocabularyLease, load_vocabulary
from agent.llama_constraints import LlamaConstraints, open_constraints
from agent.llama_loaded_model import EngineOutlet, EngineSize, LlamaLoadedModel, ModelParts
from agent.llama_problems import adapter_paths, notes_on, problem, problem_of, problem_of_file
from agent.model_files.adapters import check_adapters
from agent.model_files.errors import ModelFileError
from agent.model_files.source import FileProblem, ResolvedModel, SourceRefused, resolve
from agent.model_files.stamps import FileStamps, stamps_of
from agent.model_port import KeepLoading, LoadedModel, LoadGivenUpError
from agent.sampling.token_sampler import TokenSampler
from agent.swap_jobs import model_path_of
from shared.agent_status import IssueKind
from shared.chat_template_check import compile_fault
from shared.desired_state import AgentDesiredState

logger = logging.getLogger(__name__)

COMPUTED_WEIGHT_BYTES = 512 << 20
"""A model up to this size computes in its trial."""
TRIAL_SPARE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class _OpenedFile:
    """What a proof found and opened, and the load uses."""

    resolved: ResolvedModel
    vocabulary: VocabularyLease
    constraints: LlamaConstraints
    stamps: FileStamps

    def release(self) -> None:
        """Free what no model will use."""
        self.constraints.close()
        self.vocabulary.release()


@dataclass(frozen=True, slots=True)
class _LlamaProof:
    """None: no weights are to be loaded."""

    opened: _OpenedFile | None


class LlamaRuntime:
    """Implements `ModelRuntime`. One job at a time."""

    def __init__(
        self,
        slots: int,
        threads: int,
        outlet: EngineOutlet,
        clock: Callable[[], float],
        *,
        prefix_store_bytes: int | None = None,
        draft_tokens: int = DRAFT_TOKENS,
    ) -> None:
        """`prefix_store_bytes`: most host memory for idle prefixes; None: chosen by what is free at each load.
        `draft_tokens`: most guessed tokens in one step."""
        self._slots = slots
        self._draft_tokens = draft_tokens
        self._prefix_store_bytes = prefix_store_bytes
        self._threads = threads
        self._outlet = outlet
        self._clock = clock

    def prove(self, state: AgentDesiredState, keep_loading: KeepLoading, *, reload: bool) -> Proved | Problem:
        """Source, header, template, a trial in another process, vocabulary, its form for constraints. 1 to 2 s of one
        core and some tens of MB while another model serves (262,144 tokens: 5 s and 150 MB). The trial's process may
        die of what would end this one. Its weights are the file's own pages; of models above COMPUTED_WEIGHT_BYTES it
        touches none."""
        path = model_path_of(state)
        override = state.chat_template_override
        if override is not None and (fault := compile_fault(override.content)) is not None:
            sentence = f"the chat template override does not compile: {fault}"
            return problem(IssueKind.CHAT_TEMPLATE_DOES_NOT_COMPILE, path, sentence, may_pass=False)
        resolved = resolve(state.model)
        if isinstance(resolved, ResolvedModel):
            notes = notes_on(state, path, resolved.header.chat_template)
            if not reload:
                return Proved(_LlamaProof(None), notes)
            try:
                check_adapters(adapter_paths(state), resolved.header)
                return Proved(_LlamaProof(_try_and_open(resolved, state, keep_loading)), notes)
            except ModelFileError as error:
                return problem_of_file(error, error.path)
            except (ModelCannotBeLoaded, ModelLoadAborted, ContextCannotBeCreated) as error:
                return problem_of(error, state)
        if not reload:
            # The file went away under the model that serves, and that goes on serving from memory.
            return Proved(_LlamaProof(None), notes_on(state, path, None))
        if isinstance(resolved, SourceRefused):
            return problem(IssueKind.MODEL_CANNOT_BE_LOADED, path, resolved.sentence, may_pass=False)
        if isinstance(resolved, FileProblem):
            return problem_of_file(resolved.error, path)
        raise ValueError("a state without a model needs no proof")

    def load(self, state: AgentDesiredState, proof: Proof, keep_loading: KeepLoading) -> LoadedModel | Problem:
        """Weights, context, warm-up, engine. Frees the vocabulary when any of it fails."""
        assert isinstance(proof, _LlamaProof)
        opened = proof.opened
        assert opened is not None
        if stamps_of(_files(opened.resolved, state)) != opened.stamps:
            # Requests were let finish after the proof, which can take minutes: this is another file, as yet untried.
            self.drop_proof(proof)
            outcome = self.prove(state, keep_loading, reload=True)
            return outcome if isinstance(outcome, Problem) else self.load(state, outcome.proof, keep_loading)
        try:
            return on_a_passing_thread(lambda: self._load(state, opened, keep_loading))
        except (ModelCannotBeLoaded, ModelLoadAborted, ContextCannotBeCreated) as error:
            opened.release()
            return problem_of(error, state)
        except BaseException:
            opened.release()
            raise

    def drop_proof(self, proof: Proof) -> None:
        """Free the vocabulary that the proof holds."""
        if isinstance(proof, _LlamaProof) and proof.opened is not None:
            proof.opened.release()

    def _load(self, state: AgentDesiredState, opened: _OpenedFile, keep_loading: KeepLoading) -> LlamaLoadedModel:
        parameters = state.inference_parameters

        def on_progress(fraction: float) -> bool:
            self._outlet.load_progress(fraction)
            return keep_loading()

        # Not mapped: a file that is truncated or rewritten in place (`cp`, `rsync --inplace`) would end the process
        # with SIGBUS at the next decode, or change the weights under running requests.
        model = LlamaModel.load(
            opened.resolved.path,
            gpu_layers=parameters.n_gpu_layers,
            on_progress=on_progress,
            use_mmap=False,
        )
        try:
            adapters = load_adapters(model, adapter_paths(state))
            context = LlamaContext(
                model,
                ContextParameters(
                    slots=self._slots,
                    context_size=parameters.context_size,
                    n_batch=parameters.n_batch,
                    k_cache_dtype=parameters.k_cache_dtype.value,
                    v_cache_dtype=parameters.v_cache_dtype.value,
                    threads=self._threads,
                ),
            )
            backend = LlamaBackend(
                context, lambda sampling, seed: TokenSampler(sampling, seed, model.vocabulary_size), adapters
            )
        except BaseException:
            model.close()
            raise
        try:
            backend.warm_up()
            parts = ModelParts(
                opened.resolved, model, backend, opened.vocabulary, opened.constraints, frozenset(adapters)
            )
            store_bytes = prefix_store_limit(self._prefix_store_bytes, available_memory_bytes())
            size = EngineSize(self._slots, store_bytes, self._draft_tokens)
            return LlamaLoadedModel.start(parts, size, self._outlet, self._clock)
        except BaseException:
            backend.close()
            model.close()
            raise


def _try_and_open(resolved: ResolvedModel, state: AgentDesiredState, keep_loading: KeepLoading) -> _OpenedFile:
    """Only what another process came through is opened by this one."""
    stamps = stamps_of(_files(resolved, state))
    weight_bytes = sum(size for size, *_ in stamps)
    parameters = state.inference_parameters
    order = TrialOrder(
        resolved.path,
        computes=_may_compute(weight_bytes),
        extra_buffers=extra_buffers_work(),
        context_size=parameters.context_size,
        n_batch=parameters.n_batch,
        k_cache_dtype=parameters.k_cache_dtype.value,
        v_cache_dtype=parameters.v_cache_dtype.value,
        adapters=adapter_paths(state),
    )
    run_trial(order, keep_loading, weight_bytes)
    vocabulary = load_vocabulary(resolved.path)
    try:
        if not keep_loading():
            raise LoadGivenUpError
        return _OpenedFile(resolved, vocabulary, open_constraints(vocabulary.vocabulary), stamps)
    except BaseException:
        vocabulary.release()
        raise


def _may_compute(weight_bytes: int) -> bool:
    """Some quantisations are copied into a faster order: in a trial too, beside the model that serves."""
    available = available_memory_bytes()
    fits = available is None or 2 * weight_bytes + TRIAL_SPARE_BYTES <= available
    return weight_bytes <= COMPUTED_WEIGHT_BYTES and fits


def _files(resolved: ResolvedModel, state: AgentDesiredState) -> tuple[str, ...]:
    return (*resolved.parts, *adapter_paths(state).values())
