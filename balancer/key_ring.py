"""The keys of a service: read from a file of `name:key` lines, kept as digests, looked up by what a client shows."""

import re
import secrets
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from balancer.access_files import AccessFileRefused, read_access_file

MAX_KEYS: Final = 10_000
MAX_KEY_BYTES: Final = 512
MAX_KEYS_FILE_BYTES: Final = 4 * 1024 * 1024

_LINE: Final = re.compile(r"([A-Za-z0-9._@-]{1,64}):([!-~]{1,512})")

NamedKey = tuple[str, bytes]


class KeyRing:
    """Some keys, each with the name of whom it was given to. Immutable; a reload makes a new one.

    Keys are compared as digests under a secret that this process drew at random. Whoever shows a key cannot know its
    digest, so the time of a look-up tells nothing about the keys that there are; and it does not grow with them.
    """

    def __init__(self, keys: Iterable[NamedKey]) -> None:
        self._secret = secrets.token_bytes(blake2b.MAX_KEY_SIZE)
        self._names = {self._digest(key): name for name, key in keys}

    def __repr__(self) -> str:
        return f"<KeyRing {len(self._names)} keys>"

    def __len__(self) -> int:
        return len(self._names)

    def name_of(self, shown: bytes) -> str | None:
        """Whose key this is; None: nobody's."""
        return self._names.get(self._digest(shown))

    def _digest(self, key: bytes) -> bytes:
        return blake2b(key, key=self._secret, digest_size=32).digest()


def read_keys(path: Path, flag: str) -> KeyRing:
    """The keys of a file. Raises AccessFileRefused."""
    try:
        return KeyRing(parse_keys(read_access_file(path, flag, MAX_KEYS_FILE_BYTES)))
    except ValueError as error:
        raise AccessFileRefused(f"{flag}: {path}: {error}") from None


def parse_keys(content: bytes) -> list[NamedKey]:
    """`name:key`, one a line; empty lines and those that begin with `#` are left out.

    A name may stand several times, so that an old and a new key of one client can be valid together. Raises ValueError
    with a sentence that names the line and never quotes it.
    """
    keys: list[NamedKey] = []
    first_lines: dict[bytes, int] = {}
    for number, raw in enumerate(content.split(b"\n"), start=1):
        line = raw.decode("ascii", "replace").strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(
                f"line {number}: must be name:key, a name of at most 64 letters, digits, '.', '_', '@' and '-', "
                f"and a key of at most {MAX_KEY_BYTES} printable ASCII characters without spaces"
            )
        key = found[2].encode()
        if first_lines.setdefault(key, number) != number:
            raise ValueError(f"line {number}: the same key stands in line {first_lines[key]}")
        keys.append((found[1], key))
        if len(keys) > MAX_KEYS:
            raise ValueError(f"holds more than {MAX_KEYS} keys")
    if not keys:
        raise ValueError("holds no key; write name:key lines into it")
    return keys
