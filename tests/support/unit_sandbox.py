"""What the kernel forbids a service, without a service manager: the unit's SystemCallFilter=, RestrictAddressFamilies=,
MemoryDenyWriteExecute= and NoNewPrivileges= are put on this very process, which then becomes the command.

python -m tests.support.unit_sandbox UNIT COMMAND...

Not here: what a manager does with mounts, users and control groups.
"""

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# linux/prctl.h, linux/seccomp.h, seccomp.h
_SET_NO_NEW_PRIVILEGES = 38
_SET_MDWE, _MDWE_REFUSE_EXEC_GAIN = 65, 1
_ACT_ALLOW = 0x7FFF0000
_ACT_ERRNO = 0x00050000
_CMP_EQUAL = 4
_EPERM = 1
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def settings_of(unit: Path) -> dict[str, list[str]]:
    """Each setting of the unit with its values, in order."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^([A-Za-z]+)=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def allowed_system_calls(filters: list[str]) -> frozenset[str]:
    """As systemd.exec(5): the first list allows, `~` takes away from it."""
    groups = _groups()
    allowed: frozenset[str] = frozenset()
    for value in filters:
        calls = frozenset().union(*(_members(word, groups) for word in value.removeprefix("~").split()))
        allowed = allowed - calls if value.startswith("~") else allowed | calls
    return allowed


def _groups() -> Mapping[str, list[str]]:
    """Every group of this systemd with its lines: calls, and groups within it."""
    done = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True
    )
    groups: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        word = line.strip()
        if line.startswith("@"):
            groups[word] = []
        elif word and not word.startswith("#") and groups:
            groups[next(reversed(groups))].append(word)
    return groups


def _members(word: str, groups: Mapping[str, list[str]]) -> frozenset[str]:
    if not word.startswith("@"):
        return frozenset({word})
    return frozenset().union(*(_members(one, groups) for one in groups[word]))


def confine(unit: Path) -> None:
    """Irrevocable. Raises OSError where this kernel or this host cannot."""
    settings = settings_of(unit)
    libc = ctypes.CDLL(None, use_errno=True)
    if settings.get("NoNewPrivileges") == ["yes"] and libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no new privileges")
    allowed = allowed_system_calls(settings["SystemCallFilter"])
    families = [_FAMILIES[name] for name in settings["RestrictAddressFamilies"][0].split()]
    if settings.get("MemoryDenyWriteExecute") == ["yes"]:
        # Kernels before 6.3 do not know it; then the rest is tried without.
        libc.prctl(_SET_MDWE, _MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)
    _load_filter(allowed, families)


def _load_filter(allowed: frozenset[str], families: list[int]) -> None:
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(_ACT_ERRNO | _EPERM))
    for name in allowed:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number < 0:  # of another architecture
            continue
        if name == "socket":
            for family in families:
                only = (_Comparison * 1)(_Comparison(0, _CMP_EQUAL, family, 0))
                seccomp.seccomp_rule_add_array(context, ctypes.c_uint32(_ACT_ALLOW), number, 1, only)
            continue
        if seccomp.seccomp_rule_add_array(context, ctypes.c_uint32(_ACT_ALLOW), number, 0, None) != 0:
            raise OSError(f"no rule for {name}")
    if seccomp.seccomp_load(context) != 0:
        raise OSError("the filter cannot be loaded")
    seccomp.seccomp_release(context)


if __name__ == "__main__":
    confine(Path(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
