"""Which pages are made from the code."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docs.reference.api import api_page
from docs.reference.settings import settings_page

FOLDER: Final = Path(__file__).resolve().parents[1]
PAGES: Final[Mapping[str, Callable[[], str]]] = {"settings.md": settings_page, "api.md": api_page}
"""By the name of the file under docs/."""
