"""What is made of a request before the engine gets it, on worker threads: its prompt, its options, its constraint."""

from dataclasses import dataclass, field, replace

from agent.core.backend import ConstraintMatcher
from agent.model_port import LoadedModel
from agent.prompt_preparation import NO_ECHO, EchoedPrompt, prepare_prompt, prompt_text
from agent.request_options import EngineOptions, check_prompt_start, prepare_options
from shared.failures import Failure
from shared.messages_to_agent import Generate


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """What takes long to make: a constraint, and with regexes among them the stop rules."""

    options: EngineOptions
    constraint: ConstraintMatcher | None = None


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """`echo`: the prompt's text, where it was asked for."""

    prompt: tuple[int, ...]
    echo: EchoedPrompt = NO_ECHO
    rules: CompiledRules = field(default=CompiledRules(EngineOptions()))

    def with_rules(self, rules: CompiledRules) -> "PreparedRequest":
        """The same prompt with rules that were made elsewhere."""
        return replace(self, rules=rules)


def must_compile(message: Generate) -> bool:
    """Whether `compile_rules` is needed beside `read_prompt`."""
    return message.constraint is not None or (message.stop is not None and bool(message.stop.regexes))


def read_prompt(message: Generate, model: LoadedModel) -> PreparedRequest | Failure:
    """The prompt, and the options unless there is something to compile. Blocks as long as tokenising takes."""
    reader = model.reader
    prompt = prepare_prompt(message, reader, model.limits.request_limit_tokens)
    if isinstance(prompt, Failure):
        return prompt
    options = EngineOptions() if must_compile(message) else prepare_options(message, reader.size, model.adapters)
    if isinstance(options, Failure):
        return options
    if failure := check_prompt_start(message, len(prompt)):
        return failure
    shows_special = message.stop is not None and not message.stop.skips_special_tokens
    echo = prompt_text(prompt, reader, shows_special=shows_special) if message.echo else NO_ECHO
    return PreparedRequest(prompt, echo, CompiledRules(options))


def compile_rules(message: Generate, model: LoadedModel) -> CompiledRules | Failure:
    """Options, regexes and constraint. Blocks, for a second or so at most."""
    options = prepare_options(message, model.reader.size, model.adapters)
    if isinstance(options, Failure):
        return options
    if message.constraint is None:
        return CompiledRules(options)
    constraint = model.constraints.compile(message.constraint)
    return constraint if isinstance(constraint, Failure) else CompiledRules(options, constraint)
