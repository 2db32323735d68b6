"""TLS of the listeners: one certificate chain for all of them, which can be replaced while they listen."""

import ssl
from pathlib import Path
from typing import Final

from balancer.access_files import AccessFileRefused, read_access_file

CERT_FLAG: Final = "--tls-cert"
KEY_FLAG: Final = "--tls-key"
MAX_PEM_BYTES: Final = 1024 * 1024

_MISMATCH: Final = "KEY_VALUES_MISMATCH"


def read_tls(cert: Path, key: Path) -> ssl.SSLContext:
    """A server's context, TLS 1.2 or newer, from two PEM files. Raises AccessFileRefused. Reads files."""
    read_access_file(cert, CERT_FLAG, MAX_PEM_BYTES, is_secret=False)
    read_access_file(key, KEY_FLAG, MAX_PEM_BYTES)

    def has_a_passphrase() -> bytes:  # OpenSSL would ask for it at the terminal
        raise AccessFileRefused(f"{KEY_FLAG}: {key} is protected by a passphrase; give a key without one")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=has_a_passphrase)
    except ssl.SSLError as error:
        if error.reason == _MISMATCH:
            raise AccessFileRefused(f"{KEY_FLAG}: {key} is not the key of the certificate {cert}") from None
        raise AccessFileRefused(
            f"{CERT_FLAG} {cert} and {KEY_FLAG} {key} must be a certificate chain and its private key, both PEM"
        ) from None
    except OSError as error:
        raise AccessFileRefused(f"{CERT_FLAG} {cert}: cannot be read ({error.strerror})") from None
    return context


class ReplaceableTls:
    """`context` goes to the listeners once; each new connection gets what `replace` was given last."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self._current = context
        # Called for every handshake, with or without a server name in it. OpenSSL takes the certificate from the
        # context that the connection has afterwards.
        context.sni_callback = self._choose

    def replace(self, context: ssl.SSLContext) -> None:
        """Connections that are open keep what they have."""
        self._current = context

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._current
