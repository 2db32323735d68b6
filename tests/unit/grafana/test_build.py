"""The files are what the code makes, to the byte."""

from pathlib import Path

from grafana.build import FOLDER, boards, files, write


def test_the_files_are_what_the_code_makes() -> None:
    """Red: run `python -m grafana`."""
    found = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    assert found == files()


def test_regeneration_gives_the_same_bytes_and_removes_what_is_stale(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    first = {path.name: path.read_bytes() for path in write(tmp_path)}
    second = {path.name: path.read_bytes() for path in write(tmp_path)}
    assert first == second == files()
    assert {path.name for path in tmp_path.iterdir()} == set(files())


def test_the_four_dashboards_have_stable_addresses() -> None:
    uids = {name: board["uid"] for name, board in boards().items()}
    assert uids == {
        "fleet.json": "steersman-fleet",
        "requests.json": "steersman-requests",
        "agents.json": "steersman-agents",
        "structured-output.json": "steersman-structured-output",
    }
