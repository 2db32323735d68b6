"""`::=`, which stands after a rule's name, and what people who know other notations write in its place. Pure."""

import re
from typing import Final

_OTHER_SIGNS: Final = re.compile(r"[:=]{1,3}|->")


def missing_sign(text: str, offset: int, remedy: str = "") -> str:
    """The complaint at `offset`, where the sign should be. `remedy`: what to do where no other sign stands there."""
    other = _OTHER_SIGNS.match(text, offset)
    if other is not None:
        remedy = f"write it in place of {other.group()!r}"
    return f"'::=' is missing after the rule name{'; ' if remedy else ''}{remedy}"


def may_be_sign(text: str, offset: int) -> bool:
    """Whether what stands in a body may be meant for one."""
    return _OTHER_SIGNS.match(text, offset) is not None
