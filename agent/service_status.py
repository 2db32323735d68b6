"""What an agent tells its service manager of itself. Pure.

`systemctl status` shows it to every user of the host, so it names a model's file and no folder.
"""

import posixpath

from shared.agent_status import AgentStatus
from shared.service_manager import ServiceFacts

LONGEST_LOAD_SILENCE_SECONDS = 600.0
"""A load that has not moved for half of this, and then not for all of it either, hangs (a driver, a network disk)."""

_LOADING = ("loading", "settling")


def service_facts(status: AgentStatus, balancers: int, load_fraction: float, *, is_ready: bool) -> ServiceFacts:
    """`balancers`: how many it is linked to. `load_fraction`: of the load that runs, 0 to 1.

    Ready when it dials its balancers, with or without a model. The engine has to advance while it has work; while a
    model is loaded there is no engine.
    """
    is_loading = status.swap_phase in _LOADING
    return ServiceFacts(
        status=_line(status, balancers, load_fraction),
        is_ready=is_ready,
        silent_seconds=0.0 if is_loading else status.last_step_age_seconds or 0.0,
        load=load_fraction if is_loading else None,
        longest_load_silence_seconds=LONGEST_LOAD_SILENCE_SECONDS,
    )


def _line(status: AgentStatus, balancers: int, load_fraction: float) -> str:
    parts = [posixpath.basename(status.model_path) if status.model_path else "no model"]
    parts.append(f"{status.slots_processing}/{status.desired_slots_total} slots busy")
    if status.swap_phase in _LOADING:
        parts.append(f"loading a model: {_percent(load_fraction)}")
    elif status.swap_phase is not None:
        parts.append(f"{status.swap_phase} for another model" if status.model_path else f"{status.swap_phase} a model")
    if status.download_filename is not None:
        of_all = status.download_current / status.download_total if status.download_total else None
        parts.append(f"downloading {posixpath.basename(status.download_filename)}: {_percent(of_all)}")
    if status.issues:
        parts.append(f"issue: {status.issues[0].kind}")
    parts.append(_linked_to(balancers))
    return ", ".join(parts)


def _percent(fraction: float | None) -> str:
    return "size unknown" if fraction is None else f"{int(100 * fraction)} %"


def _linked_to(balancers: int) -> str:
    if balancers == 0:
        return "NO BALANCER reached"
    return "linked to 1 balancer" if balancers == 1 else f"linked to {balancers} balancers"
