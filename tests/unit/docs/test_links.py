"""Whatever the documents point at exists: links and their headings, paths of files, flags of commands."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.docs.steersman_flags import every_flag, flags_of

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "deploy/**/*.md", "grafana/**/*.md")
    for path in ROOT.glob(pattern)
    if not path.is_symlink()
)
FOLDERS = ("agent", "balancer", "bench", "deploy", "docs", "grafana", "shared", "tests")

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(rf"(?<![\w/.:~-])(?:\./)?((?:{'|'.join(FOLDERS)})/[\w./*@-]*[\w/*])")
_BARE_FILE = re.compile(r"`((?:[\w*-]+/)*[\w*@-]+\.(?:py|md|json|toml|yml|sh|service|target|conf|env))`")
_MADE_ELSEWHERE = {"keys.toml", "state.json", "prometheus.yml"}
"""Names of files that readers write themselves."""


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return re.sub(r"`[^`]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


@cache
def headings(path: Path) -> frozenset[str]:
    """The anchors of a page, as GitHub makes them."""
    found: dict[str, int] = {}
    anchors = set()
    for line in re.sub(r"^```.*?^```$", "", read(path), flags=re.DOTALL | re.MULTILINE).splitlines():
        if line.startswith("#"):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            number = found.get(anchor, 0)
            found[anchor] = number + 1
            anchors.add(f"{anchor}-{number}" if number else anchor)
    return frozenset(anchors)


def broken_links(path: Path) -> Iterator[str]:
    for target in _LINK.findall(without_code(read(path))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        if not there.exists() or (anchor and anchor not in headings(there)):
            yield target


def exists(name: str) -> bool:
    """From the root, or, as prose names files, from somewhere within a folder of ours."""
    if any(ROOT.glob(name.strip("/"))):
        return True
    return any(next((ROOT / folder).rglob(name), None) is not None for folder in FOLDERS if (ROOT / folder).exists())


def missing_files(path: Path) -> list[str]:
    text = read(path)
    named = {found.rstrip(".") for found in _PATH.findall(text)} | set(_BARE_FILE.findall(text))
    return sorted(name for name in named - _MADE_ELSEWHERE if not exists(name))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    assert list(broken_links(path)) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(path: Path) -> None:
    assert missing_files(path) == []


def wrong_flags(text: str) -> Iterator[str]:
    """Flags behind `steersman WORD` in one command, and flags that stand alone in code."""
    for command in re.findall(r"steersman[ \t]+[a-z][^`|;&<>]*?(?=$|[`|;&<>)]| #)", joined(text), re.MULTILINE):
        words = command.split()
        known = flags_of(words[1])
        for word in words[2:]:
            flag = word.partition("=")[0]
            if flag.startswith("--") and flag not in known:
                yield f"steersman {words[1]} {flag}"
    every = every_flag()
    for span in re.findall(r"`(--[a-z][a-z-]*)[^`\n]*`", text):
        if span not in every and span not in OTHER_PROGRAMS:
            yield span


def joined(text: str) -> str:
    """Lines that end with a backslash go on in the next."""
    return re.sub(r"\\\n\s*", " ", text)


OTHER_PROGRAMS = {
    *("--build-constraint", "--no-cache-dir"),  # pip
    *("--agent", "--command", "--dry-run", "--prefix", "--role", "--uninstall"),  # deploy/install.sh
    *(
        "--k-cache-dtype",
        "--only-demo-model",
        "--only-large-model",
        "--llama-cpp",
    ),  # python -m docs.capacity, python -m bench
    *("--flag", "--no-flag"),  # any
}
"""Flags that pages name without the command in front."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_flags_that_are_named_exist(path: Path) -> None:
    assert sorted(set(wrong_flags(read(path)))) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("steersman balancer --no-such-flag 1", ["steersman balancer --no-such-flag"]),
        ("```sh\nsteersman agent --slots 4 \\\n  --nam x\n```", ["steersman agent --nam"]),
        ("steersman agent --slots 4 --name gpu-0 && other --flag", []),
        ("`--management-tlss`", ["--management-tlss"]),
        ("`--tls-cert`, `--tls-key FILE`", []),
    ],
)
def test_a_planted_flag_is_found(text: str, wrong: list[str]) -> None:
    assert list(wrong_flags(text)) == wrong


def test_planted_links_and_files_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, twice\n[gone](gone.md) [here](#a-title-twice) [not here](#b) `docs/gone.md` `docs/api.md` "
        "`gone.py` `core/machine.py` tests/gone/ deploy/gone.sh.\n"
    )
    assert list(broken_links(page)) == ["gone.md", "#b"]
    assert missing_files(page) == ["deploy/gone.sh", "docs/gone.md", "gone.py", "tests/gone/"]


def page_references() -> dict[str, set[str]]:
    """Pages that files other than documents name, `docs/x.md` or `docs/x.md#heading`, by those files."""
    found: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in TEXT_SUFFIXES and path.resolve() != Path(__file__).resolve():
                for name in re.findall(r"docs/[\w-]+\.md(?:#[\w-]+)?", read(path)):
                    found.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    return found


TEXT_SUFFIXES = {".py", ".json", ".yml", ".sh", ".service", ".target", ".env", ".conf", ".Containerfile", ".toml"}


def test_pages_that_code_and_units_name_exist() -> None:
    wrong = {}
    for name, files in page_references().items():
        page, _, anchor = name.partition("#")
        if not (ROOT / page).exists() or (anchor and anchor not in headings(ROOT / page)):
            wrong[name] = files
    assert wrong == {}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_are_a_shells(path: Path) -> None:
    blocks = re.findall(r"^```sh(?: root)?\n(.*?)^```$", read(path), re.DOTALL | re.MULTILINE)
    checked = subprocess.run(["bash", "-n"], input="\n".join(blocks), capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


SET_BY_THE_UNITS = {"CONFIG", "ENVIRONMENT_FILES"}


def wrong_variables(text: str) -> Iterator[str]:
    """Variables of a side's settings that it does not have."""
    for side, name in re.findall(r"STEERSMAN_(BALANCER|AGENT)_([A-Z_]*[A-Z])\b", text):
        flag = "--" + name.lower().replace("_", "-")
        if flag not in flags_of(side.lower()) and name not in SET_BY_THE_UNITS:
            yield f"STEERSMAN_{side}_{name}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_variables_that_are_named_exist(path: Path) -> None:
    assert sorted(set(wrong_variables(read(path)))) == []


def test_a_planted_variable_is_found() -> None:
    text = "STEERSMAN_AGENT_SLOTS STEERSMAN_AGENT_SLOT `STEERSMAN_BALANCER_...` STEERSMAN_BALANCER_TLS_CERTS"
    assert list(wrong_variables(text)) == ["STEERSMAN_AGENT_SLOT", "STEERSMAN_BALANCER_TLS_CERTS"]
