"""systemd's own tools, where a host has them. In CI a test that needs one fails without it; elsewhere it is named."""

import os
import shutil

import pytest

ANALYZE = "systemd-analyze"


def need(program: str) -> str:
    """The program's path. Fails the test in CI where it is missing, and skips it elsewhere, with the reason."""
    found = shutil.which(program)
    if found is not None:
        return found
    reason = f"NOT RUN: this host has no {program} (Debian, Ubuntu: apt install systemd)"
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    pytest.skip(reason)
