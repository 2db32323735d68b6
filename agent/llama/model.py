"""Weights in memory: loaded, asked about, freed."""

import ctypes
from collections.abc import Callable

import llama_cpp

from agent.llama.errors import ModelCannotBeLoaded, ModelLoadAborted
from agent.llama.extra_buffers import extra_buffers_work
from agent.llama.library import collected_errors, initialise_library, reason

ALL_LAYERS = -1
_TOLD_BYTES = 64

Progress = Callable[[float], bool]
"""Called by the loading thread with 0.0 to 1.0; False gives the load up."""


class LlamaModel:
    """One model with its weights. Contexts must be closed before it is: a decode on freed weights is a segfault."""

    def __init__(self, pointer: int, path: str, *, uses_gpu: bool = False) -> None:
        self._pointer: int | None = pointer
        self.path = path
        self.uses_gpu = uses_gpu
        model = self.pointer
        self.training_context_tokens = int(llama_cpp.llama_model_n_ctx_train(model))
        self.vocabulary_size = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)))
        self.layers = int(llama_cpp.llama_model_n_layer(model))
        self.weight_bytes = int(llama_cpp.llama_model_size(model))
        self.sliding_window_tokens = int(llama_cpp.llama_model_n_swa(model))  # 0: every layer sees everything
        self.is_recurrent = bool(llama_cpp.llama_model_is_recurrent(model))
        self.is_hybrid = bool(llama_cpp.llama_model_is_hybrid(model))

    @classmethod
    def load(
        cls,
        path: str,
        *,
        gpu_layers: int = 0,
        on_progress: Progress | None = None,
        use_mmap: bool = True,
        extra_buffers: bool | None = None,
        simulate: bool = False,
    ) -> "LlamaModel":
        """Load the weights. The header must have been read before, and where a process would be missed the file must
        have been tried in another one (`trial_process`): a broken file may abort the process.

        extra_buffers: repack weights for the processor; None: where that works, which is found out once per process.
        simulate: match the tensors with the architecture, but take no memory for them; contexts can be made of such
        a model, and nothing can be evaluated.
        Raises ModelCannotBeLoaded with llama.cpp's reason, ModelLoadAborted, or what `on_progress` raised.
        """
        initialise_library()
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = gpu_layers if gpu_layers >= 0 else ALL_LAYERS
        parameters.use_extra_bufts = extra_buffers_work() if extra_buffers is None else extra_buffers
        progress = _ProgressCallback(on_progress)
        parameters.progress_callback = progress.pointer
        parameters.no_alloc = simulate
        if simulate or not use_mmap:
            parameters.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
        with collected_errors() as errors:
            pointer = llama_cpp.llama_model_load_from_file(_as_file_name(path), parameters)
        progress.raise_if_given_up(path)
        if not pointer:
            raise ModelCannotBeLoaded(f"{path}: {reason(errors)}")
        model = cls(pointer, path, uses_gpu=gpu_layers != 0 and llama_cpp.llama_supports_gpu_offload())
        if not model.can_generate:
            model.close()
            raise ModelCannotBeLoaded(f"{path}: this is not a model that continues text")
        return model

    @property
    def pointer(self) -> int:
        """The llama_model. Raises RuntimeError after `close`."""
        if self._pointer is None:
            raise RuntimeError("the model was closed")
        return self._pointer

    @property
    def can_generate(self) -> bool:
        """Whether it is a decoder with a vocabulary: others (encoders, projectors) would abort in a decode."""
        model = self.pointer
        return (
            bool(llama_cpp.llama_model_has_decoder(model))
            and not llama_cpp.llama_model_has_encoder(model)
            and not llama_cpp.llama_model_is_diffusion(model)
            and self.vocabulary_size > 0
            and self.training_context_tokens > 0
        )

    @property
    def can_cut_sequences(self) -> bool:
        """Whether its memory can be cut and shared at any position. A recurrent state is one value, not cells."""
        return not (self.is_recurrent or self.is_hybrid)

    def number(self, name: str) -> int | None:
        """A whole number that the file tells of its architecture, such as `attention.key_length`; None: it does not."""
        architecture = self._told("general.architecture")
        value = self._told(f"{architecture}.{name}") if architecture else ""
        return int(value) if value.isdecimal() else None

    def _told(self, key: str) -> str:
        text = ctypes.create_string_buffer(_TOLD_BYTES)
        length = llama_cpp.llama_model_meta_val_str(self.pointer, key.encode(), text, _TOLD_BYTES)
        return text.value.decode(errors="replace") if length >= 0 else ""

    def close(self) -> None:
        """Free the weights. Idempotent."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            llama_cpp.llama_model_free(pointer)


class _ProgressCallback:
    """Keeps the ctypes callback alive during the load, and an exception away from C."""

    def __init__(self, on_progress: Progress | None) -> None:
        self._on_progress = on_progress
        self._error: BaseException | None = None
        self._given_up = False
        self.pointer = llama_cpp.llama_progress_callback(self._call)

    def _call(self, fraction: float, _user_data: ctypes.c_void_p | None) -> bool:
        if self._on_progress is None:
            return True
        try:
            self._given_up = not self._on_progress(min(max(fraction, 0.0), 1.0))
        except BaseException as error:
            self._error = error
            self._given_up = True
        return not self._given_up

    def raise_if_given_up(self, path: str) -> None:
        if self._error is not None:
            raise self._error
        if self._given_up:
            raise ModelLoadAborted(f"{path}: loading was given up")


def _as_file_name(path: str) -> bytes:
    """The path as C reads it: a NUL would end it early and load another file."""
    if "\0" in path:
        raise ModelCannotBeLoaded("the path holds a NUL character")
    return path.encode("utf-8", errors="surrogateescape")
