"""The formats of the standard as patterns. Names outside the standard are annotations (2020-12 validation, section 7).

Each accepts at most what its RFC does. Exact but for: leap seconds, the year 0000 and white-space variants of
date-time are left out; `idn-hostname` takes ASCII host names only, `idn-email` ASCII domains only; `regex` takes a
useful part of the expressions.
"""

import functools

from agent.constraint.json_schema.patterns import Pattern, read_pattern

_MONTH_AND_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = f"(?:{_YEAR}-{_MONTH_AND_DAY}|{_LEAP_YEAR}-02-29)"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

_OF_TIME = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_OF_DATE = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = f"P(?:{_OF_DATE}(?:{_OF_TIME})?|{_OF_TIME}|[0-9]+W)"  # RFC 3339, appendix A

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?:{_BYTE}\.){{3}}{_BYTE}"
_H = "[0-9A-Fa-f]{1,4}"
_LAST = f"(?:{_H}:{_H}|{_IPV4})"
_IPV6 = (  # RFC 3986, section 3.2.2
    f"(?:(?:{_H}:){{6}}{_LAST}|::(?:{_H}:){{5}}{_LAST}|(?:{_H})?::(?:{_H}:){{4}}{_LAST}"
    f"|(?:(?:{_H}:){{0,1}}{_H})?::(?:{_H}:){{3}}{_LAST}|(?:(?:{_H}:){{0,2}}{_H})?::(?:{_H}:){{2}}{_LAST}"
    f"|(?:(?:{_H}:){{0,3}}{_H})?::{_H}:{_LAST}|(?:(?:{_H}:){{0,4}}{_H})?::{_LAST}"
    f"|(?:(?:{_H}:){{0,5}}{_H})?::{_H}|(?:(?:{_H}:){{0,6}}{_H})?::)"
)

_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_EMAIL = rf"{_ATOM}(?:\.{_ATOM})*@(?:{_HOST}|\[{_IPV4}\])"
_IDN_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\u00a1-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef-]+"
_IDN_EMAIL = rf"{_IDN_ATOM}(?:\.{_IDN_ATOM})*@{_HOST}"

_UCS = r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    rf"\u{{{plane:x}0000}}-\u{{{plane:x}fffd}}" for plane in range(1, 14)
)


def _reference(more: str, absolute: bool) -> str:
    """RFC 3986, appendix A; `more`: what RFC 3987 adds to the unreserved characters."""
    plain = rf"\-A-Za-z0-9._~!$&'()*+,;={more}"
    escaped = "%[0-9A-Fa-f]{2}"
    user = f"(?:[{plain}:]|{escaped})*"
    name = f"(?:[{plain}]|{escaped})*"
    character = f"(?:[{plain}:@]|{escaped})"
    literal = rf"\[(?:{_IPV6}|[Vv][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\]"
    authority = f"(?:{user}@)?(?:{literal}|{name})(?::[0-9]*)?"
    rest = f"(?:/{character}*)*"
    network, rooted = f"//{authority}{rest}", f"/(?:{character}+{rest})?"
    tail = rf"(?:\?(?:{character}|[/?])*)?(?:#(?:{character}|[/?])*)?"
    whole = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{network}|{rooted}|{character}+{rest}|){tail}"
    if absolute:
        return whole
    no_colon = f"(?:[{plain}@]|{escaped})+"
    return f"(?:{whole}|(?:{network}|{rooted}|{no_colon}{rest}|){tail})"


_NAME = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
_VARIABLE = rf"{_NAME}(?::[1-9][0-9]{{0,3}}|\*)?"
_TEMPLATE = (  # RFC 6570
    rf"(?:[!#$&(-;=?-\[\]_a-z~{_UCS}]|%[0-9A-Fa-f]{{2}}|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)
_JSON_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_PIECE = (
    r"(?:[^\\^$.|?*+()\[\]{}\n\r\u2028\u2029]|\.|\\[dDwWsSntrfv.\\/^$|?*+()\[\]{}-]"
    r"|\[\^?(?:[A-Za-z0-9_ ]|[a-y]-z|[A-Y]-Z|[0-8]-9)+\])"
)
_PIECES = rf"(?:{_PIECE}(?:[*+?]\??)?)*"
_REGEX = rf"\^?(?:{_PIECE}(?:[*+?]\??)?|\||\((?:\?:)?{_PIECES}(?:\|{_PIECES})*\)[*+?]?)*\$?"

_EXACT = {
    "date": _DATE, "time": _TIME, "date-time": f"{_DATE}[Tt]{_TIME}", "duration": _DURATION,
    "hostname": f"(?=[^]{{1,253}}$){_HOST}", "ipv4": _IPV4, "ipv6": _IPV6, "email": _EMAIL,
    "uri": _reference("", True), "uri-reference": _reference("", False),
    "iri": _reference(_UCS, True), "iri-reference": _reference(_UCS, False),
    "uuid": "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", "uri-template": _TEMPLATE,
    "json-pointer": _JSON_POINTER, "relative-json-pointer": rf"(?:0|[1-9][0-9]*)(?:#|{_JSON_POINTER})",
}  # fmt: skip
_NARROWER = {"idn-email": _IDN_EMAIL, "idn-hostname": _HOST, "regex": _REGEX}
_OLD_NAMES = {"ip-address": "ipv4", "host-name": "hostname"}  # draft 3


@functools.cache
def format_patterns(name: str) -> tuple[Pattern, ...]:
    """What a text of this format matches; nothing for a name outside the standard."""
    name = _OLD_NAMES.get(name, name)
    text = _EXACT.get(name) or _NARROWER.get(name)
    if text is None:
        return ()
    signed = read_pattern(f"^{text}$" if text.startswith("(?=") else f"^(?:{text})$", "#")
    return tuple(
        Pattern(f"format {name} {number}", pattern.node, name in _EXACT)
        for number, pattern in enumerate(signed.required)
    )
