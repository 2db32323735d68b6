"""What `steersman agent` can be told. Everything about the model comes from the balancer."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from shared.settings_sources import Address, Command, Duration, HostPort, SettingsError, SettingsModel

COMMAND = Command(
    program="steersman agent",
    summary="Load the model that the balancer asks for, and generate for it.",
    environment_prefix="STEERSMAN_AGENT_",
)
MAX_TOKEN_BYTES = 4096


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
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="threads that compute; by default one for each physical core"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="what is logged")

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
