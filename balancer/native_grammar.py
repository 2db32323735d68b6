"""The `grammar` of a native body: five types, told apart by `type`. Schemas and tags are text or an object."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from balancer.constraint_request import ConstraintKind, constraint_text
from balancer.validation_sentences import UNION_TAG
from shared.desired_state import WHOLE_SENTENCE, StrictModel
from shared.failures import Failure
from shared.messages_to_agent import ConstraintText

OBJECTS_AS_TEXT: Final = frozenset({("grammar", "schema"), ("grammar", "structural_tag")})
"""For `body_parsing`: objects reach the models below as text."""


def _text_or_object(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("text_or_object", "must be a string or an object")
    return value


JsonText = Annotated[str, BeforeValidator(_text_or_object, json_schema_input_type=str | dict[str, Any])]


class GbnfGrammar(StrictModel):
    """A grammar in llama.cpp's GBNF. `root` names its first rule; there is no default."""

    type: Literal["gbnf"]
    grammar: str
    root: str

    def constraint(self) -> ConstraintText | Failure:
        """For the agent, or why not."""
        return constraint_text(self.type, self.grammar, self.root)


class EbnfGrammar(StrictModel):
    """A grammar in XGrammar's EBNF; its first rule is `root`."""

    type: Literal["ebnf"]
    grammar: str

    def constraint(self) -> ConstraintText | Failure:
        """For the agent, or why not."""
        return constraint_text(self.type, self.grammar)


class RegexGrammar(StrictModel):
    """A regular expression that the whole output matches."""

    type: Literal["regex"]
    pattern: str

    def constraint(self) -> ConstraintText | Failure:
        """For the agent, or why not."""
        return constraint_text(self.type, self.pattern)


class JsonSchemaGrammar(StrictModel):
    """A JSON schema."""

    type: Literal["json_schema"]
    schema_: Annotated[JsonText, Field(alias="schema")]

    def constraint(self) -> ConstraintText | Failure:
        """For the agent, or why not."""
        return constraint_text(self.type, self.schema_)


class StructuralTagGrammar(StrictModel):
    """Free text with constrained regions, in either of SGLang's forms."""

    type: Literal["structural_tag"]
    structural_tag: JsonText

    def constraint(self) -> ConstraintText | Failure:
        """For the agent, or why not."""
        return constraint_text(self.type, self.structural_tag)


_TYPES: Final = ConstraintKind.__args__  # type: ignore[attr-defined]
_WORDS: Final = " or ".join((", ".join(f'"{one}"' for one in _TYPES[:-1]), f'"{_TYPES[-1]}"'))


def _of_known_type(value: Any) -> Any:
    """Before the union looks: it would blame `grammar` for what is wrong with `grammar.type`."""
    if not isinstance(value, dict):
        raise PydanticCustomError("grammar_type", f"must be an object whose type is {_WORDS}")
    if "type" not in value:
        raise PydanticCustomError(WHOLE_SENTENCE, f"grammar.type: is required; it must be {_WORDS}")
    if value["type"] not in _TYPES:
        raise PydanticCustomError(WHOLE_SENTENCE, f"grammar.type: must be {_WORDS}")
    return value


def _type_of(value: Any) -> str:
    return f"{UNION_TAG}{value['type']}"


Grammar = Annotated[
    Annotated[GbnfGrammar, Tag(UNION_TAG + "gbnf")]
    | Annotated[JsonSchemaGrammar, Tag(UNION_TAG + "json_schema")]
    | Annotated[EbnfGrammar, Tag(UNION_TAG + "ebnf")]
    | Annotated[RegexGrammar, Tag(UNION_TAG + "regex")]
    | Annotated[StructuralTagGrammar, Tag(UNION_TAG + "structural_tag")],
    Discriminator(_type_of),
    BeforeValidator(_of_known_type),
]
