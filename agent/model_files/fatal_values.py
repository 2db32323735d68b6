"""Header values on which llama.cpp does not fail but aborts, taking the agent's process with it.

Source of each rule: GGML_ASSERT in llama_model_base::load_hparams (llama-model.cpp) and in the norms (ggml-cpu/ops.cpp)
as shipped with llama-cpp-python 0.3.36. Values that make it throw are left to it: that is an ordinary load failure. The
list cannot be complete; what gets past it meets the trial in another process (agent/llama/trial.py).
"""

from agent.model_files.errors import ModelFileMalformed
from agent.model_files.metadata import Metadata

MAX_LAYERS = 512  # LLAMA_MAX_LAYERS
MAX_EXPERTS = 1024  # LLAMA_MAX_EXPERTS
ROPE_SCALING_TYPES = frozenset({"none", "linear", "yarn", "longrope"})


def refuse_fatal_values(path: str, metadata: Metadata) -> None:
    """Raises ModelFileMalformed with the first value that would abort the process."""
    architecture = metadata.text("general.architecture")
    if architecture is None:
        return

    def number(key: str) -> int:
        return metadata.whole_number(f"{architecture}.{key}") or 0

    layers = metadata.whole_number(f"{architecture}.block_count")
    if layers is not None and not 0 < layers <= MAX_LAYERS:
        raise ModelFileMalformed(path, f"claims {layers} layers; 1 to {MAX_LAYERS} are possible")
    if number("nextn_predict_layers") > (layers or 0):
        raise ModelFileMalformed(path, "claims more prediction layers than layers")
    scaling = metadata.text(f"{architecture}.rope.scaling.type")
    if scaling is not None and scaling not in ROPE_SCALING_TYPES:
        raise ModelFileMalformed(path, f"names the unknown position scaling {scaling[:40]!r}")
    for key in ("layer_norm_rms_epsilon", "layer_norm_epsilon"):
        epsilon = metadata.values.get(f"{architecture}.attention.{key}")
        if isinstance(epsilon, float) and not epsilon >= 0.0:
            raise ModelFileMalformed(path, f"its {key.replace('_', ' ')} is {epsilon}")
    if metadata.types.get(f"{architecture}.expert_used_count") == "array":
        used = 1  # one number per layer: not read
    else:
        used = number("expert_used_count")
    experts = number("expert_count")
    if experts <= 1 and architecture.startswith("hunyuan"):
        return  # llama.cpp treats these as having none
    if not _experts_are_possible(experts, used, number("expert_group_count"), number("expert_group_used_count")):
        raise ModelFileMalformed(path, "its numbers of experts contradict each other")


def _experts_are_possible(count: int, used: int, groups: int, groups_used: int) -> bool:
    if count == 0:
        return used == 0 and groups == 0
    if count > MAX_EXPERTS or not 0 < used <= count or groups >= count:
        return False
    return groups <= 1 or (count % groups == 0 and 0 < groups_used < groups)
