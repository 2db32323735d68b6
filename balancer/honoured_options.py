"""Which fields of the completion routes the agents of this release do not honour yet. They are refused, never ignored.

One place: when an agent learns an option, its name goes.
"""

from collections.abc import Mapping
from typing import Any, Final

from shared.failures import Failure, FailureKind

NOT_HONOURED_YET: Final[frozenset[str]] = frozenset()


def refuse_what_is_not_honoured(
    given: Mapping[str, Any], defaults: Mapping[str, Any], *, not_yet: frozenset[str] = NOT_HONOURED_YET
) -> Failure | None:
    """`given`: the fields that the client spelled out, by name; `defaults`: of every field."""
    for name, value in given.items():
        if name in not_yet and value != defaults[name]:
            return Failure(FailureKind.INVALID_REQUEST, f"{name}: is not supported yet; leave it out", name)
    return None
