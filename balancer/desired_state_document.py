"""The text form of a stored desired state, for the file store: Paddler's file with one more key, `revision`.

    {"balancer_desired_state": {...}, "version": "1", "revision": 7}

Paddler refuses a file with a key that it does not know, so delete `revision` to go back to it. Its own files (version
"1", "" or none) are read as revision 1.
"""

from typing import Annotated

import orjson
from pydantic import Field, ValidationError

from balancer.desired_state_store import FORMAT_VERSION, NEVER_STORED, StoredState, StoreUnavailable
from balancer.validation_sentences import fault_sentences
from shared.desired_state import BalancerDesiredState, StrictModel

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
FIRST_REVISION = 1
MAX_REVISION = 2**53 - 1  # exact in every JSON reader


class _Document(StrictModel):
    balancer_desired_state: BalancerDesiredState
    version: str = ""
    revision: Annotated[int, Field(ge=FIRST_REVISION, le=MAX_REVISION)] = FIRST_REVISION


class _Version(StrictModel, extra="ignore"):
    version: str = ""


def read_document(content: bytes, name: str) -> StoredState:
    """Empty content is NEVER_STORED, as for Paddler. Raises StoreUnavailable with a sentence that begins with
    `name`, for a version that this software does not know, too."""
    if not content.strip():
        return NEVER_STORED
    if len(content) > MAX_DOCUMENT_BYTES:
        raise StoreUnavailable(f"{name} is larger than {MAX_DOCUMENT_BYTES} bytes; it is no desired state")
    try:
        # First the version alone: a newer document may well have keys that only a newer reader knows.
        version = _Version.model_validate_json(content).version
        if version not in ("", FORMAT_VERSION):
            raise StoreUnavailable(
                f"{name} has version {version[:40]!r} and this software reads version {FORMAT_VERSION!r}; it may "
                "have been written by a newer one"
            )
        document = _Document.model_validate_json(content)
    except ValidationError as error:
        raise StoreUnavailable(f"{name} cannot be read: {'; '.join(fault_sentences(error))}") from None
    return StoredState(document.revision, document.balancer_desired_state)


def write_document(stored: StoredState) -> bytes:
    """Pretty-printed, as Paddler does it, for those who read it."""
    document = {
        "balancer_desired_state": stored.state.document(),
        "version": FORMAT_VERSION,
        "revision": stored.revision,
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def read_state(text: bytes, name: str) -> BalancerDesiredState:
    """One desired state without anything around it. Raises StoreUnavailable."""
    try:
        return BalancerDesiredState.model_validate_json(text)
    except ValidationError as error:
        raise StoreUnavailable(f"{name} cannot be read: {'; '.join(fault_sentences(error))}") from None
