"""What is wrong with a dashboard, one sentence each: the rules of Grafana's dashboard-linter, and a few of our own.

The names of the linter's rules begin its sentences. It knows PromQL only as our boards write it: a metric is followed
by its matchers in braces, and braces stand nowhere else.
"""

import re
from collections.abc import Iterator
from typing import Any

Board = dict[str, Any]
Panel = dict[str, Any]

SOURCE = "${datasource}"
# Of the linter's list, which is Grafana's: those in use. A new one is looked up there first.
UNITS = frozenset("none short percentunit s bytes Bps reqps ops cps".split())
WHERE = ('job=~"$job"', 'instance=~"$instance"')
RATES = frozenset({"rate", "irate", "increase"})

_SELECTOR = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)\{([^}]*)\}(\[[^\]]*\])?")
_CALL_BEFORE = re.compile(r"(\w+)\($")
_METRIC = re.compile(r"(?<!:)\b(?:steersman|process|vllm)_[a-z0-9_]+\b")


def complaints(board: Board) -> list[str]:
    """Empty for a good one."""
    return [*_of_variables(board), *_of_the_whole(board), *(one for panel in board["panels"] for one in _of(panel))]


def expressions(board: Board) -> Iterator[tuple[str, str]]:
    """Where (a panel's title, or an annotation's name), and the PromQL."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def metrics_of(expression: str) -> set[str]:
    """Names of ours and of the process that an expression asks for."""
    return set(_METRIC.findall(expression))


def _of_variables(board: Board) -> Iterator[str]:
    variables = {one["name"]: one for one in board["templating"]["list"]}
    source = variables.get("datasource", {})
    if (source.get("type"), source.get("query"), source.get("label")) != ("datasource", "prometheus", "Data source"):
        yield "template-datasource: a variable `datasource` for Prometheus, called `Data source`"
    for name in ("job", "instance"):
        found = variables.get(name, {})
        if found.get("type") != "query" or found.get("datasource", {}).get("uid") != SOURCE:
            yield f"template-{name}: a variable by query from the chosen source"
        if not found.get("multi") or not found.get("includeAll") or found.get("allValue") != ".+":
            yield f"template-{name}: several can be chosen, and all are `.+`"
        if found.get("label") != name.title():
            yield f"template-{name}: its label is `{name.title()}`"
        asked = found.get("query", {}).get("query", "")
        if not re.fullmatch(rf"label_values\(\w+(\{{[^}}]+\}})?, {name}\)", asked):
            yield f"template-label-promql: `{asked}`"
        if found.get("refresh") != 2:
            yield f"template-on-time-change-reload: `{name}` is asked for again when the time range changes"


def _of_the_whole(board: Board) -> Iterator[str]:
    if board["editable"] is not False:
        yield "uneditable-dashboard"
    panels = board["panels"]
    if not 6 <= len(panels) <= 10:
        yield f"{len(panels)} panels: 6 to 10 can be read"
    if len({panel["id"] for panel in panels}) < len(panels) or len({panel["title"] for panel in panels}) < len(panels):
        yield "two panels have the same id or title"
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + right, at["y"] + down) for right in range(at["w"]) for down in range(at["h"])}
        if at["x"] + at["w"] > 24 or cells & taken:
            yield f"{panel['title']}: it lies on another or outside"
        taken |= cells
    if not any(link["type"] == "dashboards" for link in board["links"]):
        yield "no links to the other dashboards"
    for annotation in board["annotations"]["list"]:
        yield from _of_expression(annotation["name"], annotation["expr"])


def _of(panel: Panel) -> Iterator[str]:
    title = panel["title"]
    if panel["datasource"]["uid"] != SOURCE or any(one["datasource"]["uid"] != SOURCE for one in panel["targets"]):
        yield f"panel-datasource: {title}"
    good, _, otherwise = panel["description"].partition("\n\n**If not:** ")
    if not title or not otherwise or len(good) <= len("**Good:** "):
        yield f"panel-title-description: {title} says what good looks like, and what to do if not"
    if panel["fieldConfig"]["defaults"]["unit"] not in UNITS:
        yield f"panel-units: {title}"
    if any(target.get("instant", False) != (panel["type"] == "stat") for target in panel["targets"]):
        yield f"{title}: a value that is shown alone is that of this moment"
    if not panel["targets"]:
        yield f"panel-no-targets: {title}"
    for target in panel["targets"]:
        yield from _of_expression(title, target["expr"])


def _of_expression(title: str, expression: str) -> Iterator[str]:
    if expression.count("(") != expression.count(")") or not _SELECTOR.search(expression):
        yield f"target-promql: {title}: {expression}"
    if re.search(r"\b(vector|absent|absent_over_time)\(", expression):
        yield f"{title}: an invented value hides that there is none"
    for selector in _SELECTOR.finditer(expression):
        metric, matchers, window = selector.groups()
        for name, matcher in zip(("job", "instance"), WHERE, strict=True):
            if matcher not in matchers.split(", "):
                yield f"target-{name}: {title}: {metric}"
        if window not in (None, "[$__rate_interval]"):
            yield f"target-rate-interval: {title}: {window}"
        call = _CALL_BEFORE.search(expression[: selector.start()])
        counts = metric.endswith(("_total", "_bucket", "_sum", "_count"))
        if counts and (window is None or call is None or call[1] not in RATES):
            yield f"target-counter-agg: {title}: {metric}"
    without = _SELECTOR.sub("", expression)
    if bare := metrics_of(without):
        yield f"target-job: {title}: {sorted(bare)} without matchers"
