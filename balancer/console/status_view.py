"""`steersman status` as text and as JSON. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from balancer.console.agents_table import agent_lines
from balancer.console.fleet_snapshot import Fleet, Snapshot
from balancer.console.health import Finding, is_healthy
from balancer.console.text import clipped, counted, printable, wrapped

LEAST_COLUMNS = 60


def status_lines(snapshot: Snapshot, found: Sequence[Finding], width: int) -> list[str]:
    """For people, `width` columns at most."""
    width = max(width, LEAST_COLUMNS)
    lines = [clipped(headline(snapshot, list(found)), width), clipped(f"model    {wanted_model(snapshot)}", width)]
    lines.append(f"{'serving':<9}{revisions(snapshot.fleet)}")
    if snapshot.fleet.agents:
        lines += ["", *agent_lines(snapshot.fleet, width)]
    problems = [finding for finding in found if finding.is_problem]
    notes = [finding for finding in found if not finding.is_problem]
    if problems:
        lines += ["", "WRONG", *(line for finding in problems for line in finding_lines(finding, width))]
    if notes:
        lines += ["", "NOTE", *(line for finding in notes for line in finding_lines(finding, width))]
    return lines


def headline(snapshot: Snapshot, found: list[Finding]) -> str:
    """One line for whoever reads no further."""
    word = "NOT READY" if not snapshot.readiness.ready else "HEALTHY" if is_healthy(found) else "SERVING, BUT SEE BELOW"
    fleet = snapshot.fleet
    return (
        f"{word}   {counted(len(fleet.agents), 'agent')}, {fleet.slots_processing} of "
        f"{counted(fleet.slots_total, 'slot')} busy, {counted(snapshot.requests_waiting, 'request')} waiting   "
        f"({snapshot.address})"
    )


def revisions(fleet: Fleet) -> str:
    """`revision 7` while that is what is wanted and served, else both."""
    serving = ", ".join(str(revision) for revision in fleet.serving_revisions)
    if fleet.serving_revisions == [fleet.wanted_revision]:
        return f"revision {serving}"
    if fleet.wanted_revision is None:
        wanted = "what is wanted is not known yet"
    else:
        wanted = f"wanted is revision {fleet.wanted_revision}" if fleet.wanted_revision else "no state is stored"
    return f"{'revision ' + serving if serving else 'nothing'}; {wanted}"


def wanted_model(snapshot: Snapshot) -> str:
    """What the desired state names."""
    model = snapshot.wanted_model
    if model is None:
        return "unknown (the desired state could not be read)"
    if isinstance(model, dict) and len(model) == 1:
        ((kind, where),) = model.items()
        return printable(where if kind == "LocalToAgent" else f"{kind} {json.dumps(where)}")
    return "none" if model == "None" else printable(str(model))


def finding_lines(finding: Finding, width: int) -> list[str]:
    """Wrapped, the next step below it."""
    mark = "! " if finding.is_problem else "- "
    lines = wrapped(finding.sentence, width, mark, "  ")
    if finding.next_step:
        lines += wrapped(finding.next_step, width, "  -> ", "     ")
    return lines


def status_document(documents: dict[str, Any], found: Sequence[Finding]) -> str:
    """For programs: what the balancer answered, and the findings."""
    document = {
        "healthy": is_healthy(list(found)),
        **documents,
        "problems": [_finding(finding) for finding in found if finding.is_problem],
        "notes": [_finding(finding) for finding in found if not finding.is_problem],
    }
    return json.dumps(document, indent=2)


def _finding(finding: Finding) -> dict[str, str]:
    return {"sentence": finding.sentence, "next_step": finding.next_step}
