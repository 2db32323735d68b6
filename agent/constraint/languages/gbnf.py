"""llama.cpp's GBNF, as the parser of llama-cpp-python 0.3.36 reads it.

Kept from it, surprises included: names hold letters, digits and `-`; a body goes on over lines only inside parentheses
and after `|` and `::=`; `\\x` takes exactly two digits; `[]` and `[^]` match the empty string; an operator repeats what
the operator before it made; nothing matches U+0000; over 2,000 repetitions in the lower bound, or in the product of
what is repeated, are refused.

Not kept, because llama.cpp then silently means something else: `{0,2001}` has no upper bound there and is exact here;
of two rules with one name the last wins there, a reversed range or a NUL in a literal never matches, and an empty text
is a grammar: all refused here. What it refuses by the accident of its expansion, a repetition of something that may be
empty and left recursion behind something that may be empty, is exact here.
"""

import re

from agent.constraint.errors import GrammarError
from agent.constraint.languages.code_points import EVERY_CODE_POINT, letters, without
from agent.constraint.languages.definition_sign import missing_sign
from agent.constraint.languages.gbnf_left_recursion import refuse_left_recursion
from agent.constraint.languages.groups import Groups
from agent.constraint.languages.source import Source, repetition_count
from agent.constraint.languages.spelling import Escapes, Speller
from agent.constraint.tree import EMPTY, CharacterClass, Grammar, Node, Reference, Repeat, Text, TokenNamed, TokenSet

_SAME = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_ESCAPES = Escapes("GBNF", _SAME, _SAME, {"x": 2, "u": 4, "U": 8}, raw_newlines=True)
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_SPACE = re.compile(r"(?:[ \t]+|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)*")
_TOKEN_ID = re.compile(r"<\[([0-9]+)\]>")
_TOKEN_NAME = re.compile(r"<[^\[>][^>]*>")
_DIGITS = re.compile(r"[0-9]+")
_MOST_EXPANDED = 2_000
_LAST_TOKEN_ID = 2**31 - 1
_NOT_NUL = without(EVERY_CODE_POINT, letters("\0"))


def parse_gbnf(text: str, root: str) -> Grammar:
    """Raises GrammarError where llama.cpp refuses the grammar, and where it would silently mean another language."""
    return _Parser(Source(text)).parse(root)


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        self._speller = Speller(source, _ESCAPES)
        self._groups = Groups(source)
        self._rules: dict[str, Node] = {}
        self._defined_at: dict[str, int] = {}
        self._references: dict[str, int] = {}
        # llama.cpp's count of the rules that it makes: the expansion limit depends on it.
        self._names: set[str] = set()
        self._made_rules = 0
        self._rules_before: list[int] = []
        self._expanded = 1
        self._repeatable = False

    def parse(self, root: str) -> Grammar:
        offset = self._space(0, lines=True)
        while offset < len(self._text):
            offset = self._rule(offset)
        if not self._rules:
            raise self._source.error(0, f"the grammar has no rule; write at least {root} ::= and a body")
        for name, place in self._references.items():
            if name not in self._rules:
                raise self._source.error(place, f"the rule {name!r} is not defined; add {name} ::= and a body")
        if root not in self._rules:
            raise GrammarError(
                f"the grammar has no rule {root[:80]!r}, which is named as its root; add it or name another"
            )
        refuse_left_recursion(self._rules, self._source, self._defined_at)
        return Grammar(self._rules, root)

    def _space(self, offset: int, lines: bool) -> int:
        found = (_SPACE_AND_LINES if lines else _SPACE).match(self._text, offset)
        return offset if found is None else found.end()

    def _inner_space(self, offset: int) -> int:
        return self._space(offset, lines=self._groups.nesting > 0)

    def _rule(self, start: int) -> int:
        name = _NAME.match(self._text, start)
        if name is None:
            raise self._source.error(start, self._not_a_rule(start))
        offset = self._space(name.end(), lines=False)
        if not self._text.startswith("::=", offset):
            remedy = "names hold only letters, digits and -" if self._text[offset : offset + 1] in tuple("_.") else ""
            raise self._source.error(offset, missing_sign(self._text, offset, remedy))
        if name.group() in self._rules:
            raise self._source.error(start, f"the rule {name.group()!r} is defined twice; remove or rename one")
        self._defined_at[name.group()] = start
        self._names.add(name.group())
        offset = self._space(offset + 3, lines=True)
        self._groups.begin(offset)
        offset = self._body(offset)
        self._rules[name.group()], _, _ = self._groups.close()
        if offset < len(self._text) and self._text[offset] not in "\r\n":
            raise self._source.error(offset, self._not_in_a_body(offset))
        return self._space(offset, lines=True)

    def _not_a_rule(self, offset: int) -> str:
        if self._text[offset] == "|":
            return "a line cannot begin with '|' in GBNF; end the line before with it, or use parentheses"
        return "a rule must begin with its name; a body goes on over lines only inside parentheses or after '|'"

    def _not_in_a_body(self, offset: int) -> str:
        match self._text[offset]:
            case ")":
                return "this ')' closes nothing; remove it"
            case "_":
                return "rule names hold only letters, digits and -, no '_'; rename the rule"
            case ":" | "=":
                return "a rule must begin on a line of its own, as name ::= body"
            case _:
                return f'{self._source.found(offset)} has no meaning here; quote text as in "x"'

    def _body(self, offset: int) -> int:
        self._repeatable = False
        while offset < len(self._text):
            letter = self._text[offset]
            if letter == "(":
                offset = self._open(offset)
            elif letter == ")" and self._groups.nesting:
                offset = self._close(offset)
            elif letter == "|":
                self._groups.bar()
                self._repeatable = False
                offset = self._space(offset + 1, lines=True)
            elif letter in "*+?{":
                offset = self._operator(offset)
            else:
                end = self._item(offset, letter)
                if end == offset:
                    break
                offset = self._inner_space(end)
        if self._groups.nesting:
            opened = self._groups.innermost.offset
            if offset >= len(self._text):
                raise self._source.error(opened, "this '(' is never closed; add the ')'")
            raise self._source.error(offset, f"{self._source.found(offset)} has no meaning inside parentheses")
        return offset

    # Items

    def _add(self, node: Node, offset: int, depth: int = 1) -> None:
        """What is empty leaves no trace, as in llama.cpp: an operator after it has nothing to repeat."""
        self._repeatable = node != EMPTY
        self._expanded = 1
        if self._repeatable:
            self._groups.add(node, offset, depth)

    def _item(self, offset: int, letter: str) -> int:
        """Adds the item at `offset` and returns its end; `offset` itself: there is none."""
        position = self._source.position(offset)
        if letter == '"':
            literal = self._speller.literal(offset)
            if "\0" in literal.text:
                place = literal.offsets[literal.text.index("\0")]
                raise self._source.error(place, "U+0000 can never be matched in GBNF; remove it")
            self._add(Text(literal.text, position) if literal.text else EMPTY, offset)
            return literal.end
        if letter == "[":
            ranges, is_written, end = self._speller.character_class(offset)
            node = CharacterClass(without(ranges, letters("\0")), position)
            self._add(node if is_written else EMPTY, offset)
            return end
        if letter == ".":
            self._add(CharacterClass(_NOT_NUL, position), offset)
            return offset + 1
        if letter in "<!":
            return self._token(offset)
        name = _NAME.match(self._text, offset)
        if name is None:
            return offset
        self._references.setdefault(name.group(), offset)
        self._names.add(name.group())
        self._add(Reference(name.group(), position), offset)
        return name.end()

    def _token(self, offset: int) -> int:
        negated = self._text[offset] == "!"
        begin = offset + 1 if negated else offset
        position = self._source.position(offset)
        by_id = _TOKEN_ID.match(self._text, begin)
        if by_id is not None:
            digits = by_id.group(1).lstrip("0") or "0"
            if len(digits) > 10 or int(digits) > _LAST_TOKEN_ID:
                raise self._source.error(begin, "no vocabulary has a token with so large an id")
            self._add(TokenSet(frozenset((int(digits),)), negated, position), offset)
            return by_id.end()
        by_name = _TOKEN_NAME.match(self._text, begin)
        if by_name is None:
            raise self._source.error(
                offset, "a token is written <name> or <[id]>, and !<name> or !<[id]> for any other"
            )
        self._add(TokenNamed(by_name.group(), negated, position), offset)
        return by_name.end()

    # Groups and operators

    def _open(self, offset: int) -> int:
        self._rules_before.append(len(self._names) + self._made_rules)
        self._made_rules += 1
        self._groups.open(offset)
        self._repeatable = False
        return self._space(offset + 1, lines=True)

    def _close(self, offset: int) -> int:
        node, group, depth = self._groups.close()
        self._groups.add(node, group.offset, depth)
        self._repeatable = True
        self._expanded = max(1, len(self._names) + self._made_rules - self._rules_before.pop())
        return self._inner_space(offset + 1)

    def _operator(self, offset: int) -> int:
        end = self._inner_space(offset + 1)
        if not self._repeatable:
            raise self._source.error(offset, f"there is nothing before {self._text[offset]!r} to repeat")
        match self._text[offset]:
            case "*":
                least, most = 0, None
            case "+":
                least, most = 1, None
            case "?":
                least, most = 0, 1
            case _:
                least, most, end = self._counts(offset, end)
        self._refuse_expansion(offset, least, most)
        body, depth = self._groups.take_last()
        if most == 0:
            self._repeatable = False
        else:
            self._groups.add(Repeat(body, least, most, self._source.position(offset)), offset, depth + 1)
        return end

    def _counts(self, start: int, offset: int) -> tuple[int, int | None, int]:
        """The bounds in `{n}`, `{n,}` or `{n,m}`, and the offset after them."""
        first = _DIGITS.match(self._text, offset)
        if first is None:
            raise self._source.error(
                start, "a repetition is written {n}, {n,} or {n,m}; begin with a number, as in {0,3}"
            )
        least = repetition_count(first.group(), self._source, offset)
        most: int | None = least
        offset = self._inner_space(first.end())
        if self._text.startswith(",", offset):
            offset = self._inner_space(offset + 1)
            second = _DIGITS.match(self._text, offset)
            most = None if second is None else repetition_count(second.group(), self._source, offset)
            offset = offset if second is None else self._inner_space(second.end())
        if not self._text.startswith("}", offset):
            raise self._source.error(start, "a repetition is written {n}, {n,} or {n,m}; close it with '}'")
        if most is not None and most < least:
            raise self._source.error(start, f"the upper bound {most} is below the lower bound {least}; swap them")
        return least, most, self._inner_space(offset + 1)

    def _refuse_expansion(self, offset: int, least: int, most: int | None) -> None:
        """llama.cpp's `n_prev_rules * total_rules`: it writes repetitions out as rules."""
        bounded = most if most is not None and most <= _MOST_EXPANDED else None
        times = bounded or least or 1
        if least > _MOST_EXPANDED or self._expanded * times > _MOST_EXPANDED:
            raise self._source.error(
                offset, f"llama.cpp takes at most {_MOST_EXPANDED} repetitions, nested ones multiplied; use fewer"
            )
        self._expanded *= times
        self._made_rules += 1 if bounded is None else bounded - least
