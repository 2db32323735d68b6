"""A structural tag, read strictly from JSON into formats: unknown members, wrong types and great depth are refused.

SGLang's older form, a list of structures with triggers, is read as the `triggered_tags` that it means.
"""

from collections.abc import Callable

from agent.constraint.structural_tag.fields import Fields, Json, below, checked_text, marker, quoted, refusal
from agent.constraint.structural_tag.formats import (
    AnyText,
    Constant,
    Dispatch,
    EbnfText,
    Format,
    InOrder,
    OneOf,
    OneToken,
    OtherTokens,
    RegexText,
    Repeated,
    Schema,
    SeparatedTags,
    Tag,
    TokenDispatch,
    TokenReference,
    TokenTriggeredTags,
    TriggeredTags,
)
from agent.constraint.structural_tag.xml import STYLES as XML_STYLES

MAX_DEPTH = 48
MAX_FORMATS = 2_000
_STYLES = ("json", *XML_STYLES)
_OTHER_STYLES = ("deepseek_xml", "cohere_xml", "kimi_k3_xml")


def read_structural_tag(document: Json) -> Format:
    """The format that the whole document asks for. Raises GrammarError with the JSON pointer and what to do."""
    fields = Fields(document, "#", "a structural tag")
    if fields.has("type") and fields.string("type") != "structural_tag":
        raise refusal("#/type", 'must be "structural_tag"')
    reader = _Reader()
    if fields.has("structures") or fields.has("triggers"):
        return reader.read_old_form(fields)
    found = reader.read(fields.take("format"), "#/format")
    fields.finish()
    return found


class _Reader:
    """Counts formats and levels, so that neither can grow without bound."""

    def __init__(self) -> None:
        self._formats = 0
        self._depth = 0
        self._readers: dict[str, Callable[[Fields], Format]] = {
            "const_string": lambda fields: Constant(fields.path, fields.string("value")),
            "json_schema": self._schema,
            "qwen_xml_parameter": self._qwen_schema,
            "grammar": lambda fields: EbnfText(fields.path, fields.string("grammar")),
            "regex": lambda fields: RegexText(fields.path, fields.string("pattern")),
            "any_text": self._any_text,
            "sequence": lambda fields: InOrder(fields.path, self._formats_of(fields, "elements")),
            "or": lambda fields: OneOf(fields.path, self._formats_of(fields, "elements")),
            "optional": lambda fields: Repeated(fields.path, self._content(fields), 0, 1),
            "star": lambda fields: Repeated(fields.path, self._content(fields), 0, None),
            "plus": lambda fields: Repeated(fields.path, self._content(fields), 1, None),
            "repeat": self._repeat,
            "tag": self._tag,
            "triggered_tags": self._triggered_tags,
            "tags_with_separator": self._tags_with_separator,
            "dispatch": self._dispatch,
            "token": lambda fields: OneToken(fields.path, _token(fields.take("token"), below(fields.path, "token"))),
            "exclude_token": lambda fields: OtherTokens(fields.path, _tokens(fields, "exclude_tokens"), 1, 1),
            "any_tokens": lambda fields: OtherTokens(
                fields.path, _tokens(fields, "exclude_tokens"), 0, fields.count("max_tokens")
            ),
            "token_triggered_tags": self._token_triggered_tags,
            "token_dispatch": self._token_dispatch,
        }

    def read(self, value: Json, path: str) -> Format:
        """The format at `path`, with what is in it."""
        fields = self._enter(value, path, "a format")
        kind = fields.string("type")
        if kind not in self._readers:
            raise refusal(below(path, "type"), f"{quoted(kind)} is no format; known are {', '.join(self._readers)}")
        found = self._readers[kind](fields)
        fields.finish()
        self._depth -= 1
        return found

    def read_old_form(self, fields: Fields) -> TriggeredTags:
        """SGLang's older form. A schema may be an object, a boolean, or the text of one."""
        tags = []
        for value, path in fields.items("structures"):
            structure = self._enter(value, path, "a structure")
            begin, end = structure.string("begin"), structure.string("end")
            schema = Schema(below(path, "schema"), structure.take("schema"), "json")
            structure.finish()
            self._depth -= 1
            tags.append(Tag(path, begin, schema, (end,)))
        found = TriggeredTags(
            fields.path,
            fields.markers("triggers"),
            tuple(tags),
            excludes=(),
            at_least_one=fields.flag("at_least_one", False),
            stop_after_first=fields.flag("stop_after_first", False),
        )
        fields.finish()
        return found

    def _enter(self, value: Json, path: str, what: str) -> Fields:
        self._formats += 1
        self._depth += 1
        if self._formats > MAX_FORMATS:
            raise refusal(path, f"more than {MAX_FORMATS} formats are in this structural tag; use fewer")
        if self._depth > MAX_DEPTH:
            raise refusal(path, f"formats are nested deeper than {MAX_DEPTH} levels; nest less")
        return Fields(value, path, what)

    def _content(self, fields: Fields) -> Format:
        return self.read(fields.take("content"), below(fields.path, "content"))

    def _formats_of(self, fields: Fields, name: str) -> tuple[Format, ...]:
        return tuple(self.read(value, path) for value, path in fields.items(name))

    def _schema(self, fields: Fields) -> Schema:
        style = fields.string("style", "json")
        if fields.flag("any_order", False):
            raise refusal(
                below(fields.path, "any_order"),
                "is not supported: it lets required keys be left out; remove it, keys then come in the schema's order",
            )
        if style not in _STYLES:
            raise refusal(
                below(fields.path, "style"),
                f"{quoted(style)} is {'not supported' if style in _OTHER_STYLES else 'no style'}; use one of "
                f'{", ".join(_STYLES)}, or spell the style with "sequence", "const_string" and "json_schema"',
            )
        return Schema(below(fields.path, "json_schema"), fields.take("json_schema"), style)

    def _qwen_schema(self, fields: Fields) -> Schema:
        """An older name of the style."""
        return Schema(below(fields.path, "json_schema"), fields.take("json_schema"), "qwen_xml")

    def _any_text(self, fields: Fields) -> AnyText:
        excludes = fields.markers("excludes", may_be_empty=True)
        return AnyText(fields.path, excludes, fields.count("max_chars"), fields.count("max_tokens"))

    def _repeat(self, fields: Fields) -> Repeated:
        least, most = fields.count("min"), fields.count("max", least=-1)
        for name, value in (("min", least), ("max", most)):
            if value is None:
                raise refusal(fields.path, f'a repeat needs "{name}"')
        assert least is not None
        if most == -1:
            most = None
        if most is not None and most < least:
            raise refusal(below(fields.path, "max"), f"is {most}, less than min, {least}; -1 means no upper bound")
        return Repeated(fields.path, self._content(fields), least, most)

    def _tag(self, fields: Fields) -> Tag:
        begin = fields.take("begin")
        begin_path = below(fields.path, "begin")
        content = self._content(fields)
        return Tag(
            fields.path,
            checked_text(begin, begin_path) if isinstance(begin, str) else self._token_object(begin, begin_path),
            content,
            self._ends(fields),
        )

    def _ends(self, fields: Fields) -> tuple[str, ...] | OneToken:
        path = below(fields.path, "end")
        end = fields.take("end")
        if isinstance(end, dict):
            return self._token_object(end, path)
        if not isinstance(end, str | list) or end == []:
            raise refusal(path, "must be a string, a list of strings, or a token format")
        several = [(end, path)] if isinstance(end, str) else [(one, below(path, n)) for n, one in enumerate(end)]
        return tuple(dict.fromkeys("" if one == "" else marker(one, where) for one, where in several))

    def _token_object(self, value: Json, path: str) -> OneToken:
        found = self.read(value, path)
        if not isinstance(found, OneToken):
            raise refusal(path, 'must be a string, or a format of type "token"')
        return found

    def _tags(self, fields: Fields) -> tuple[Tag, ...]:
        """Where only a tag may stand its type may be left out."""
        tags = []
        for value, path in fields.items("tags"):
            tag = self.read({"type": "tag", **value} if isinstance(value, dict) else value, path)
            if not isinstance(tag, Tag):
                raise refusal(below(path, "type"), 'must be "tag"')
            tags.append(tag)
        return tuple(tags)

    def _triggered_tags(self, fields: Fields) -> TriggeredTags:
        return TriggeredTags(
            fields.path,
            fields.markers("triggers"),
            self._tags(fields),
            excludes=fields.markers("excludes", may_be_empty=True),
            at_least_one=fields.flag("at_least_one", False),
            stop_after_first=fields.flag("stop_after_first", False),
        )

    def _tags_with_separator(self, fields: Fields) -> SeparatedTags:
        return SeparatedTags(
            fields.path,
            self._tags(fields),
            fields.string("separator"),
            at_least_one=fields.flag("at_least_one", False),
            stop_after_first=fields.flag("stop_after_first", False),
        )

    def _dispatch(self, fields: Fields) -> Dispatch:
        rules = tuple((marker(key, path), found) for key, path, found in self._rules(fields))
        excludes = fields.markers("excludes", may_be_empty=True)
        return Dispatch(fields.path, rules, excludes, fields.flag("loop", True))

    def _token_triggered_tags(self, fields: Fields) -> TokenTriggeredTags:
        return TokenTriggeredTags(
            fields.path,
            _tokens(fields, "trigger_tokens", may_be_empty=False),
            self._tags(fields),
            excludes=_tokens(fields, "exclude_tokens"),
            at_least_one=fields.flag("at_least_one", False),
            stop_after_first=fields.flag("stop_after_first", False),
        )

    def _token_dispatch(self, fields: Fields) -> TokenDispatch:
        rules = tuple((_token(key, path), found) for key, path, found in self._rules(fields))
        return TokenDispatch(fields.path, rules, _tokens(fields, "exclude_tokens"), fields.flag("loop", True))

    def _rules(self, fields: Fields) -> list[tuple[Json, str, Format]]:
        """What triggers, where it stands, and the format that follows it."""
        rules = []
        for value, path in fields.items("rules"):
            if not isinstance(value, list) or len(value) != 2:
                raise refusal(path, "must be a list of two: what triggers, and the format that follows it")
            rules.append((value[0], below(path, 0), self.read(value[1], below(path, 1))))
        return rules


def _token(value: Json, path: str) -> TokenReference:
    if isinstance(value, str) and value:
        return checked_text(value, path)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise refusal(path, "must be the number of a token or its spelling")


def _tokens(fields: Fields, name: str, *, may_be_empty: bool = True) -> tuple[TokenReference, ...]:
    return tuple(_token(value, path) for value, path in fields.items(name, may_be_empty=may_be_empty))
