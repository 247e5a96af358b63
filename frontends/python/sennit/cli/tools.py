"""The library's JSON functions, as dictionaries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def ask(tool: Callable[[str], str], **request: Any) -> dict[str, Any]:
    """Call a tool with the arguments that are not None."""
    given = {key: value for key, value in request.items() if value is not None}
    answer: dict[str, Any] = json.loads(tool(json.dumps(given)))
    return answer
