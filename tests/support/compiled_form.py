"""What the compiled form of a grammar accepts, asked token by token as while generating."""

from llguidance import LLMatcher, LLTokenizer

from agent.constraint.lark.writing import to_lark
from agent.constraint.tree import Grammar


class CompiledForm:
    """A grammar through our back end and llguidance. Raises GrammarError as `to_lark` does."""

    def __init__(self, grammar: Grammar, tokenizer: LLTokenizer) -> None:
        self.lark = to_lark(grammar)
        self._tokenizer = tokenizer
        self._pristine = LLMatcher(tokenizer, self.lark, log_level=0)
        if self._pristine.is_error():
            raise AssertionError(f"llguidance refuses what we wrote: {self._pristine.get_error()}\n{self.lark}")

    def accepts(self, text: str) -> bool | None:
        """None: the vocabulary has no tokens for a character."""
        tokens = self._tokenizer.tokenize_str(text)
        if self._tokenizer.decode_bytes(tokens) != text.encode("utf-8"):
            return None
        return self.accepts_tokens(tokens)

    def accepts_tokens(self, tokens: list[int]) -> bool:
        """Whether the tokens, and then the end, may be generated. Raises AssertionError when the library gives up."""
        matcher = self._pristine.deep_copy()
        taken = matcher.try_consume_tokens(tokens)
        assert not matcher.is_error(), matcher.get_error()
        return bool(taken == len(tokens) and matcher.is_accepting())
