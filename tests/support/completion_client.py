"""A blocking client of the completion routes that knows nothing of ours."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from shared.settings_sources import Address

DEADLINE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class CompletionClient:
    """`fields`: what every body has unless a call says otherwise."""

    address: Address
    path: str
    fields: dict[str, Any]

    def ask(self, headers: dict[str, str] | None = None, /, **fields: Any) -> tuple[int, str]:
        """Status and body."""
        request = urllib.request.Request(
            f"http://{self.address}{self.path}",
            json.dumps({**self.fields, **fields}).encode(),
            {"Content-Type": "application/json", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def document(self, **fields: Any) -> dict[str, Any]:
        """A whole answer with status 200."""
        status, text = self.ask(**fields)
        assert status == 200, text
        found: dict[str, Any] = json.loads(text)
        return found

    def chunks(self, **fields: Any) -> list[dict[str, Any]]:
        """The data of a stream that ended with `[DONE]`."""
        status, text = self.ask(stream=True, **fields)
        assert status == 200, text
        *events, done, rest = text.split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]
