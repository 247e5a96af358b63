"""The command line: one file a command.

Exit codes: 0 done, 1 wrong data or a failed proof, 2 bad usage, 3 a rank failed or a deadline
passed, 4 needs hardware or a library that is not here.
"""

from __future__ import annotations

import sys
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
from sennit.cli.failure import EXIT_INTERRUPTED, EXIT_USAGE, Failure, exit_code_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Words(click.Group):
    """Commands whose names may be two words: `bench ddp` stands beside `bench`."""

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
    passed, 4 needs hardware or a library that is not here.
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
    info,
    doctor,
):
    command_line.add_command(_module.command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit code."""
    try:
        code = command_line.main(list(arguments), prog_name="sennit", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        return failure.exit_code
    except sennit.Error as error:
        sys.stderr.write(f"{error}\n")
        return exit_code_of(type(error).__name__)
    return code if isinstance(code, int) else 0
