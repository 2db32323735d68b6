"""Whether a chat template compiles. It is never rendered here, and nothing in it is evaluated.

Agents render with the same extensions. Jinja evaluates constant expressions while it compiles; `{{ 9**9**9 }}` would
then never come back, so every way to that is closed here.
"""

from typing import Any, Final

from jinja2 import Environment, TemplateError, nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_REASON_CHARACTERS: Final = 200
# Python's own compiler holds the interpreter lock while it works: some 30 ms for this much.
MAX_COMPILED_CHARACTERS: Final = 100_000


class GenerationTag(Extension):
    """`{% generation %} ... {% endgeneration %}`, which templates of the hub put around the assistant's turns."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 reads it so)

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """The body without the tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def compile_fault(template: str) -> str | None:
    """One sentence, or None for a template that compiles. Takes seconds for the longest: not on the loop."""
    try:
        source = _environment().compile(template, raw=True)
        if len(source) <= MAX_COMPILED_CHARACTERS:
            compile(source, "<chat template>", "exec")
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f" (line {line})" if line is not None else ""
        return f"{str(error.message or type(error).__name__)[:MAX_REASON_CHARACTERS]}{where}"
    except (RecursionError, MemoryError):
        return "it is nested too deeply"
    except (SyntaxError, ValueError, OverflowError) as error:  # from Python's compiler, about what Jinja made of it
        return str(error.args[0] if error.args else error)[:MAX_REASON_CHARACTERS]
    return None


def _environment() -> Environment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", GenerationTag],
        optimized=False,
        finalize=_not_at_compile_time,
    )
    environment.intercepted_binops = frozenset(environment.binop_table)
    environment.filters = dict.fromkeys(environment.filters, _not_at_compile_time)
    environment.tests = dict.fromkeys(environment.tests, _not_at_compile_time)
    return environment


@pass_context
def _not_at_compile_time(_: Context, value: Any) -> Any:
    """That it wants a context keeps Jinja from folding what is printed."""
    return value
