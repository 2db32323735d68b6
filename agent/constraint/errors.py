"""How a constraint can be refused: one word for what is wrong, and where."""

from agent.constraint.tree import Position

MAX_MESSAGE_CHARACTERS = 2_000


class ConstraintError(Exception):
    """The constraint cannot be honoured. The message is one plain sentence for the client and says what to do.

    It never quotes more than a few characters of the client's text.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence[:MAX_MESSAGE_CHARACTERS])


class GrammarError(ConstraintError):
    """A grammar, regex or structural tag is refused. `position` is where."""

    def __init__(self, sentence: str, position: Position | None = None) -> None:
        where = "" if position is None else f"line {position.line}, column {position.column}: "
        super().__init__(where + sentence)
        self.position = position


class SchemaError(ConstraintError):
    """A JSON schema is refused. `path` is a JSON pointer into the schema (`#/properties/a`)."""

    def __init__(self, sentence: str, path: str = "#") -> None:
        super().__init__(f"{path}: {sentence}")
        self.path = path
