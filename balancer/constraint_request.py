"""From what a client's body says about a constraint to the message for an agent: one way for every family of routes.

Pure. Only size is looked at here; the agent, which knows the vocabulary, compiles it before the first token.
"""

from typing import Literal

from shared.failures import Failure, FailureKind
from shared.messages_to_agent import MAX_CONSTRAINT_BYTES, MAX_ROOT_CHARACTERS, ConstraintText

ConstraintKind = Literal["gbnf", "json_schema", "ebnf", "regex", "structural_tag"]

PARAMETER = "grammar"


def constraint_text(kind: ConstraintKind, text: str, root: str | None = None) -> ConstraintText | Failure:
    """The message's part, or why the constraint is refused: over a size limit it is a wrong one, like any other."""
    if len(text) > MAX_CONSTRAINT_BYTES or len(text.encode()) > MAX_CONSTRAINT_BYTES:
        sentence = f"The {kind} constraint is longer than {MAX_CONSTRAINT_BYTES} bytes; shorten it."
        return Failure(failure_kind(kind), sentence, PARAMETER)
    if root is not None and len(root) > MAX_ROOT_CHARACTERS:
        sentence = f"The name of the root rule is longer than {MAX_ROOT_CHARACTERS} characters; choose a shorter one."
        return Failure(failure_kind(kind), sentence, PARAMETER)
    return ConstraintText(kind=kind, text=text, root=root)


def failure_kind(kind: ConstraintKind) -> FailureKind:
    """Paddler's two words for a constraint that cannot be used: one for schemas, one for grammars."""
    return FailureKind.GRAMMAR_SYNTAX if kind == "json_schema" else FailureKind.GRAMMAR_INITIALIZATION
