"""Log lines for people: time, level, where, what; on stderr. No line holds a prompt, an answer or a secret."""

import logging
import sys
from typing import Final

FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def write_logs_to_stderr(level: str) -> None:
    """`level`: debug, info, warning, error. Libraries speak from `warning` on, so that `debug` is about us."""
    logging.basicConfig(level=logging.WARNING, format=FORMAT, stream=sys.stderr, force=True)
    for name in ("balancer", "shared"):
        logging.getLogger(name).setLevel(level.upper())
