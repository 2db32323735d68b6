"""A compiled constraint that nobody walks, and the walks that requests take over copies of it."""

import threading
from dataclasses import dataclass, field

from llguidance import LLMatcher

from agent.constraint.kept_masks import KeptMasks, MaskRoom
from agent.constraint.limits import ConstraintLimits
from agent.constraint.matcher import ConstraintVocabulary, LlguidanceMatcher
from agent.constraint.rule_options.walk import RuleWalk
from agent.constraint.token_mask import MaskWriter
from agent.constraint.tree import NO_OPTIONS, RuleOptions
from agent.constraint.walk_costs import Wear
from shared.agent_figures import Histogram

_LEARNED_BYTES_PER_SECOND = 24 << 20
"""Per second of masks: 50,000 states in 0.75 s took 18 MB."""

ConstraintWalk = LlguidanceMatcher | RuleWalk


@dataclass(slots=True, eq=False)
class CompiledPart:
    """A grammar as llguidance compiled it; `matcher` is never advanced. `entries`: by the token that stands for a rule
    with options in it, that rule's part. Usable from any thread."""

    matcher: LLMatcher
    options: RuleOptions = NO_OPTIONS
    entries: "tuple[tuple[int, CompiledPart], ...]" = ()
    masks: KeptMasks | None = None  # used by the engine's thread, once it is given out
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_whole(self) -> bool:
        """Whether it is a constraint without options."""
        return not self.entries and self.options == NO_OPTIONS

    def begin(self) -> LLMatcher:
        """A matcher at the start. Takes 0.05 to 1.5 ms, under a lock: two threads at one matcher raise."""
        with self._lock:
            return self.matcher.deep_copy()


@dataclass(frozen=True, slots=True)
class Recipe:
    """With what all constraints of a model are compiled."""

    vocabulary: ConstraintVocabulary
    writer: MaskWriter
    limits: ConstraintLimits
    mask_seconds: Histogram | None = None  # counts the masks of requests
    room: MaskRoom | None = None  # for masks that are kept

    def walk_of(
        self, matcher: LLMatcher, wear: Wear | None = None, masks: KeptMasks | None = None
    ) -> LlguidanceMatcher:
        """One request's walk over a matcher of its own."""
        return LlguidanceMatcher(matcher, self.vocabulary, self.writer, self.limits, wear, masks)

    def walk(self, root: CompiledPart, wear: Wear | None = None) -> ConstraintWalk:
        """One request's walk, from the start."""
        if root.is_whole:
            return self.walk_of(root.begin(), wear, root.masks)
        return RuleWalk(root, self.vocabulary, self.writer, self.limits, wear or Wear())


class Pristine:
    """What is kept of a compile. Usable from any thread."""

    __slots__ = ("_compiled_bytes", "root", "wear")

    def __init__(self, root: CompiledPart, weight_bytes: int, mask_seconds: Histogram | None = None) -> None:
        self.root = root
        self.wear = Wear(mask_seconds)
        self._compiled_bytes = weight_bytes

    @property
    def weight_bytes(self) -> int:
        """An estimate, of what was compiled and of what walks have added. Kept masks have a bound of their own."""
        return self._compiled_bytes + int(self.wear.seconds * _LEARNED_BYTES_PER_SECOND)
