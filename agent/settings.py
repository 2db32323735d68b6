"""What `steersman agent` can be told. Everything about the model comes from the balancer."""

import ssl
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from agent.core.batch_plan import MOST_LOGITS_ROWS
from agent.core.drafting import DRAFT_TOKENS
from shared.settings_sources import Address, Command, Duration, HostPort, SettingsError, SettingsModel

COMMAND = Command(
    program="steersman agent",
    summary="Load the model that the balancer asks for, and generate for it.",
    environment_prefix="STEERSMAN_AGENT_",
    lesson=(
        "examples:",
        "  steersman agent --management-addr 127.0.0.1:8060 --slots 4 --name gpu-0",
        "  steersman agent --management-addr balancer.example:8060 --management-tls --slots 4",
        "Then: steersman status; steersman state edit (which model it loads)",
    ),
)
MAX_TOKEN_BYTES = 4096
MAX_CA_BYTES = 1024 * 1024


class AgentSettings(SettingsModel):
    """Flags over environment over file, see `shared.settings_sources`."""

    management_addr: list[HostPort] = Field(
        min_length=1,
        max_length=64,
        description="HOST:PORT of a balancer's management service; may be given several times",
    )
    slots: int = Field(ge=1, le=65_535, description="how many requests may run at once; llama.cpp allows 255")
    name: str | None = Field(default=None, min_length=1, max_length=256, description="what people call this agent")
    drain_timeout_seconds: Duration = Field(
        default=60.0, description="how long requests may go on after SIGTERM before they are handed back"
    )
    agent_token_file: Path | None = Field(
        default=None, description="a file with the token that the balancer's --agent-token-file holds"
    )
    management_tls: bool = Field(
        default=False, description="reach the balancers over TLS, for those that have a --tls-cert"
    )
    management_ca_file: Path | None = Field(
        default=None,
        description=(
            "with --management-tls: a PEM file with the certificates to trust, such as a balancer's own self-signed "
            "one; by default those that this host trusts"
        ),
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="threads that compute; by default one for each physical core"
    )
    prefix_store_size: int | None = Field(
        default=None,
        ge=0,
        le=1 << 44,
        description=(
            "most bytes of host memory for what was computed of earlier prompts, 0 for none; by default 2 GiB, or an "
            "eighth of the free memory where that is less. Not used with the cache on a GPU"
        ),
    )
    draft_tokens: int = Field(
        default=DRAFT_TOKENS,
        ge=0,
        le=MOST_LOGITS_ROWS - 1,
        description=(
            "most tokens guessed ahead in one step, for answers under a grammar or schema; with several answers at "
            "once fewer; 0 for none. Guesses never change what may be answered"
        ),
    )
    metrics_addr: HostPort | None = Field(
        default=None,
        description="HOST:PORT where this agent serves its own /metrics and /health; by default it listens nowhere",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="what is logged")
    log_format: Literal["readable", "json"] = Field(
        default="readable", description="how lines of the log look: readable, or json, one object a line"
    )

    @model_validator(mode="after")
    def _check_tls(self) -> "AgentSettings":
        if self.management_ca_file is not None and not self.management_tls:
            raise ValueError("--management-ca-file needs --management-tls")
        return self

    @property
    def has_access_files(self) -> bool:
        """Whether anything can be read again while it runs."""
        return self.agent_token_file is not None or self.management_ca_file is not None

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The balancers to dial, each once."""
        return tuple(dict.fromkeys(self.management_addr))

    def read_token(self) -> str | None:
        """The token of `agent_token_file`; None without one. Raises SettingsError with a sentence."""
        if self.agent_token_file is None:
            return None
        try:
            with self.agent_token_file.open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES + 1).decode("ascii").strip()
        except OSError as error:
            raise SettingsError(f"--agent-token-file {self.agent_token_file}: {error.strerror}") from None
        except UnicodeDecodeError:
            token = ""
        if not token or len(token) > MAX_TOKEN_BYTES or not token.isprintable() or " " in token:
            raise SettingsError(
                f"--agent-token-file {self.agent_token_file}: must hold one line of printable ASCII without spaces"
            )
        return token

    def read_tls(self) -> ssl.SSLContext | None:
        """What to trust of balancers; None: no TLS. Raises SettingsError with a sentence. Reads files."""
        if not self.management_tls:
            return None
        path = self.management_ca_file
        if path is None:
            return ssl.create_default_context()
        try:
            with path.open("rb") as file:
                content = file.read(MAX_CA_BYTES + 1)
            if len(content) > MAX_CA_BYTES:
                raise SettingsError(f"--management-ca-file {path}: is larger than {MAX_CA_BYTES} bytes")
            if not content.strip():  # nothing given would mean what this host trusts
                raise UnicodeError
            return ssl.create_default_context(cadata=content.decode("ascii"))
        except (ssl.SSLError, UnicodeError):
            raise SettingsError(f"--management-ca-file {path}: must hold certificates as PEM") from None
        except OSError as error:
            raise SettingsError(f"--management-ca-file {path}: {error.strerror}") from None
