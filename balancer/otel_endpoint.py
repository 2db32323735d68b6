"""Where spans go, as the operator wrote it. Pure."""

from urllib.parse import urlsplit

TRACES_PATH = "/v1/traces"


def check_otel_endpoint(value: str | None) -> str | None:
    """The URL to post to: one without a path has the standard one (OTLP specification, "OTLP/HTTP Request").

    Raises ValueError with what is wrong, without quoting what may be a password.
    """
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, has_host = None, False
    if parts is None or parts.scheme not in ("http", "https") or not has_host or not value.isprintable():
        raise ValueError("must be a URL such as http://127.0.0.1:4318")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no password: put an Authorization header into OTEL_EXPORTER_OTLP_HEADERS")
    return f"{value.rstrip('/')}{TRACES_PATH}" if parts.path in ("", "/") and not parts.query else value
