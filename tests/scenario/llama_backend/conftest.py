"""The backend over a real context of the tiny model."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent.llama.backend import LlamaBackend
from agent.llama.context import LlamaContext
from agent.llama.context_parameters import ContextParameters
from agent.llama.model import LlamaModel
from tests.support.tiny_backend import EXACT_CONTEXT, NewBackend, no_sampler
from tests.support.tiny_model import tiny_model_path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    model = LlamaModel.load(str(tiny_model_path(tmp_path_factory.mktemp("models"))))
    yield model
    model.close()


@pytest.fixture
def new_backend(model: LlamaModel) -> Iterator[NewBackend]:
    """Makes backends on the tiny model and closes them."""
    made: list[LlamaBackend] = []

    def make(**changes: Any) -> LlamaBackend:
        parameters = ContextParameters(**{**EXACT_CONTEXT, "slots": 4, "context_size": 256, **changes})
        made.append(LlamaBackend(LlamaContext(model, parameters), no_sampler))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def backend(new_backend: NewBackend) -> LlamaBackend:
    return new_backend()
