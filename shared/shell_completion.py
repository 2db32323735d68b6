"""`steersman completion bash|zsh|fish`: a script for the shell, made of what commands know of their own flags. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from shared.settings_sources import Command, Option, Positional, SettingsModel, options_of

Shell = Literal["bash", "zsh", "fish"]

COMPLETION: Final = Command(
    program="steersman completion",
    summary="Print a script that lets a shell complete subcommands, flags, their values and files.",
    environment_prefix="STEERSMAN_COMPLETION_",
    lesson=(
        "examples:",
        "  steersman completion bash > ~/.local/share/bash-completion/completions/steersman",
        "  steersman completion zsh > ~/.zfunc/_steersman      # with: fpath+=~/.zfunc; compinit",
        "  steersman completion fish > ~/.config/fish/completions/steersman.fish",
        '  eval "$(steersman completion bash)"                 # in this shell only',
    ),
)


class CompletionSettings(SettingsModel):
    """`steersman completion`."""

    shell: Annotated[Shell, Positional("bash|zsh|fish")] = Field(description="which shell")


@dataclass(frozen=True, slots=True)
class Flag:
    """`spelling`: with its dashes. `takes`: "nothing", "text", "file", or the words to choose from."""

    spelling: str
    help: str
    takes: str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subcommand:
    """`words`: what may stand as its first positional; `takes_file`: whether a file may stand behind that."""

    name: str
    summary: str
    flags: tuple[Flag, ...] = ()
    words: tuple[str, ...] = ()
    takes_file: bool = False


HELP: Final = Flag("--help", "what it does, and examples", "nothing")


def described(name: str, summary: str, model: type[SettingsModel]) -> Subcommand:
    """What a subcommand's settings say of it."""
    options = options_of(model)
    flags = [flag for option in options if option.positional is None for flag in _flags(option)]
    config = Flag("--config", "a TOML file with any of these settings", "file")
    words = next((option.choices for option in options if option.positional is not None), ())
    takes_file = any(option.positional is not None and option.is_file for option in options)
    return Subcommand(name, summary, (HELP, config, *flags), words, takes_file)


def script(shell: Shell, subcommands: Sequence[Subcommand]) -> str:
    """The whole script."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](subcommands)


def _flags(option: Option) -> list[Flag]:
    takes: str | tuple[str, ...] = option.choices or ("file" if option.is_file else "text")
    if option.is_bool:
        takes = "nothing"
    text = option.help.replace("%%", "%")
    spellings = [f"--{flag}" for flag in (option.flag, *option.other_flags)]
    if option.is_bool:
        spellings += [f"--no-{flag}" for flag in (option.flag, *option.other_flags)]
    return [Flag(spelling, text, takes) for spelling in spellings]


_BASH: Final = """\
# bash completion of steersman; made by `steersman completion bash`
_steersman() {
  local current previous command flags="" words="" files="" texts="" takes_file="" choices="" at placed=0
  current=${COMP_WORDS[COMP_CWORD]}
  previous=${COMP_WORDS[COMP_CWORD-1]}
  command=${COMP_WORDS[1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "@NAMES@ --help --version" -- "$current"))
    return
  fi
  case $command in
@CASES@
    *) return ;;
  esac
  case "$command $previous" in
@CHOICES@
  esac
  if [[ -n $choices ]]; then
    COMPREPLY=($(compgen -W "$choices" -- "$current"))
    return
  fi
  if [[ " $files " == *" $previous "* ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "$current"))
    return
  fi
  if [[ " $texts " == *" $previous "* ]]; then
    return
  fi
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    return
  fi
  for ((at = 2; at < COMP_CWORD; at++)); do
    [[ " $words " == *" ${COMP_WORDS[at]} "* ]] && placed=1
  done
  if [[ -n $words && $placed == 0 ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  elif [[ -n $takes_file ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -F _steersman steersman
"""


def _bash(subcommands: Sequence[Subcommand]) -> str:
    cases, choices = [], []
    for one in subcommands:
        cases.append(
            f"    {one.name}) flags='{_spellings(one)}'; files='{_spellings(one, 'file')}'; "
            f"texts='{_spellings(one, 'text')}'; words='{' '.join(one.words)}'; "
            f"takes_file='{'yes' if one.takes_file else ''}' ;;"
        )
        choices += [
            f"    '{one.name} {flag.spelling}') choices='{' '.join(flag.takes)}' ;;"
            for flag in one.flags
            if isinstance(flag.takes, tuple)
        ]
    text = _BASH.replace("@NAMES@", " ".join(one.name for one in subcommands))
    return text.replace("@CASES@", "\n".join(cases)).replace("@CHOICES@", "\n".join(choices))


def _spellings(subcommand: Subcommand, takes: str | None = None) -> str:
    return " ".join(flag.spelling for flag in subcommand.flags if takes is None or flag.takes == takes)


_ZSH: Final = """\
#compdef steersman
# zsh completion of steersman; made by `steersman completion zsh`
_steersman() {
  local -a subcommands
  subcommands=(
@NAMES@
  )
  if ((CURRENT == 2)); then
    _describe 'subcommand' subcommands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
@CASES@
  esac
}
if [[ $funcstack[1] == _steersman ]]; then
  _steersman "$@"
else
  compdef _steersman steersman
fi
"""


def _zsh(subcommands: Sequence[Subcommand]) -> str:
    names = [f"    {_quoted(f'{one.name}:{one.summary}')}" for one in subcommands]
    cases = [f"    {one.name}) _arguments {' '.join(_zsh_arguments(one))} ;;" for one in subcommands]
    return _ZSH.replace("@NAMES@", "\n".join(names)).replace("@CASES@", "\n".join(cases))


def _zsh_arguments(subcommand: Subcommand) -> list[str]:
    found = []
    for flag in subcommand.flags:
        text = flag.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        action = {"nothing": "", "text": ":value: ", "file": ":file:_files"}
        takes = f":value:({' '.join(flag.takes)})" if isinstance(flag.takes, tuple) else action[flag.takes]
        found.append(_quoted(f"*{flag.spelling}[{text}]{takes}"))
    if subcommand.words:
        found.append(_quoted(f"1:what:({' '.join(subcommand.words)})"))
    if subcommand.takes_file:
        found.append(_quoted("2:file:_files"))
    return found


def _fish(subcommands: Sequence[Subcommand]) -> str:
    lines = ["# fish completion of steersman; made by `steersman completion fish`", "complete -c steersman -f"]
    for one in subcommands:
        lines.append(f"complete -c steersman -n __fish_use_subcommand -a {one.name} -d {_fish_quoted(one.summary)}")
    for one in subcommands:
        under = f"complete -c steersman -n '__fish_seen_subcommand_from {one.name}'"
        for flag in one.flags:
            takes = {"nothing": "", "text": " -x", "file": " -r -F"}
            asks = f" -x -a '{' '.join(flag.takes)}'" if isinstance(flag.takes, tuple) else takes[flag.takes]
            lines.append(f"{under} -l {flag.spelling.removeprefix('--')}{asks} -d {_fish_quoted(flag.help)}")
        if one.words:
            placed = f"__fish_seen_subcommand_from {' '.join(one.words)}"
            inside = f"complete -c steersman -n '__fish_seen_subcommand_from {one.name}; and"
            lines.append(f"{inside} not {placed}' -a '{' '.join(one.words)}'")
            if one.takes_file:
                lines.append(f"{inside} {placed}' -F")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
