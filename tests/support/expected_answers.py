"""What a request with rules answers when it runs alone: one token at a time, its whole text looked at after each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.core.backend import LogprobsWanted
from agent.core.stop_rules import StopRules
from agent.core.text_assembly import TextAssembler
from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.logprobs import LogprobEntry, LogprobPlace
from tests.support.scripted_backend import (
    END_TOKEN,
    VOCABULARY_SIZE,
    ScriptedReading,
    ScriptedRow,
    ScriptedVocabulary,
    digest,
    draw,
)
from tests.support.scripted_constraint import ConstraintScript

EVERY_TOKEN = frozenset(range(VOCABULARY_SIZE))


@dataclass(slots=True)
class ExpectedAnswer:
    """`ending` is None only while it is being made. `rows`: by token of prompt and answer, the row after it."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    ending: FinishReason | FailureKind | None = None
    matched_stop: str | int | None = None
    rows: list[int] = field(default_factory=list)

    def place(self, index: int, token: int, wanted: LogprobsWanted) -> LogprobPlace:
        """Log-probabilities of the token at `index` of prompt and answer."""
        if index == 0:
            return LogprobPlace(LogprobEntry(token, None))
        reading = ScriptedReading(ScriptedRow(self.rows[index - 1]), wanted)
        entries = [tuple(LogprobEntry(*pair) for pair in pairs) for pairs in (reading.top, reading.asked)]
        return LogprobPlace(LogprobEntry(token, reading.of(token)), *entries)


def text_of(tokens: Sequence[int]) -> str:
    assembler, vocabulary = TextAssembler(), ScriptedVocabulary()
    return "".join(assembler.push(vocabulary.token_piece(token)) for token in tokens)


def earliest_match(text: str, strings: Sequence[str], known: int) -> tuple[int, str] | None:
    """Beginning and string of the match that is complete first, behind the `known` first characters of the text."""
    for end in range(known + 1, len(text) + 1):
        found = [(end - len(string), string) for string in strings if text[:end].endswith(string)]
        if found:
            return min(found)
    return None


def expected_with_rules(
    prompt: Sequence[int],
    limits: tuple[int, int],
    script: ConstraintScript | None,
    rules: StopRules,
    strings: Sequence[str],
    adapter: str | None = None,
) -> ExpectedAnswer:
    """`limits`: max_tokens and the request limit. `strings`: the stop strings of the rules."""
    answer = ExpectedAnswer()
    cells: list[tuple[int, int]] = []
    while answer.ending is None:
        answer.ending = _ending(len(prompt), answer.tokens, limits, script)
        if answer.ending is None:
            tokens = [*prompt, *answer.tokens]
            for position in range(len(cells), len(tokens)):
                cells.append((position, digest(tokens[position], position, cells, adapter)))
            answer.rows = [one for _, one in cells]
            warmth = 0 if script is None else int(script.temperature(answer.tokens) or 0)
            token = draw(cells[-1][1] + warmth, _allowed(answer.tokens, script, rules))
            _take(answer, token, script, rules, strings)
    if answer.matched_stop is None:
        answer.text = text_of(answer.tokens)
    return answer


def _ending(
    prompt_tokens: int, answer: Sequence[int], limits: tuple[int, int], script: ConstraintScript | None
) -> FinishReason | FailureKind | None:
    if script is not None and len(answer) >= script.length:
        return FinishReason.STOP
    if len(answer) >= limits[0] or prompt_tokens + len(answer) >= limits[1]:
        return FinishReason.LENGTH
    if script is not None and script.breaks_at is not None and len(answer) >= script.breaks_at:
        return FailureKind.GRAMMAR_REJECTED_OUTPUT
    return None


def _allowed(answer: Sequence[int], script: ConstraintScript | None, rules: StopRules) -> frozenset[int] | None:
    allowed = None if script is None else script.allowed(answer)
    if rules.ignores_end:
        return allowed
    missing = rules.min_tokens - len(answer)
    if missing > 0:
        allowed = ((allowed or EVERY_TOKEN) - {END_TOKEN}) or allowed
    if missing > 1 and rules.token_ids:
        allowed = ((allowed or EVERY_TOKEN) - rules.token_ids) or allowed
    return allowed


def _take(
    answer: ExpectedAnswer,
    token: int | None,
    script: ConstraintScript | None,
    rules: StopRules,
    strings: Sequence[str],
) -> None:
    assert token is not None
    may_end = len(answer.tokens) + 1 >= rules.min_tokens
    if token == END_TOKEN and (script is not None or not (rules.ignores_end or token in rules.token_ids)):
        answer.ending = FinishReason.STOP
        return
    before = text_of(answer.tokens)
    answer.tokens.append(token)
    text = text_of(answer.tokens)
    if may_end and (match := earliest_match(text, strings, len(before))):
        start, answer.matched_stop = match
        answer.text = text[: start + len(match[1])] if rules.keeps_match else text[:start]
        answer.ending = FinishReason.STOP
    elif may_end and token in rules.token_ids and not rules.ignores_end:
        answer.matched_stop = token
        answer.text = text if rules.keeps_match else before
        answer.ending = FinishReason.STOP
