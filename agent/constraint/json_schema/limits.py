"""What a client's schema may cost. Every loop of this package is bounded by one of these."""

from agent.constraint.errors import SchemaError

MAX_TEXT_CHARACTERS = 1 << 20
# JSON levels of the schema's text. The library's own reader ends at about 120 and its compiler recurses.
MAX_NESTING = 128
MAX_JSON_VALUES = 200_000
MAX_INTEGER_DIGITS = 400
MAX_ENUM_VALUES = 20_000
MAX_PROPERTIES = 2_000
MAX_COUNT = 10**9  # of characters, items, members
# A reference that leads to a reference and so on: the library dies of a stack overflow at some thousand.
MAX_REFERENCE_CHAIN = 64

# One state is one conjunction of subschemas of the client; a clause is one of the ways to satisfy it.
MAX_STATES = 5_000
MAX_CLAUSES_PER_STATE = 512
# In steps of some 5 microseconds: a schema is answered within a second. Of 362 large ones that are taken, all but
# three stay below 90,000.
MAX_WORK = 120_000
WORK_OF_TEXT_SET = 150
MAX_OUTPUT_CHARACTERS = 2 << 20
# How deep the rewritten text nests before a part of it gets a name of its own.
MAX_INLINE_LEVELS = 24
# Objects within objects within objects, names resolved, on the way on which the library's compiler descends.
MAX_DESCENT = 400

# An "at least one of them" is written out as a choice; so many places it may have.
MAX_PLACES = 32
MAX_SUBSETS = 128
MAX_PERMUTATIONS = 2_000


class Work:
    """Counts steps, so that a small text cannot cost much. Raises SchemaError when too many were taken."""

    def __init__(self, limit: int = MAX_WORK) -> None:
        self.limit = limit
        self.taken = 0

    def take(self, steps: int, path: str) -> None:
        self.taken += steps
        if self.taken > self.limit:
            raise SchemaError("the schema's combinations are too many to write out; simplify it", path)
