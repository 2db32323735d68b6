"""From the tokens of an answer to what the client gets to see of them, up to the text or the token that ends it."""

from typing import NamedTuple

from agent.core.backend import Vocabulary
from agent.core.events import TokensCommitted
from agent.core.sequence import MemberSequence
from agent.core.stop_rules import StopRules
from shared.generation import Channel
from shared.logprobs import LogprobPlace


class Report(NamedTuple):
    """One event for each token; `matched_stop`: the answer ends with the last of them."""

    events: tuple[TokensCommitted, ...]
    matched_stop: str | int | None = None


class AnswerText:
    """Works on the members' records; keeps nothing itself."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def report(self, sequence: MemberSequence, logprobs: LogprobPlace | None = None) -> Report:
        """Tell the tokens that were not told yet. Tokens behind one that ends the answer are dropped from it.

        `logprobs` belong to the newest token; where they are wanted there is only that one.
        """
        stops = sequence.stops
        if stops is not None:
            return self._report_until_stop(sequence, stops, logprobs)
        first = sequence.reported_tokens
        tokens = sequence.tokens[sequence.prompt_tokens + first :]
        sequence.reported_tokens = first + len(tokens)
        key, push, piece = sequence.key, sequence.text.push, self._vocabulary.token_piece
        if len(tokens) == 1:  # as nearly always
            text = push(piece(tokens[0]))
            return Report((TokensCommitted(key, first, (tokens[0],), text, Channel.CONTENT, logprobs),))
        return Report(
            tuple(
                TokensCommitted(key, index, (token,), push(piece(token)), Channel.CONTENT, logprobs)
                for index, token in enumerate(tokens, first)
            )
        )

    def flush(self, sequence: MemberSequence) -> tuple[TokensCommitted, ...]:
        """Text that was held back, of an answer that ends without a match."""
        rest = sequence.text.flush()
        if sequence.search is not None:
            rest = sequence.search.flush() + rest
        if not rest:
            return ()
        return (TokensCommitted(sequence.key, sequence.reported_tokens, (), rest, Channel.CONTENT),)

    # Private

    def _report_until_stop(self, sequence: MemberSequence, stops: StopRules, logprobs: LogprobPlace | None) -> Report:
        events: list[TokensCommitted] = []
        start = sequence.prompt_tokens
        for place in range(start + sequence.reported_tokens, len(sequence.tokens)):
            token, index = sequence.tokens[place], place - start
            text, matched = self._text_of(sequence, stops, token, may_end=index + 1 >= stops.min_tokens)
            events.append(TokensCommitted(sequence.key, index, (token,), text, Channel.CONTENT, logprobs))
            sequence.reported_tokens += 1
            if matched is not None:
                del sequence.tokens[place + 1 :]
                return Report(tuple(events), matched)
        return Report(tuple(events))

    def _text_of(
        self, sequence: MemberSequence, stops: StopRules, token: int, *, may_end: bool
    ) -> tuple[str, str | int | None]:
        """The text that may be sent now; and what ends the answer: a text before a token, as in SGLang."""
        is_stop = may_end and not stops.ignores_end and token in stops.token_ids
        search = sequence.search
        held = search.held if search is not None else ""
        text = sequence.text.push(self._piece(sequence, stops, token))
        if search is not None:
            text, matched = search.push(text, may_end=may_end)
            if matched is not None:
                return text, matched
        if not is_stop:
            return text, None
        if not stops.keeps_match:
            return held, token  # without its own text; what was held before it can no longer become a match
        return text + (search.flush() if search is not None else ""), token

    def _piece(self, sequence: MemberSequence, stops: StopRules, token: int) -> bytes:
        piece = self._vocabulary.token_piece(token)
        if piece or not stops.shows_special:
            sequence.ends_with_special = False
            return piece
        piece = self._vocabulary.token_text(token).encode()
        gap = b" " if stops.spaces_special and sequence.ends_with_special else b""
        sequence.ends_with_special = True
        return gap + piece
