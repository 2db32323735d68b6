"""All dashboards, and the files that hold them: the same code gives the same bytes."""

import json
from pathlib import Path

from grafana.boards import agents, fleet, requests, structured_output
from grafana.panels import Json

FOLDER = Path(__file__).resolve().parent / "dashboards"


def boards() -> dict[str, Json]:
    """File names and documents."""
    made = (fleet.board(), requests.board(), agents.board(), structured_output.board())
    return {f"{board['uid'].removeprefix('steersman-')}.json": board for board in made}


def files() -> dict[str, bytes]:
    """File names and contents."""
    return {name: encoded(board) for name, board in boards().items()}


def encoded(board: Json) -> bytes:
    """Keys in order, so that a change in the code is the same change in the file."""
    return (json.dumps(board, indent=2, sort_keys=True) + "\n").encode()


def write(folder: Path = FOLDER) -> list[Path]:
    """Write every file and remove what no board makes any more; the paths written."""
    folder.mkdir(exist_ok=True)
    written = []
    for name, content in files().items():
        (folder / name).write_bytes(content)
        written.append(folder / name)
    for stale in set(folder.glob("*.json")) - set(written):
        stale.unlink()
    return written
