"""An address that cannot be had: why, and which flag names another, without the address said again."""

import errno
import socket

import pytest

from shared.listening_fault import listening_fault

BINDING = "error while attempting to bind on address ('127.0.0.1', 8060): "


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EADDRINUSE, f"{BINDING}address already in use"), "in use; does another balancer run here?"),
        (OSError(errno.EADDRNOTAVAIL, f"{BINDING}cannot assign requested address"), "this host has no such address."),
        (OSError(errno.EACCES, f"{BINDING}permission denied"), "below 1024 they are root's."),
        (OSError(errno.ENOBUFS, f"{BINDING}no buffer space available"), "No buffer space available."),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known."),
        (OSError("strange"), "strange."),
    ],
)
def test_the_reason_and_the_flag_that_names_another(error: OSError, words: str) -> None:
    fault = listening_fault(error, "balancer", "--management-addr")
    assert words in fault
    assert fault.endswith(" --management-addr HOST:PORT takes another")
    assert "8060" not in fault
