"""What `steersman status`, `top`, `state` and `bench` can be told, and what their `--help` teaches."""

from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator, model_validator

from shared.settings_sources import Address, Command, Duration, HostPort, Positional, SettingsModel, Spelled

MAX_STREAMS: Final = 1000
MAX_REQUESTS: Final = 100_000
MAX_TOKENS_IN_ALL: Final = 10_000_000  # prompts and answers: a bench that takes a fleet for hours is a mistake
MAX_TOKENS: Final = 131_072

_ENVIRONMENT: Final = "STEERSMAN_"
_WHERE: Final = (
    "With a token and a certificate of its own:",
    "  steersman {name} --management-addr balancer.example:8060 --cacert cert.pem \\",
    "    --management-token-file ~/operators",
)


def _where(name: str) -> tuple[str, ...]:
    return tuple(line.format(name=name) for line in _WHERE)


class ConnectionSettings(SettingsModel):
    """How to reach a balancer's management service."""

    management_addr: HostPort = Field(
        Address("127.0.0.1", 8060), description="HOST:PORT of the balancer's management service"
    )
    management_token_file: Path | None = Field(
        None, description="a file with the token that the balancer's --management-token-file holds"
    )
    tls: bool = Field(False, description="speak TLS, for a balancer that has a --tls-cert")
    cacert: Path | None = Field(
        None, description="a PEM file with the certificates to trust, such as the balancer's own; speaks TLS"
    )
    timeout_seconds: Duration = Field(5.0, description="how long one answer may take")

    @property
    def speaks_tls(self) -> bool:
        """A certificate to trust says so, too."""
        return self.tls or self.cacert is not None

    @field_validator("timeout_seconds")
    @classmethod
    def _bound_timeout(cls, value: float) -> float:
        if not 0.1 <= value <= 600.0:
            raise ValueError("must be 100ms to 10m")
        return value


STATUS: Final = Command(
    program="steersman status",
    summary=(
        "The fleet at a glance: does it serve, which revision, who is there, how many wait, what is wrong and what "
        "to do about it."
    ),
    environment_prefix=_ENVIRONMENT,
    lesson=(
        "exit status: 0 healthy; 1 not ready, or something is wrong; 2 wrong usage, or the",
        "token is missing or wrong; 3 no balancer answers",
        "",
        "examples:",
        "  steersman status",
        "  steersman status --json | jq '.problems'",
        "  steersman status > /dev/null || echo 'call somebody'",
        *_where("status"),
    ),
)


class StatusSettings(ConnectionSettings):
    """`steersman status`."""

    as_json: Annotated[bool, Spelled("json")] = Field(
        False, description="one JSON document for programs instead of text for people"
    )


TOP: Final = Command(
    program="steersman top",
    summary="The fleet live: slots, waiting requests, tokens per second, time to first token, each agent. Ctrl-C ends.",
    environment_prefix=_ENVIRONMENT,
    lesson=(
        "It follows the balancer's event streams and reads /metrics once per --interval. When",
        "the balancer goes away it says so, keeps the last picture and reconnects.",
        "",
        "examples:",
        "  steersman top",
        "  steersman top --once | mail -s fleet oncall@example.com",
        *_where("top"),
    ),
)


class TopSettings(ConnectionSettings):
    """`steersman top`."""

    once: bool = Field(False, description="print one picture after one --interval and end, for pipes")
    interval_seconds: Duration = Field(1.0, description="how often numbers are read and the picture is drawn anew")

    @field_validator("interval_seconds")
    @classmethod
    def _bound_interval(cls, value: float) -> float:
        if not 0.1 <= value <= 60.0:
            raise ValueError("must be 100ms to 1m")
        return value


STATE: Final = Command(
    program="steersman state",
    summary=(
        "Read or replace the desired state: what all agents run. Before anything is stored you see what changes and "
        "whether a model is loaded anew."
    ),
    environment_prefix=_ENVIRONMENT,
    lesson=(
        "  get        print it as JSON; its revision goes to standard error",
        "  set FILE   check FILE (-: standard input), show what would change, ask, store",
        "  edit       the same with $VISUAL or $EDITOR (else vi) on a private copy",
        "",
        "Nothing is overwritten that somebody else stored meanwhile: set and edit name the",
        "revision that they started from (If-Match).",
        "",
        "exit status: 0 stored, or nothing to change; 1 not stored; 2 wrong usage, or FILE is",
        "not a desired state; 3 no balancer answers",
        "",
        "examples:",
        "  steersman state get > state.json",
        "  steersman state set state.json",
        "  jq '.inference_parameters.temperature = 0.2' state.json | steersman state set - --yes",
        "  EDITOR=nano steersman state edit",
    ),
)


class StateSettings(ConnectionSettings):
    """`steersman state`."""

    action: Annotated[Literal["get", "set", "edit"], Positional("get|set|edit")] = Field(
        description="what to do, see below"
    )
    file: Annotated[Path | None, Positional("FILE")] = Field(None, description="with set: a JSON file, or - for stdin")
    yes: bool = Field(False, description="store without asking")

    @model_validator(mode="after")
    def _check_file(self) -> "StateSettings":
        if self.action == "set" and self.file is None:
            raise ValueError("set needs FILE: steersman state set state.json, or - for standard input")
        if self.action != "set" and self.file is not None:
            raise ValueError(f"{self.action} takes no FILE; did you mean steersman state set {self.file}?")
        return self


BENCH: Final = Command(
    program="steersman bench",
    summary=(
        "A bounded load on an inference address: tokens per second, time to first token, time between tokens, and "
        "what failed, as a client sees it. It measures the whole path: your network, the balancer, the agents."
    ),
    environment_prefix="STEERSMAN_BENCH_",
    lesson=(
        "Each prompt begins differently, so that no prefix cache helps, and answers go on to",
        "--max-tokens where the API allows it. An address that is not this machine needs --yes:",
        "a bench takes slots from real clients.",
        "",
        "exit status: 0 all answered; 1 some failed; 2 wrong usage; 3 nobody answers",
        "",
        "examples:",
        "  steersman bench http://127.0.0.1:8061",
        "  steersman bench http://127.0.0.1:8061 --streams 16 --requests 64 --max-tokens 256",
        "  steersman bench http://127.0.0.1:8070 --api completions --prompt-tokens 1000",
        "  steersman bench https://balancer.example:8061 --cacert cert.pem --key-file ~/key --yes",
    ),
)

Api = Literal["raw-prompt", "completions", "complete"]


class BenchSettings(SettingsModel):
    """`steersman bench`."""

    url: Annotated[str, Positional("URL")] = Field(
        max_length=2048,
        description="the inference service (port 8061) for raw-prompt, the compatibility service (8070) for the others",
    )
    api: Api = Field("raw-prompt", description="raw-prompt, completions or complete")
    streams: int = Field(4, ge=1, le=MAX_STREAMS, description="how many requests run at once")
    requests: int = Field(16, ge=1, le=MAX_REQUESTS, description="how many requests in all")
    prompt_tokens: int = Field(128, ge=1, le=MAX_TOKENS, description="about how many tokens a prompt has")
    max_tokens: int = Field(64, ge=1, le=MAX_TOKENS, description="the most tokens of an answer")
    model: str | None = Field(
        None, min_length=1, max_length=512, description="which model, for completions and complete; else the first"
    )
    key_file: Path | None = Field(None, description="a file with a client's key, without the name in front")
    cacert: Path | None = Field(None, description="a PEM file with the certificates to trust, for https addresses")
    limit_seconds: Duration = Field(600.0, description="the run ends then; what has not ended counts as failed")
    yes: bool = Field(False, description="go on with an address that is not this machine")

    @property
    def target(self) -> SplitResult:
        """The address, taken apart."""
        return urlsplit(self.url)

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            has_host = False
        if not has_host or parts.scheme not in ("http", "https"):
            raise ValueError("must be an address such as http://127.0.0.1:8061")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must hold no name and password; put the key into a file and name it with --key-file")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError(f"ends after the port ({parts.scheme}://{parts.netloc}); --api chooses the path")
        return value

    @field_validator("limit_seconds")
    @classmethod
    def _bound_limit(cls, value: float) -> float:
        if not 1.0 <= value <= 86_400.0:
            raise ValueError("must be 1s to 24h: a bench is bounded")
        return value

    @model_validator(mode="after")
    def _bound_tokens(self) -> "BenchSettings":
        tokens = self.requests * (self.prompt_tokens + self.max_tokens)
        if tokens > MAX_TOKENS_IN_ALL:
            raise ValueError(
                f"--requests times --prompt-tokens and --max-tokens is {tokens:,} tokens; at most "
                f"{MAX_TOKENS_IN_ALL:,} are sent in one bench"
            )
        return self
