"""Structural tags: free text with constrained regions, in SGLang's older form and in XGrammar's formats.

    parse_structural_tag('{"type": "structural_tag", "format": {"type": "any_text"}}')

What each format means is said in `docs/structured-output.md`. All of it becomes the one tree of `agent.constraint`:
pure, bounded in depth and number, and refused with a JSON pointer where it cannot be honoured exactly.
"""

from typing import Any

from agent.constraint.errors import GrammarError, SchemaError
from agent.constraint.json_schema.text import read_schema
from agent.constraint.structural_tag.content import Contents
from agent.constraint.structural_tag.lowering import Around, Lowering
from agent.constraint.structural_tag.reader import read_structural_tag
from agent.constraint.structural_tag.spelled_tokens import refuse_spelled_tokens
from agent.constraint.structural_tag.tokens import ControlTokens, TokenizerForm
from agent.constraint.tree import Grammar

ROOT = "root"


def parse_structural_tag(text: str | dict[str, Any], form: TokenizerForm | None = None) -> Grammar:
    """The grammar of a structural tag, given as JSON text or read already.

    `form` is the vocabulary that token formats speak of; without it they are refused. Raises GrammarError with the
    JSON pointer of what is wrong or cannot be honoured, and what to do.
    """
    try:
        document = read_schema(text)
    except SchemaError as error:
        # One strict reader of JSON for the package; it was written for schemas and says so.
        raise GrammarError(str(error).replace("the schema", "the structural tag")) from None
    contents = Contents()
    found, tokens = read_structural_tag(document), ControlTokens(form)
    refuse_spelled_tokens(found, tokens)
    root = Lowering(contents, tokens).lower(found, Around())
    return Grammar({ROOT: root, **contents.rules}, ROOT, contents.options, tuple(contents.schemas))
