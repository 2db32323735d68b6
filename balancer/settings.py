"""Every setting of `steersman balancer`, its default and what `--help` says about it. Names and defaults are Paddler's
where it has the setting; `shared.settings_sources` says where values come from."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from balancer.cors import parse_origin
from balancer.otel_endpoint import check_otel_endpoint
from balancer.redis_address import DEFAULT_KEY_PREFIX
from shared.settings_sources import Address, AlsoSpelled, Command, Duration, HostPort, SettingsModel

COMMAND: Final = Command(
    program="steersman balancer",
    summary=(
        "Face the clients, keep the desired state of the fleet, and hand work to the agents that dial in. "
        "Without any flag it serves on this machine only and forgets the desired state when it stops."
    ),
    environment_prefix="STEERSMAN_BALANCER_",
    lesson=(
        "examples:",
        "  steersman balancer",
        "  steersman balancer --state-database file:///var/lib/steersman/state.json",
        "  steersman balancer --state-database redis://127.0.0.1:6379/0 --log-format json",
        "Then: steersman agent --management-addr 127.0.0.1:8060 --slots 4; steersman status",
    ),
)

MAX_HEARTBEAT_SECONDS: Final = 600.0
INT32_MAX: Final = 2**31 - 1
GIBIBYTE: Final = 1024**3

Origin = Annotated[str, AfterValidator(parse_origin)]


class BalancerSettings(SettingsModel):
    """Durations are seconds here; on the outside whole milliseconds, or `10s`, `500ms`."""

    inference_addr: HostPort = Field(Address("127.0.0.1", 8061), description="HOST:PORT where clients ask for tokens")
    management_addr: HostPort = Field(
        Address("127.0.0.1", 8060),
        description="HOST:PORT where agents dial in, operators set the desired state, and /metrics and /ready are",
    )
    compat_addr: Annotated[HostPort, AlsoSpelled("compat-openai-addr")] = Field(
        Address("127.0.0.1", 8070), description="HOST:PORT where clients of other systems ask for completions"
    )
    state_database: str = Field(
        "memory://",
        min_length=1,
        description=(
            "where the desired state is kept: memory://, file:///absolute/path, redis://host:6379/0, rediss://... "
            "or unix:///path/to/redis.sock"
        ),
    )
    redis_password_file: Path | None = Field(
        None, description="a file with the password of Redis, so that it is not in the address"
    )
    redis_key_prefix: str = Field(
        DEFAULT_KEY_PREFIX, description="begins every key, so that several fleets can share one Redis"
    )
    max_buffered_requests: int = Field(
        30,
        ge=0,
        le=INT32_MAX,
        description="how many requests may wait for a slot; one more is refused with 503; 0: none waits",
    )
    buffered_request_timeout_seconds: Duration = Field(
        10.0, description="how long a request may wait for a slot before it gets 504"
    )
    inference_item_timeout_seconds: Duration = Field(
        30.0, description="the longest silence of an agent within one request before it ends with 504; 0: no limit"
    )
    inference_cors_allowed_host: tuple[Origin, ...] = Field(
        (), description="an origin whose pages may use inference and compatibility, such as https://app.example.com"
    )
    management_cors_allowed_host: tuple[Origin, ...] = Field(
        (), description="an origin whose pages may use the management service"
    )
    completions_text_prompts: bool = Field(
        False, description="let /v1/completions take text prompts as well as token ids"
    )
    max_choices_per_request: int = Field(
        128, ge=1, le=128, description="how many answers one request may ask for: its prompts times n"
    )
    metrics_prefix: Annotated[str, AlsoSpelled("statsd-prefix")] = Field(
        "paddler_",
        description="begins the names of Paddler's three gauges in /metrics and for StatsD",
    )
    agent_metrics: bool = Field(
        False, description="also show figures of each agent in /metrics, for at most 1,000 names of agents"
    )
    statsd_addr: HostPort | None = Field(
        None, description="HOST:PORT of a StatsD server that gets Paddler's three gauges over UDP"
    )
    statsd_reporting_interval_seconds: Duration = Field(10.0, description="how often the StatsD server gets them")
    max_request_bytes: int = Field(
        8 * 1024 * 1024,
        ge=1024,
        le=GIBIBYTE,
        description="the largest request body in bytes; a larger one is refused with 413",
    )
    max_pending_bytes: int = Field(
        1024 * 1024,
        ge=4096,
        le=GIBIBYTE,
        description="how many bytes of an answer may wait for a slow client; over it the client is dropped",
    )
    heartbeat_interval_seconds: Duration = Field(
        5.0, description="how often agents and balancer show that they live; an agent silent for two of these is lost"
    )
    drain_timeout_seconds: Duration = Field(
        60.0, description="after SIGTERM: how long requests may go on before the rest gets 503"
    )
    agent_token_file: Path | None = Field(
        None, description="a file with the token that agents must show; without it every process may be an agent"
    )
    inference_keys_file: Path | None = Field(
        None, description="a file of name:key lines; clients of inference and compatibility must show one of the keys"
    )
    management_token_file: Path | None = Field(
        None, description="a file with the token that operators must show to the management service"
    )
    tls_cert: Path | None = Field(
        None, description="a PEM file with the certificate chain of all three services; they then speak TLS only"
    )
    tls_key: Path | None = Field(None, description="a PEM file with the private key of --tls-cert")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error; logs go to stderr"
    )
    log_format: Literal["readable", "json"] = Field(
        "readable", description="how lines of the log look: readable, or json, one object a line"
    )
    log_prompts: bool = Field(
        False,
        description="log the beginning of every prompt: for debugging only, since whoever reads the log reads them",
    )
    otel_endpoint: Annotated[str | None, AfterValidator(check_otel_endpoint)] = Field(
        None,
        description=(
            "the URL of an OpenTelemetry collector that gets a span of each request over OTLP/HTTP, such as "
            "http://127.0.0.1:4318; needs the extra `otel`"
        ),
    )

    @property
    def has_access_files(self) -> bool:
        """Whether anything can be read again while it runs."""
        files = (self.agent_token_file, self.inference_keys_file, self.management_token_file, self.tls_cert)
        return any(file is not None for file in files)

    @model_validator(mode="after")
    def _check_tls(self) -> "BalancerSettings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("--tls-cert and --tls-key must be given together")
        return self

    @field_validator("metrics_prefix")
    @classmethod
    def _check_prefix(cls, value: str) -> str:
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", value):
            raise ValueError("must begin with a letter or _, then letters, digits and _, at most 64 in all")
        return value

    @field_validator("statsd_reporting_interval_seconds")
    @classmethod
    def _bound_reporting_interval(cls, value: float) -> float:
        if value < 0.01:
            raise ValueError("must be 10ms or more")
        return value

    @field_validator("heartbeat_interval_seconds")
    @classmethod
    def _bound_heartbeat(cls, value: float) -> float:
        # The agents' welcome message carries it and has the same bounds.
        if not 0.1 <= value <= MAX_HEARTBEAT_SECONDS:
            raise ValueError("must be 100ms to 10m")
        return value
