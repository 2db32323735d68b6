"""Every check at the doors of one balancer, made from its secrets, and changed when their files are read again."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from balancer.access import AgentAccess, Door, OpenService, ServiceGuard, refuse_in_plain_text, warn_when_open
from balancer.access_files import AccessFileRefused
from balancer.compat_refusal import API_KEY_HEADER, API_KEY_PATHS, refuse_without_key
from balancer.listeners import HEALTH_PATH, Listener
from balancer.management_routes import METRICS_PATH, READY_PATH
from balancer.process_secrets import Secrets
from balancer.settings import BalancerSettings
from balancer.tls import ReplaceableTls

AGENT_SOCKET_PREFIX: Final = "/api/v1/agent_socket/"

_PROBES: Final = frozenset({HEALTH_PATH, READY_PATH})
INFERENCE_DOOR: Final = Door("inference", _PROBES, refuse_in_plain_text)
COMPAT_DOOR: Final = Door("compat", _PROBES, refuse_without_key, key_header=(API_KEY_HEADER, API_KEY_PATHS))
MANAGEMENT_DOOR: Final = Door(
    "management", _PROBES | {METRICS_PATH}, refuse_in_plain_text, open_prefixes=(AGENT_SOCKET_PREFIX,)
)

_log = logging.getLogger(__name__)


class Entrance:
    """`settings` say which files; what they held at the start is in `secrets`."""

    def __init__(self, settings: BalancerSettings, secrets: Secrets, clock: Callable[[], float]) -> None:
        self._settings = settings
        self.agents = AgentAccess(secrets.agent_token)
        self.inference = ServiceGuard(INFERENCE_DOOR, secrets.inference_keys, clock)
        self.compat = ServiceGuard(COMPAT_DOOR, secrets.inference_keys, clock)
        self.management = ServiceGuard(MANAGEMENT_DOOR, secrets.management_token, clock)
        self._tls = None if secrets.tls is None else ReplaceableTls(secrets.tls)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """For every listener; None: without TLS."""
        return None if self._tls is None else self._tls.context

    async def read_again(self) -> None:
        """All files, or none of them if one is refused."""
        if not self._settings.has_access_files:
            return
        try:
            secrets = await asyncio.to_thread(Secrets.read, self._settings)
        except AccessFileRefused as refused:
            _log.error("keys, tokens and certificates stay what they were: %s", refused)
        else:
            self._change(secrets)
            _log.info("keys, tokens and certificates were read again")

    def _change(self, secrets: Secrets) -> None:
        self.agents.change(secrets.agent_token)
        self.inference.change(secrets.inference_keys)
        self.compat.change(secrets.inference_keys)
        self.management.change(secrets.management_token)
        if self._tls is not None and secrets.tls is not None:
            self._tls.replace(secrets.tls)

    def warn_when_open(self, inference: Listener, compat: Listener, management: Listener) -> None:
        """Once all listen."""
        checks = (
            (self.inference.is_open, "inference", inference, "--inference-keys-file"),
            (self.compat.is_open, "compat", compat, "--inference-keys-file"),
            (self.management.is_open, "management", management, "--management-token-file"),
            (self.agents.is_open, "the agents' socket, which gets every prompt,", management, "--agent-token-file"),
        )
        warn_when_open([OpenService(name, of.addresses, flag) for is_open, name, of, flag in checks if is_open])
