"""What stands in files that only the process may read, all read together."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from balancer.access_files import read_token
from balancer.key_ring import KeyRing, read_keys
from balancer.settings import BalancerSettings
from balancer.tls import read_tls


@dataclass(frozen=True, slots=True)
class Secrets:
    """Each is None where its file is not set."""

    agent_token: bytes | None = field(repr=False)
    inference_keys: KeyRing | None
    management_token: KeyRing | None
    tls: ssl.SSLContext | None
    redis_password: str | None = field(repr=False)

    @classmethod
    def read(cls, settings: BalancerSettings) -> "Secrets":
        """Reads files, so not on a running loop. Raises AccessFileRefused."""
        password = _token(settings.redis_password_file, "--redis-password-file")
        management = _token(settings.management_token_file, "--management-token-file")
        keys_file = settings.inference_keys_file
        return cls(
            agent_token=_token(settings.agent_token_file, "--agent-token-file"),
            inference_keys=None if keys_file is None else read_keys(keys_file, "--inference-keys-file"),
            management_token=None if management is None else KeyRing([("management", management)]),
            tls=_tls(settings.tls_cert, settings.tls_key),
            redis_password=None if password is None else password.decode("utf-8", "surrogateescape"),
        )


def _token(path: Path | None, flag: str) -> bytes | None:
    return None if path is None else read_token(path, flag)


def _tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    return None if cert is None or key is None else read_tls(cert, key)
