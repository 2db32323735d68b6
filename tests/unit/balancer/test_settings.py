"""The balancer's flags: names, defaults, sources, and one sentence for each wrong value."""

from pathlib import Path

import pytest

from balancer.settings import COMMAND, BalancerSettings
from shared.settings_sources import Address, SettingsError, load_settings


def load(*arguments: str, **environment: str) -> BalancerSettings:
    variables = {f"STEERSMAN_BALANCER_{name}": value for name, value in environment.items()}
    return load_settings(BalancerSettings, COMMAND, arguments, variables)


def complaint(*arguments: str, **environment: str) -> str:
    with pytest.raises(SettingsError) as caught:
        load(*arguments, **environment)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_are_those_of_the_wire_facts() -> None:
    settings = load()
    assert settings.inference_addr == Address("127.0.0.1", 8061)
    assert settings.management_addr == Address("127.0.0.1", 8060)
    assert settings.state_database == "memory://"
    assert settings.max_buffered_requests == 30
    assert settings.buffered_request_timeout_seconds == 10.0
    assert settings.inference_item_timeout_seconds == 30.0
    assert settings.max_request_bytes == 8 * 1024 * 1024
    assert settings.heartbeat_interval_seconds == 5.0
    assert settings.drain_timeout_seconds == 60.0
    assert settings.metrics_prefix == "paddler_"


def test_flags_have_the_wire_facts_names_and_forms() -> None:
    settings = load(
        *("--inference-addr", "[::1]:1", "--management-addr", "0.0.0.0:2"),
        *("--max-buffered-requests", "0", "--buffered-request-timeout", "1500"),
        *("--inference-item-timeout", "0", "--drain-timeout", "2m", "--heartbeat-interval", "500ms"),
        *("--inference-cors-allowed-host", "http://a.example", "--inference-cors-allowed-host", "https://b.example:8"),
    )
    assert settings.inference_addr == Address("::1", 1)
    assert settings.max_buffered_requests == 0
    assert settings.buffered_request_timeout_seconds == 1.5
    assert settings.inference_item_timeout_seconds == 0.0
    assert settings.drain_timeout_seconds == 120.0
    assert settings.heartbeat_interval_seconds == 0.5
    assert settings.inference_cors_allowed_host == ("http://a.example", "https://b.example:8")


def test_flag_goes_over_environment_goes_over_file(tmp_path: Path) -> None:
    file = tmp_path / "balancer.toml"
    file.write_text('max-buffered-requests = 1\ndrain-timeout = "1s"\nmetrics-prefix = "file_"\n')
    settings = load(
        "--config", str(file), "--max-buffered-requests", "3", MAX_BUFFERED_REQUESTS="2", DRAIN_TIMEOUT="2s"
    )
    assert settings.max_buffered_requests == 3
    assert settings.drain_timeout_seconds == 2.0
    assert settings.metrics_prefix == "file_"


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--inference-addr", "8061"),
        ("--inference-addr", "host:70000"),
        ("--max-buffered-requests", "-1"),
        ("--max-buffered-requests", "many"),
        ("--max-buffered-requests", "1.5"),
        ("--buffered-request-timeout", "10 parsecs"),
        ("--inference-item-timeout", "-5"),
        ("--inference-cors-allowed-host", "foo.example.com"),
        ("--management-cors-allowed-host", "*"),
        ("--heartbeat-interval", "5"),
        ("--max-request-bytes", "8MiB"),
        ("--max-pending-bytes", "0"),
        ("--metrics-prefix", "9-bad"),
        ("--log-level", "loud"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_flag(flag: str, value: str) -> None:
    said = complaint(f"{flag}={value}")
    assert said.startswith(f"{flag}: ")
    assert "nput should" not in said, "the words of a library"


def test_the_sentence_says_what_to_change() -> None:
    assert complaint("--max-buffered-requests", "-1") == "--max-buffered-requests: must be at least 0"
    assert complaint("--max-pending-bytes", "many") == "--max-pending-bytes: must be an integer"
    assert complaint("--log-level", "loud").endswith("must be one of 'debug', 'info', 'warning' or 'error'")


def test_a_wrong_value_in_the_environment_names_the_variable() -> None:
    assert complaint(DRAIN_TIMEOUT="soon").startswith("STEERSMAN_BALANCER_DRAIN_TIMEOUT")


def test_an_unknown_flag_is_refused_also_when_it_is_a_short_form() -> None:
    assert "--max-buffered" in complaint("--max-buffered", "3")


def test_variables_that_kubernetes_sets_for_a_service_are_no_settings() -> None:
    assert load(PORT="tcp://10.0.0.1:8061", SERVICE_HOST="10.0.0.1") == load()


def test_help_names_every_flag_and_says_something_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        load("--help")
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for name, field in BalancerSettings.model_fields.items():
        assert f"--{name.removesuffix('_seconds').replace('_', '-')} " in printed
        assert field.description


def test_the_compatibility_service_has_two_spellings_and_its_bounds() -> None:
    defaults = load()
    assert (defaults.compat_addr, defaults.max_choices_per_request) == (Address("127.0.0.1", 8070), 128)
    assert not defaults.completions_text_prompts
    assert load("--compat-openai-addr", "[::1]:3").compat_addr == Address("::1", 3)
    given = load("--compat-addr", "a:4", "--completions-text-prompts", "--max-choices-per-request", "8")
    assert (given.compat_addr, given.completions_text_prompts, given.max_choices_per_request) == (
        *(Address("a", 4), True),
        8,
    )
    assert "--max-choices-per-request" in complaint("--max-choices-per-request", "0")


def test_a_certificate_and_its_key_come_together() -> None:
    settings = load("--tls-cert", "/c.pem", "--tls-key", "/k.pem")
    assert (settings.tls_cert, settings.tls_key) == (Path("/c.pem"), Path("/k.pem"))
    for lonely in (("--tls-cert", "/c.pem"), ("--tls-key", "/k.pem")):
        assert complaint(*lonely) == "--tls-cert and --tls-key must be given together"


def test_a_hang_up_means_read_again_only_where_there_is_something_to_read() -> None:
    assert not load().has_access_files
    assert not load("--redis-password-file", "/p").has_access_files  # read once, at the start
    for flag in ("--inference-keys-file", "--management-token-file", "--agent-token-file"):
        assert load(flag, "/f").has_access_files


def test_statsd_is_off_and_has_the_names_and_defaults_of_the_wire_facts() -> None:
    defaults = load()
    assert (defaults.statsd_addr, defaults.statsd_reporting_interval_seconds, defaults.agent_metrics) == (
        *(None, 10.0),
        False,
    )
    given = load(
        *("--statsd-addr", "statsd.example:8125", "--statsd-prefix", "mine_", "--statsd-reporting-interval", "500"),
        "--agent-metrics",
    )
    assert given.statsd_addr == Address("statsd.example", 8125)
    assert given.metrics_prefix == "mine_"  # one setting, as there: it begins the names in both places
    assert given.statsd_reporting_interval_seconds == 0.5
    assert given.agent_metrics
    assert complaint("--statsd-reporting-interval=0") == "--statsd-reporting-interval: must be 10ms or more"
