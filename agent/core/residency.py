"""Who holds cells: members begin, share, make room for their elders, are set aside, and begin again.

Order matters everywhere: elders (smaller rank) first. An elder may always take the cells of younger members, so the
eldest that holds an id can have the whole pool and always gets on; nobody fails for another's appetite.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.core.admission import cells_spoken_for, prefix_to_await, still_awaits
from agent.core.backend import PlannedRun
from agent.core.commands import MemberKey
from agent.core.prefix_cache import PrefixCache
from agent.core.prefix_store import StoredPrefix
from agent.core.prefix_tree import PrefixMatch, common_length
from agent.core.sequence import AwaitedPrefix, MemberSequence, Phase


class Residency:
    """Works on the scheduler's table of open members; owns neither it nor the cache."""

    def __init__(
        self, cache: PrefixCache, sequences: Mapping[MemberKey, MemberSequence], slots: int, margin_cells: int
    ) -> None:
        """`margin_cells`: room to grow that a member set aside must find before it is evaluated again, or two
        members would take the same cells from each other in turn."""
        self._cache = cache
        self._sequences = sequences
        self._slots = slots
        self._margin_cells = margin_cells
        self.set_aside_total = 0
        self.reused_prompt_tokens = 0

    # Questions

    def in_phase(self, phase: Phase) -> list[MemberSequence]:
        """Members in this phase, eldest first."""
        return sorted((one for one in self._sequences.values() if one.phase is phase), key=lambda one: one.rank)

    def attached(self) -> list[MemberSequence]:
        """Members that run under a sequence id, eldest first."""
        return [sequence for sequence in self.in_phase(Phase.RUNNING) if sequence.is_attached]

    # Beginning

    def start_members(self, *, may_grow: bool) -> None:
        """Attach those whose awaited prefix has come, then resume who was set aside, then admit who waits. What they
        did not take of the idle prefixes makes way.

        may_grow: False after a decode found no room, though it should have: nobody new until one succeeds.
        """
        self._start_members(may_grow)
        self._cache.move_idle_out()

    def _start_members(self, may_grow: bool) -> None:
        running = self.in_phase(Phase.RUNNING)
        for sequence in running:
            if sequence.awaits and not still_awaits(sequence, self._sequences.get(sequence.awaits.owner)):
                self._begin(sequence, self._find_prefix(sequence, running))
        if not may_grow and running:
            return
        for sequence in self.in_phase(Phase.SET_ASIDE):
            if not self._start_if_it_fits(sequence, running, self._margin_cells):
                return  # those that wait for a slot must not take the cells it waits for
        for sequence in self.in_phase(Phase.WAITING):
            if len(running) >= self._slots or not self._start_if_it_fits(sequence, running, 0):
                return

    def _start_if_it_fits(self, sequence: MemberSequence, running: list[MemberSequence], margin: int) -> bool:
        """Begin when its tokens fit beside what the running ones need. Alone it always fits."""
        found = self._find_prefix(sequence, running)
        shared = found.awaits.tokens if found.awaits else self._cache.running_part(found.match)
        taken = self._cache.running_cells + cells_spoken_for(running)
        if running and taken + len(sequence.tokens) - shared + margin > self._cache.capacity:
            return False
        sequence.phase = Phase.RUNNING
        running.append(sequence)
        self._begin(sequence, found)
        return True

    def _find_prefix(self, sequence: MemberSequence, running: list[MemberSequence]) -> "_FoundPrefix":
        tokens, most, adapter = sequence.tokens, sequence.reusable_tokens, sequence.adapter
        match = self._cache.match(tokens, most, adapter)
        if not self._cache.can_share:
            return _FoundPrefix(match, None, None)
        stored = self._cache.find_stored(tokens, most, adapter, match.tokens)
        return _FoundPrefix(match, stored, prefix_to_await(sequence, (stored or match).tokens, running))

    def _begin(self, sequence: MemberSequence, found: "_FoundPrefix") -> None:
        """Take an id, share what is in cells and bring back what is stored; or wait for what another member brings."""
        sequence.awaits = found.awaits
        if found.awaits:
            return
        sequence.sequence_id = self._cache.attach(found.match, sequence.adapter)
        sequence.evaluated = found.match.tokens
        if found.stored:
            sequence.evaluated = self._cache.bring_back(sequence.sequence_id, found.stored)
        if sequence.cached_prompt_tokens is None:  # being evaluated again is not a saving
            sequence.cached_prompt_tokens = min(sequence.evaluated, sequence.prompt_tokens)
            self.reused_prompt_tokens += sequence.cached_prompt_tokens

    # Making room

    def make_room(self, cells: int, sequence: MemberSequence) -> bool:
        """Have `cells` free for `sequence` and its elders: evict idle prefixes, then set the youngest aside.

        Only members younger than `sequence` give way. False when that was not enough.
        """
        while self._cache.free_cells < cells:
            if self._cache.evict_oldest():
                continue
            youngest = self.attached()[-1]
            if youngest.rank <= sequence.rank:
                return False
            self.set_aside(youngest)
        return True

    def give_way(self) -> bool:
        """A decode found no room where there should be some: give up one idle prefix, else the youngest of several
        members. False when there is neither."""
        if self._cache.evict_oldest():
            return True
        attached = self.attached()
        if len(attached) < 2:
            return False
        self.set_aside(attached[-1])
        return True

    def set_aside(self, sequence: MemberSequence) -> None:
        """Take its cells back. It keeps its slot, its token ids, its sampler and its text."""
        self._detach(sequence, keep=False, comes_back=True)
        sequence.phase = Phase.SET_ASIDE
        self.set_aside_total += 1

    def leave(self, sequence: MemberSequence, *, keep: bool) -> None:
        """The member ended. keep: what it evaluated may serve others, as an idle prefix."""
        if sequence.is_attached:
            self._detach(sequence, keep=keep)

    def _detach(self, sequence: MemberSequence, *, keep: bool, comes_back: bool = False) -> None:
        assert sequence.sequence_id is not None
        if keep:
            self._cache.park(sequence.sequence_id)
        else:
            self._cache.release(sequence.sequence_id, saves=comes_back)
        sequence.sequence_id = None
        sequence.evaluated = 0

    # What decodes did

    def evaluated(self, sequence: MemberSequence, run: PlannedRun, guessed: int = 0) -> int:
        """The whole run is in memory. Its last `guessed` tokens may be wrong ones, which leave it again; returns how
        many of them stay. An answer that a stop rule has just ended may have lost tokens of the run that were certain:
        these stay in memory, behind it."""
        certain = len(run.tokens) - guessed
        known = run.first_position + certain
        right = common_length(list(run.tokens[certain:]), sequence.tokens, known, len(sequence.tokens))
        self._cache.extend(run.sequence_id, run.tokens[: certain + right])
        sequence.evaluated = known + right
        if right < guessed:
            sequence.evaluated = self._cache.cut(run.sequence_id, known + right)
        return right

    def evaluated_in_part(self, sequence: MemberSequence, run: PlannedRun) -> None:
        """The decode stopped half-way: ask the memory how far it came.

        Logits are lost, also of rows that were evaluated, so those that needed them must be evaluated once more.
        """
        sequence.evaluated = self._cache.read_back(run.sequence_id, run.tokens)
        if sequence.evaluated > sequence.reusable_tokens:
            sequence.evaluated = self._cache.cut(run.sequence_id, sequence.reusable_tokens)

    # Self-check

    def check_invariants(self) -> None:
        """Raises AssertionError when a member's record and its cells disagree."""
        self._cache.check_invariants()
        for sequence in self._sequences.values():
            held = [] if sequence.sequence_id is None else self._cache.tokens_of(sequence.sequence_id)
            assert sequence.tokens[: sequence.evaluated] == held, f"{sequence.key} holds other cells"
            if sequence.sequence_id is not None:
                assert self._cache.adapter_of(sequence.sequence_id) == sequence.adapter, (
                    f"{sequence.key}: wrong adapter"
                )
            assert sequence.pending_tokens >= 1, f"{sequence.key} waits for nothing"
            assert sequence.phase is Phase.RUNNING or not (sequence.is_attached or sequence.awaits), sequence.key
            if sequence.phase is Phase.RUNNING:
                assert sequence.is_attached is (sequence.awaits is None), f"{sequence.key} is in two phases"
        ids = [sequence.sequence_id for sequence in self.attached()]
        assert sorted(self._cache.running_ids) == sorted(one for one in ids if one is not None)
        in_slots = len(self.in_phase(Phase.RUNNING)) + len(self.in_phase(Phase.SET_ASIDE))
        assert in_slots <= self._slots, "more members than slots"


@dataclass(frozen=True, slots=True)
class _FoundPrefix:
    """What is in cells of a prompt now, what is in host memory (if that is more), and what another running member will
    bring (if that is most)."""

    match: PrefixMatch
    stored: StoredPrefix | None
    awaits: AwaitedPrefix | None
