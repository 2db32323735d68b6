"""`python -m docs.reference`: writes the pages that are made from the code. `--check` only names the stale."""

import sys

from docs.reference.pages import FOLDER, PAGES


def main(arguments: list[str]) -> int:
    """0: all are in step now. 1: with `--check`, some are not; their names were printed."""
    stale = [name for name, page in PAGES.items() if not _is_in_step(name, page())]
    if "--check" not in arguments:
        for name in stale:
            (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
            print(f"wrote docs/{name}")
        return 0
    for name in stale:
        print(f"docs/{name} is out of step; run: python -m docs.reference", file=sys.stderr)
    return 1 if stale else 0


def _is_in_step(name: str, page: str) -> bool:
    path = FOLDER / name
    return path.exists() and path.read_text(encoding="utf-8") == page


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
