"""What is made of a request before the engine gets it, on worker threads: its prompt, its options, its constraint."""

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from agent.core.backend import ConstraintMatcher
from agent.model_port import LoadedModel
from agent.prompt_preparation import NO_ECHO, EchoedPrompt, prepare_prompt, prompt_text
from agent.request_options import EngineOptions, check_prompt_start, prepare_options
from shared.failures import Failure
from shared.messages_to_agent import Generate


@dataclass(frozen=True, slots=True)
class Readers:
    """Threads on which requests are read: apart, so that nobody's long compile keeps another's prompt waiting."""

    prompts: Executor
    constraints: Executor  # they mostly wait for the compiler, so there are as many as slots


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


async def prepare_request(message: Generate, model: LoadedModel, readers: Readers) -> PreparedRequest | Failure:
    """All of it. Cancelled here: both halves are given up, though one that runs already runs on unheard."""
    loop = asyncio.get_running_loop()
    reading = loop.run_in_executor(readers.prompts, read_prompt, message, model)
    if not must_compile(message):
        return await reading
    compiling = loop.run_in_executor(readers.constraints, compile_rules, message, model)
    prompt, rules = await asyncio.gather(reading, compiling)
    if isinstance(prompt, Failure):
        return prompt
    return rules if isinstance(rules, Failure) else prompt.with_rules(rules)


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
    echo = prompt_text(prompt, reader, message.stop) if message.echo else NO_ECHO
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
