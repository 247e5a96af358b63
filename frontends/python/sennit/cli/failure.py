"""Why a command ends without its result, and the exit code that says so."""

from __future__ import annotations

EXIT_DONE = 0
EXIT_WRONG = 1
EXIT_USAGE = 2
EXIT_RANK_FAILED = 3
EXIT_MISSING = 4
EXIT_NOT_WRITTEN = 5
EXIT_INTERRUPTED = 130
EXIT_READER_GONE = 141  # as of a program that SIGPIPE ends
EXIT_TERMINATED = 143

_EXIT_CODES = {
    "InvalidArgument": EXIT_USAGE,
    "InvalidUsage": EXIT_USAGE,
    "Unsupported": EXIT_MISSING,
    "NotProved": EXIT_WRONG,
}


class Failure(Exception):
    """A sentence for the user and the exit code that goes with it."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Keep both."""
        super().__init__(message)
        self.exit_code = exit_code


def missing(what: str, remedy: str) -> Failure:
    """The failure of a command that needs something that is not here."""
    return Failure(f"sennit: {what}\nNext: {remedy}", EXIT_MISSING)


def exit_code_of(error_class: str) -> int:
    """The exit code for an exception class of the library; most mean that ranks failed."""
    return _EXIT_CODES.get(error_class, EXIT_RANK_FAILED)
