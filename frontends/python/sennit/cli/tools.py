"""The library's JSON functions, as dictionaries."""

from __future__ import annotations

import json
import queue
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

from sennit import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_S = 0.1  # for Ctrl-C

_running: list[threading.Thread] = []


def ask(tool: Callable[[str], str], **request: Any) -> dict[str, Any]:
    """Call a tool with the arguments that are not None.

    It runs on a thread of its own: a tool may take minutes, and Ctrl-C has to end them.
    """
    given = {key: value for key, value in request.items() if value is not None}
    answers: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            # A name of the command line may hold what is no text.
            text = json.dumps(given, ensure_ascii=False).encode("utf-8", "replace").decode()
            answers.put(tool(text))
        except BaseException as error:
            answers.put(error)

    thread = threading.Thread(target=run, daemon=True)
    _running.append(thread)
    thread.start()
    while True:
        try:
            text = answers.get(timeout=_LOOK_S)
            break
        except queue.Empty:
            continue
    _running.remove(thread)
    if isinstance(text, InvalidArgument):
        raise InvalidArgument(_in_options(str(text))) from text
    if isinstance(text, BaseException):
        raise text
    answer: dict[str, Any] = json.loads(text)
    return answer


def is_running() -> bool:
    """Whether a tool still runs that somebody has stopped waiting for."""
    return any(thread.is_alive() for thread in _running)


def warn_unproved(answer: dict[str, Any]) -> bool:
    """Say on standard error that a schedule has no proof; False then."""
    proof = answer.get("proof")
    if proof is None or proof["proved"]:
        return True
    sys.stderr.write(f"sennit: this schedule is not proved: {proof['why']}\n")
    return False


def _in_options(text: str) -> str:
    """The text, with the options of the command instead of the fields of a request."""
    return re.sub(r"\brequest\.(\w+)", lambda field: "--" + field[1].replace("_", "-"), text)
