"""The sampler of one sequence: llama.cpp's chain as Paddler uses it, or SGLang's order where a request asks for it,
with a draw of our own."""

import math
from collections.abc import Collection, Sequence

import numpy as np

from agent.core.request_sampling import RequestSampling
from agent.sampling.logit_bias import LogitBias
from agent.sampling.penalties import PenaltyWindow
from agent.sampling.ranking import Logits, TokenIds, rank_top
from agent.sampling.truncation import (
    drawn_position,
    heaviest_entries,
    masses,
    min_p_candidates,
    min_p_length,
    top_p_candidates,
    top_p_length,
)
from agent.sampling.uniform import uniform_draw
from shared.generation import SamplingParameters

_COLDEST = float(np.finfo(np.float32).smallest_subnormal)
_HOTTEST = float(np.finfo(np.float32).max)
_FEW = 4  # one in so many
_PROBES = 256


class TokenSampler:
    """Draws the tokens of one sequence: penalties, logit bias, top_k, top_p, min_p, temperature, draw, in this order;
    with `follows_sglang_order` the temperature comes before top_k (at 0 it is greedy either way), and of the penalties
    the additive ones come first.

    The draw depends on the logits, the seed and the token's index in the answer alone. No parameter value raises:
    what is out of range is off, or clamped (NaN temperature: greedy).
    """

    def __init__(self, parameters: SamplingParameters, seed: int, vocabulary_size: int) -> None:
        self._in_sglang_order = isinstance(parameters, RequestSampling) and parameters.follows_sglang_order
        self._penalties = PenaltyWindow(parameters, vocabulary_size, subtracts_first=self._in_sglang_order)
        self._seed = seed
        self._wanted_temperature = parameters.temperature
        self._takes_best = parameters.top_k == 1
        self._top_k = parameters.top_k if 0 < parameters.top_k < vocabulary_size else 0
        self._top_p = parameters.top_p  # on below 1
        self._min_p = parameters.min_p  # on above 0; comparing makes NaN off for both
        self._bias: LogitBias | None = None
        if isinstance(parameters, RequestSampling):
            bias = LogitBias(parameters.logit_bias, vocabulary_size)
            self._bias = None if bias.is_off else bias
        self.use_temperature(None)

    def use_temperature(self, temperature: float | None) -> None:
        """From now on, instead of the one of the parameters; None: that one again."""
        self._temperature = min(self._wanted_temperature if temperature is None else temperature, _HOTTEST)
        # What llama.cpp's float32 makes zero is greedy too; so is NaN.
        self._is_greedy = self._takes_best or not self._temperature >= _COLDEST
        is_divided_first = self._in_sglang_order and not self._is_greedy
        self._truncation_temperature = self._temperature if is_divided_first else 1.0

    def observe(self, tokens: Sequence[int]) -> None:
        """Let `tokens` (of prompt or answer, in order) count for the penalties."""
        self._penalties.observe(tokens)

    def sample(self, logits: Logits, answer_index: int) -> int | None:
        """The token at `answer_index` (0-based) of the answer; does not observe it.

        `logits`: float32, shape (vocabulary_size,), writable; penalties change it in place. None when no token can
        be chosen: every logit is -inf (a constraint that allows nothing), or the row holds NaN or +inf.
        """
        with np.errstate(all="ignore"):  # -inf is a legitimate logit; exp() of a far worse one underflows to 0
            if not self._penalties.is_off:
                self._penalties.apply(logits)
            if self._bias is not None:
                self._bias.apply(logits)
            best_token = int(logits.argmax())  # NaN counts as largest
            best = float(logits[best_token])
            if not math.isfinite(best):
                return None
            if self._is_greedy:
                return best_token
            uniform = uniform_draw(self._seed, answer_index)
            if (allowed := few_allowed(logits)) is not None:
                return int(allowed[self._draw(logits[allowed], best, uniform)])
            return self._draw(logits, best, uniform)

    def sure_token(self, logits: Logits) -> int | None:
        """The largest entry, where `sample` takes it without a look at anything else: it stays the first of the largest
        whatever is masked besides. None for a row with a NaN or +inf, too."""
        if not self._is_greedy or self._bias is not None or not self._penalties.is_off:
            return None
        best_token = int(logits.argmax())
        return best_token if math.isfinite(logits[best_token]) else None

    def forbid(self, logits: Logits, tokens: Collection[int]) -> None:
        """Make these tokens impossible, in place; the row stays as it is when nothing else is possible."""
        ids = np.fromiter(tokens, dtype=np.int64, count=len(tokens))
        before = logits[ids]
        logits[ids] = -np.inf
        if logits.max() == -np.inf:
            logits[ids] = before

    def candidates(self, row: Logits, best: float) -> TokenIds | None:
        """What the truncations leave of a row after penalties, in rank order; None when all are off: the whole row.

        `best`: the row's largest logit, finite.
        """
        temperature = self._truncation_temperature
        if self._top_k:
            ids = rank_top(row, self._top_k)
            if self._top_p < 1:
                ids = ids[: top_p_length(row[ids], self._top_p, temperature)]
        elif self._top_p < 1:
            ids = top_p_candidates(row, best, self._top_p, temperature)
        elif self._min_p > 0:
            return min_p_candidates(row, best, self._min_p, temperature)
        else:
            return None
        if self._min_p > 0:
            ids = ids[: min_p_length(row[ids], self._min_p, temperature)]
        return ids

    def _draw(self, row: Logits, best: float, uniform: float) -> int:
        """The chosen entry's index in the row."""
        candidates = self.candidates(row, best)
        if candidates is None:
            heaviest = heaviest_entries(row, best, uniform, self._temperature)
            return int(heaviest.ids[drawn_position(heaviest.cumulative_mass, heaviest.target_mass)])
        cumulative = np.cumsum(masses(row[candidates], best, self._temperature))
        return int(candidates[drawn_position(cumulative, uniform * float(cumulative[-1]))])


def few_allowed(row: Logits) -> TokenIds | None:
    """Ascending ids of the entries that a mask left, when they are so few that the rest is best forgotten; else None.

    Among hundreds of thousands of equal -inf the ranking would find ties without end. The ranks of what is left are
    the same in a row without them.
    """
    if row[:: max(1, row.size // _PROBES)].min() > -np.inf:
        return None  # nobody masked this row, or not much of it
    is_allowed = row > -np.inf
    if int(np.count_nonzero(is_allowed)) * _FEW > row.size:
        return None
    return np.flatnonzero(is_allowed)
