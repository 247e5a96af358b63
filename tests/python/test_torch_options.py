"""Options of calls of the backend `sennit`: of groups and of blocks."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import sennit
from test_torch import run_ranks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch"),
    pytest.mark.timeout(600),  # the first test compiles the backend
]


@pytest.mark.parametrize(
    "what", ["of_a_group", "of_a_block", "a_schedule", "wrong_names", "sparse_tensors"]
)
def test_options_hold(what: str, tmp_path: Path) -> None:
    run_ranks(f"torch_options.{what}", 2, tmp_path)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda t: t.CallOptions(algorithm="rign"), sennit.InvalidArgument, "mean 'ring'"),
        (lambda t: t.CallOptions(algorithm=1), TypeError, "algorithm of CallOptions is text"),
        (lambda t: t.CallOptions(codec="q\0"), sennit.InvalidArgument, "without zero bytes"),
        (lambda t: t.CallOptions(schedule="ring"), TypeError, "schedule of CallOptions is a str"),
        (lambda t: t.CallOptions(tile_bytes=0), sennit.InvalidArgument, "pass a size above 0"),
        (
            lambda t: t.CallOptions(
                schedule=sennit.schedules.known("all_reduce", "ring", 2), algorithm="ring"
            ),
            sennit.InvalidArgument,
            "two ways to run one call",
        ),
        (
            lambda t: t.Options(calls={"allreduce": t.CallOptions()}),
            sennit.InvalidArgument,
            "'allreduce' is not a collective: did you mean 'all_reduce'",
        ),
        (
            lambda t: t.Options(calls={"broadcast": t.CallOptions(algorithm="ring")}),
            sennit.InvalidArgument,
            "'ring' is not an algorithm of broadcast",
        ),
        (lambda t: t.Options(calls=["ring"]), TypeError, "a mapping of collectives"),
        (lambda t: t.Options(calls={"reduce": "ring"}), TypeError, "is CallOptions, not 'ring'"),
        (lambda t: t.Options(config="shm"), TypeError, "config of Options is Config"),
        (lambda t: t.call_options(algo="ring").__enter__(), TypeError, "there are algorithm"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(
    make: Callable[[Any], Any], kind: type[Exception], text: str
) -> None:
    import sennit.schedules
    import sennit.torch

    with pytest.raises(kind) as error:
        make(sennit.torch)
    assert text in str(error.value)
