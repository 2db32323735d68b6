"""What is wrong with the settings of a command, in one plain sentence. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError

from shared.fault_words import fault_words
from shared.nearest_word import did_you_mean


def unknown_words_sentence(words: Sequence[str], flags: Iterable[str]) -> str:
    """Of what nobody could use on the line: flags, and words that may have been the values of those."""
    unknown = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if unknown is None:
        return f"there is no use for {' '.join(map(repr, words))}"
    return f"there is no flag {unknown}{did_you_mean(unknown, flags)}"


def faults_sentence(
    error: ValidationError, names: Mapping[str, str], origins: Mapping[str, str], example: str | None
) -> str:
    """All that is wrong, then all that is missing, with an example of that.

    `names`: what fields are called on the command line; `origins`: where those that were given came from.
    """
    missing, wrong = [], []
    for fault in error.errors(include_url=False):
        field = str(fault["loc"][0]) if fault["loc"] else ""
        name = names.get(field, field)
        if fault["type"] == "missing":
            missing.append(name)
            continue
        message = fault_words(fault["type"], fault.get("ctx", {})) or fault["msg"].removeprefix("Value error, ")
        wrong.append(f"{origins.get(field, name)}: {message}".removeprefix(": "))
    if missing:
        few = f"{', '.join(missing[:-1])} and {missing[-1]} are" if len(missing) > 1 else f"{missing[0]} is"
        wrong.append(f"{few} required{'' if example is None else f', as in: {example}'}")
    return "; ".join(dict.fromkeys(wrong))
