"""`python -m bench [masks] [generation] [prefix] [choices] [relay] [--only-demo-model | --only-large-model]`: prints
tables in Markdown."""

import argparse
import platform
import sys
import tempfile
from functools import partial
from pathlib import Path

from agent.llama.vocabulary import LlamaVocabulary, load_vocabulary
from bench import choices, generation, masks, peers, protocol, relay, shared_prefix

_SECTIONS = ("masks", "generation", "prefix", "choices", "relay")
_WITH_MODELS = frozenset(_SECTIONS) - {"relay"}


def main() -> int:
    """Measure the sections that were asked for, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*_SECTIONS, []], help="default: all")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--only-demo-model", action="store_true", help="leave the large-vocabulary model out")
    one.add_argument("--only-large-model", action="store_true", help="leave the demo model out")
    parser.add_argument("--llama-cpp", type=Path, metavar="DIR", help="tools of this build instead of the package's")
    arguments = parser.parse_args()
    sections = arguments.sections or _SECTIONS
    print(f"# Steersman beside llama.cpp ({platform.machine()}, {protocol.THREADS} threads)\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        work = Path(folder)
        if "relay" in sections:
            print(relay.measure(work), flush=True)
        if _WITH_MODELS & set(sections):
            _measure_models(work, sections, arguments)
    return 0


def _measure_models(work: Path, sections: tuple[str, ...], arguments: argparse.Namespace) -> None:
    peer = peers.find_peer(work, arguments.llama_cpp)
    models = protocol.find_models(work)
    for model in models:
        if arguments.only_demo_model and model.has_large_vocabulary:
            continue
        if arguments.only_large_model and not model.has_large_vocabulary:
            continue
        with load_vocabulary(str(model.path)) as lease:
            tokenize = partial(_tokenize, lease.vocabulary)
            if "masks" in sections:
                print(masks.measure(model, lease.vocabulary), flush=True)
            if "generation" in sections:
                print(generation.measure(model, peer, tokenize, work), flush=True)
            if "prefix" in sections:
                print(shared_prefix.measure(model, peer, tokenize, work), flush=True)
            if "choices" in sections:
                print(choices.measure(model, tokenize, work), flush=True)


def _tokenize(vocabulary: LlamaVocabulary, text: str) -> list[int]:
    return vocabulary.tokenize(text, add_special=vocabulary.adds_bos, parse_special=True)


if __name__ == "__main__":
    sys.exit(main())
