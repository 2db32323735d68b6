"""What somebody may have meant by a field that is not known where it stands. Pure.

In this order: another API's word for something of ours, which a model lists in its `FOREIGN_WORDS`; a field of an
object below or above; a name that is nearly the same. Only our own names are said, never what the client wrote.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, Tag

from shared.nearest_word import MAX_COMPARED_CHARACTERS, nearest_word


@dataclass(frozen=True, slots=True)
class _Level:
    """The models that an object may be (several of a union whose tag does not count), and the field it stands in."""

    models: tuple[type[BaseModel], ...]
    field: str = ""

    def below(self, name: str) -> "_Level | None":
        """The object in a field; None: there is none in it."""
        found = tuple(one for model in self.models for one in _models_of(_annotations(model).get(name)))
        return _Level(found, name) if found else None

    def names(self) -> list[str]:
        return [name for model in self.models for name in _annotations(model)]


def field_hint(model: type[BaseModel], location: Sequence[int | str]) -> str | None:
    """Words to stand behind `is not a known field`; None when nobody can guess.

    `location`: pydantic's, the unknown name last.
    """
    *places, unknown = location
    if not isinstance(unknown, str) or len(unknown) > MAX_COMPARED_CHARACTERS:
        return None
    levels = _levels(model, places)
    here = levels[-1]
    for one in here.models:
        foreign: str | None = getattr(one, "FOREIGN_WORDS", {}).get(unknown)
        if foreign is not None:
            return foreign
    for name in here.names():
        below = here.below(name)
        if below is not None and unknown in below.names():
            return f'put it into "{name}"'
    if any(unknown in level.names() for level in levels[:-1]):
        return f'put it beside "{here.field}", not into it'
    near = nearest_word(unknown, here.names())
    return None if near is None else f'did you mean "{near}"?'


def _levels(model: type[BaseModel], places: Sequence[int | str]) -> list[_Level]:
    """The objects around the unknown name, the outermost first."""
    levels = [_Level((model,))]
    for place in places:
        below = levels[-1].below(place) if isinstance(place, str) else None
        if below is not None:
            levels.append(below)
        else:
            levels[-1] = _with_tag(levels, place)
    return levels


def _with_tag(levels: list[_Level], place: int | str) -> _Level:
    """A place that is no field is an index, or the tag of a union."""
    here = levels[-1]
    if len(levels) < 2 or not isinstance(place, str):
        return here
    annotations = [_annotations(model).get(here.field) for model in levels[-2].models]
    tagged = tuple(one for annotation in annotations for one in _models_of(annotation, place))
    return _Level(tagged, here.field) if tagged else here


def _annotations(model: type[BaseModel]) -> dict[str, Any]:
    """By the names that clients write."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models_of(annotation: Any, tag: str | None = None) -> Iterator[type[BaseModel]]:
    """All models in an annotation; with a tag only those that carry it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if tag is None:
            yield annotation
        return
    parts = get_args(annotation)
    if tag is not None and any(isinstance(part, Tag) and part.tag == tag for part in parts):
        tag = None
    for part in parts:
        yield from _models_of(part, tag)
