"""What can be wrong with a frame, and the websocket close code that says so (RFC 6455, 7.4.1)."""

from typing import Final

CLOSE_PROTOCOL: Final = 1002
CLOSE_POLICY: Final = 1008
CLOSE_TOO_BIG: Final = 1009


class WireError(Exception):
    """A frame that breaks the protocol; the link that brought it is closed with `close_code`."""

    def __init__(self, message: str, close_code: int) -> None:
        super().__init__(message)
        self.close_code = close_code


class ProtocolVersionMismatch(WireError):
    """The peer speaks another version of the protocol: one of the two has to be upgraded."""

    def __init__(self, *, ours: int, our_software_version: str, theirs: int, their_software_version: str) -> None:
        self.ours = ours
        self.theirs = theirs
        self.our_software_version = our_software_version
        self.their_software_version = their_software_version
        older = "the peer" if theirs < ours else "this side"
        super().__init__(
            f"this side (steersman {our_software_version}) speaks protocol version {ours}, "
            f"the peer (steersman {their_software_version}) speaks {theirs}: upgrade {older}",
            CLOSE_PROTOCOL,
        )
