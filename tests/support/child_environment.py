"""The environment of the processes that tests start."""

import os
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def child_environment(**variables: str) -> dict[str, str]:
    """Of this process, with the tree under test first, and `variables`.

    Without the host's certificate authorities: aiohttp reads them as it is imported, which is a quarter of the time
    that a balancer or an agent takes to start. Tests that want TLS name the certificates that they made.
    """
    return {**os.environ, "PYTHONPATH": str(_ROOT), "SSL_CERT_FILE": os.devnull, **variables}
