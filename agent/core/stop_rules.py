"""What ends an answer before its limit, beside the model's own end and a finished constraint."""

from dataclasses import dataclass

from agent.core.stop_search import StopPattern, StopSearch, StopStrings


@dataclass(frozen=True, slots=True)
class StopRules:
    """A request's own rules; shared by nothing that changes.

    An answer has at least `min_tokens` tokens, unless its constraint is complete before. `ignores_end`: neither the
    model's own end nor `token_ids` end it; end tokens are ordinary ones then. `keeps_match`: what matched stays in
    the text. `shows_special`: control tokens have text, with `spaces_special` a space between two in a row.
    """

    strings: StopStrings | None = None
    patterns: tuple[StopPattern, ...] = ()
    token_ids: frozenset[int] = frozenset()
    keeps_match: bool = False
    min_tokens: int = 0
    ignores_end: bool = False
    shows_special: bool = False
    spaces_special: bool = False

    def search(self) -> StopSearch | None:
        """For a new answer; None when no text can end it."""
        if self.strings is None and not self.patterns:
            return None
        return StopSearch(self.strings or StopStrings(()), self.patterns, keeps_match=self.keeps_match)
