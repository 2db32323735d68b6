"""`steersman status`: asks once, prints, and answers with an exit status."""

import asyncio
import json
import shutil
from typing import Any, Final

from pydantic import ValidationError

from balancer.console.command import run
from balancer.console.errors import EXIT_DONE, EXIT_NOT_WELL, Unreachable
from balancer.console.fleet_snapshot import Fleet, Readiness, Snapshot
from balancer.console.health import findings, is_healthy
from balancer.console.management_client import ManagementClient, management_client
from balancer.console.settings import STATUS, StatusSettings
from balancer.console.status_view import status_document, status_lines

READY_PATH: Final = "/ready"
FLEET_PATH: Final = "/api/v1/fleet"
BUFFERED_PATH: Final = "/api/v1/buffered_requests"
STATE_PATH: Final = "/api/v1/balancer_desired_state"
COLUMNS_OF_A_PIPE: Final = 100


def main(arguments: list[str]) -> int:
    """Print the fleet. 0: healthy; 1: not; 2: wrong usage; 3: no balancer."""
    return run(STATUS, StatusSettings, arguments, lambda settings: asyncio.run(_show(settings)))


async def _show(settings: StatusSettings) -> int:
    async with management_client(settings) as client:
        documents, snapshot = await read_snapshot(client)
    found = findings(snapshot)
    if settings.as_json:
        print(status_document(documents, found))
    else:
        width = shutil.get_terminal_size((COLUMNS_OF_A_PIPE, 24)).columns
        print("\n".join(status_lines(snapshot, found, width)))
    return EXIT_DONE if is_healthy(found) else EXIT_NOT_WELL


async def read_snapshot(client: ManagementClient) -> tuple[dict[str, Any], Snapshot]:
    """What the balancer answers, as it is and read. Raises ConsoleError."""
    ready, fleet, buffered, state = await asyncio.gather(
        client.document(READY_PATH),
        client.document(FLEET_PATH),
        client.document(BUFFERED_PATH),
        client.ask("GET", STATE_PATH),
    )
    documents = {"ready": ready, "fleet": fleet, **(buffered if isinstance(buffered, dict) else {})}
    try:
        snapshot = Snapshot(
            address=client.address,
            readiness=Readiness.model_validate(ready),
            fleet=Fleet.model_validate(fleet),
            requests_waiting=int(documents.get("buffered_requests_current", 0)),
            wanted_model=json.loads(state.body).get("model") if state.status == 200 else None,
            is_store_away=state.status == 503 or "Warning" in state.headers,
        )
    except (ValidationError, ValueError, TypeError, AttributeError):
        raise strange_fleet(client.address) from None
    return documents, snapshot


def strange_fleet(address: str) -> Unreachable:
    """An answer of another shape."""
    return Unreachable(
        f"what {address} says of its fleet cannot be read: is it a Steersman balancer of a version near this command's "
        "(steersman --version)?"
    )
