"""Self-signed certificates for 127.0.0.1, made by the `openssl` command."""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

OPENSSL = shutil.which("openssl")


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two PEM files, and the name that the certificate was made for."""

    cert: Path
    key: Path
    name: str

    def trusted(self) -> ssl.SSLContext:
        """A client that trusts this certificate and no other."""
        return ssl.create_default_context(cafile=str(self.cert))


def self_signed(folder: Path, name: str, *, passphrase: str | None = None) -> Certificate:
    """Blocks for some hundredths of a second."""
    assert OPENSSL is not None
    cert, key = folder / f"{name}.cert.pem", folder / f"{name}.key.pem"
    subprocess.run(
        [
            *(OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"),
            *(("-nodes",) if passphrase is None else ("-passout", f"pass:{passphrase}")),
            *("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
        timeout=30.0,
    )
    key.chmod(0o600)
    return Certificate(cert, key, name)
