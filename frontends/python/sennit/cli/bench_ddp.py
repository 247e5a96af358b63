"""`sennit bench ddp`: train networks with PyTorch, and count the messages that this needs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

import sennit
from sennit import _core
from sennit.cli import bench_document, launcher, plot, plot_messages
from sennit.cli.failure import missing
from sennit.cli.output import Output, json_option
from sennit.cli.rivals.gloo import TORCH
from sennit.cli.tools import ask

# It needs nothing of this package, so that it also runs where only libnccl.so.2 has been built.
_PROGRAM = Path(sennit.__file__).parent / "share" / "sennit" / "ddp" / "train.py"
_MODELS = ("vgg16", "resnet50", "resnet152", "densenet201")
_DEVICES = {"host": "cpu", "cuda": "cuda"}
_RIVALS = {"host": "gloo", "cuda": "nccl"}
_POSITIVE = click.IntRange(min=1)


@click.command("bench ddp")
@click.argument("models", type=click.Choice(_MODELS), nargs=-1, metavar="[MODEL]...")
@click.option(
    "--bucket-mb",
    type=_POSITIVE,
    multiple=True,
    metavar="N",
    help="Of DDP's buckets; may be repeated.  [default: 25, 64, 256, 1024]",
)
@click.option("--ranks", type=_POSITIVE, metavar="N", help="Default: 2, or all GPUs.")
@click.option(
    "--executor",
    type=click.Choice(list(_DEVICES)),
    default="host",
    show_default=True,
    help="Where the ranks train.",
)
@click.option(
    "--against",
    type=click.Choice(["gloo", "nccl", "none"]),
    help="Train over another library in turns.  [default: none, on GPUs nccl]",
)
@click.option(
    "--compute",
    type=click.Choice(["float32", "bfloat16"]),
    help="Type of operations; gradients are float32.  [default: float32, on GPUs bfloat16]",
)
@click.option("--images", type=_POSITIVE, metavar="N", help="A rank and step; default: 2, GPU 32.")
@click.option("--edge", type=_POSITIVE, metavar="N", help="Pixels; default: 32, GPU 224.")
@click.option("--warmup", type=_POSITIVE, metavar="N", help="Untimed steps; default: 1, GPU 4.")
@click.option("--iterations", type=_POSITIVE, metavar="N", help="Of a round; default: 1, GPU 5.")
@click.option("--rounds", type=_POSITIVE, metavar="N", help="Of a library; default: 1, GPU 4.")
@click.option(
    "--limit-s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    default=180,
    show_default=True,
    help="What would begin too late is left out.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(path_type=Path),
    callback=plot.parse_plot,
    metavar="FILE",
    help="Draw the sizes of messages to this file.",
)
@json_option
def command(json_file: str | None, plot_file: Path | None, executor: str, **options: Any) -> int:
    """Train networks with PyTorch, and count messages.

    MODEL is one of vgg16, resnet50, resnet152 and densenet201; default: all. They are trained on
    noise by DistributedDataParallel. Ranks in host memory use the backend sennit, and each message
    is counted where it is handed over; ranks with a GPU each use the library in place of NCCL.
    """
    against = options["against"]
    if against not in (None, "none", _RIVALS[executor]):
        raise click.UsageError(f"{against} is no rival with --executor {executor}")
    place = launcher.place_in_job(os.environ)
    if place is not None:
        raise click.UsageError(f"the ranks are started here; do not use {place.launcher}")
    _refuse_what_is_missing(executor)
    output = Output(json_file)
    with tempfile.TemporaryDirectory(prefix="sennit-ddp-") as folder:
        answer = Path(folder) / "answer.json"
        code = subprocess.run(
            [sys.executable, str(_PROGRAM), "--out", str(answer), *_arguments(executor, options)],
            stdout=sys.stderr if json_file == "-" else None,
            check=False,
        ).returncode
        if not answer.exists():  # it has said why
            return code
        found = json.loads(answer.read_text(encoding="utf-8"))
    rows = found.pop("rows")
    output.write_json(bench_document.document(rows) | found)
    known = [row for row in rows if row["messages"]["step"]["all_reduce"]]
    if plot_file is not None and known:
        plot_messages.save_messages(plot_file, known)
    return code


def _refuse_what_is_missing(executor: str) -> None:
    if executor == "cuda" and not ask(_core.tool_machine).get("gpus"):
        raise missing("--executor cuda needs GPUs, and there are none", "use --executor host")
    if importlib.util.find_spec("torch") is None:
        raise missing("bench ddp needs PyTorch, which is not here", f"pip install {TORCH}")


def _arguments(executor: str, options: dict[str, Any]) -> list[str]:
    """The same in the words of the program."""
    words = {"device": _DEVICES[executor], "rival": options.pop("against")}
    words |= {"model": options.pop("models"), **options}
    if executor == "cuda":
        words["ours"] = sennit.nccl_library()
        words["ranks"] = words["ranks"] or len(ask(_core.tool_machine)["gpus"])
    line = []
    for name, value in words.items():
        values = value if isinstance(value, tuple) else (value,)
        for one in values:
            line += [] if one is None else [f"--{name.replace('_', '-')}", str(one)]
    return line
