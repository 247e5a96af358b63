"""The command line: one file a command.

Exit codes: 0 done, 1 wrong data or a failed proof, 2 bad usage, 3 a rank failed or a deadline
passed, 4 needs hardware or a library that is not here, 5 the answer could not be written. Ended by
Ctrl-C 130, by SIGTERM 143, by a reader of the output that has gone 141.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import click

import sennit
from sennit.cli import (
    algorithms,
    bench,
    bench_ddp,
    codec,
    doctor,
    explain,
    info,
    machine,
    reproduce,
    show,
    simulate,
    tune,
    verify,
)
from sennit.cli import run as run_program
from sennit.cli.failure import (
    EXIT_INTERRUPTED,
    EXIT_NOT_WRITTEN,
    EXIT_READER_GONE,
    EXIT_TERMINATED,
    EXIT_USAGE,
    Failure,
    exit_code_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class _Words(click.Group):
    """Commands whose names may be two words: `bench ddp` stands next to `bench`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        two = " ".join(args[:2])
        return super().resolve_command(ctx, [two, *args[2:]] if two in self.commands else args)


@click.group(
    cls=_Words, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(sennit.__version__, prog_name="sennit")
def command_line() -> None:
    """Collective communication over every wire of a machine.

    Exit codes: 0 done, 1 wrong data or a failed proof, 2 bad usage, 3 a rank failed or a deadline
    passed, 4 needs hardware or a library that is not here, 5 the answer could not be written.
    """


for _module in (
    bench,
    bench_ddp,
    verify,
    algorithms,
    show,
    simulate,
    explain,
    tune,
    codec,
    reproduce,
    machine,
    run_program,
    info,
    doctor,
):
    command_line.add_command(_module.command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit code."""
    if "_SENNIT_COMPLETE" in os.environ:  # a shell asks click for words, and gets them here
        command_line.main(prog_name="sennit")
    try:
        with _ending_by_sigterm():
            code = _run(arguments)
            sys.stdout.flush()
            return code
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("sennit: interrupted\n")
        return EXIT_INTERRUPTED
    except Terminated:
        sys.stderr.write("sennit: ended by SIGTERM\n")
        return EXIT_TERMINATED
    except BrokenPipeError:
        _discard_output()
        return EXIT_READER_GONE
    except OSError as error:
        _discard_output()
        sys.stderr.write(f"sennit: the output could not be written: {error.strerror}\n")
        return EXIT_NOT_WRITTEN


def _run(arguments: Sequence[str]) -> int:
    try:
        # Not main(): for a reader that has gone it would say that the data is wrong.
        with command_line.make_context("sennit", list(arguments)) as context:
            code = command_line.invoke(context)
    except click.exceptions.Exit as end:
        return int(end.exit_code)
    except click.UsageError as error:
        command = "sennit" if error.ctx is None else error.ctx.command_path
        _say(f"{error.format_message()}\nNext: `{command} --help` lists what it takes")
        return EXIT_USAGE
    except click.ClickException as error:
        _say(error.format_message())
        return EXIT_USAGE
    except Failure as failure:
        _say(str(failure))
        return failure.exit_code
    except sennit.Error as error:
        _say(str(error))
        return exit_code_of(type(error).__name__)
    return code if isinstance(code, int) else 0


def _say(what: str) -> None:
    """One style for all errors, unlike what programs print."""
    sys.stderr.write(what + "\n" if what.startswith("sennit: ") else f"sennit: {what}\n")


class Terminated(BaseException):
    """SIGTERM has come: what the command holds is to be given back on the way out."""


@contextlib.contextmanager
def _ending_by_sigterm() -> Iterator[None]:
    def end(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _discard_output() -> None:
    """Let the interpreter flush what is left into nothing, without a word."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
