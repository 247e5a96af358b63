"""What a program may ask of the calls of a group, or of the calls in a block of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import operator
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sennit import Config, InvalidArgument, _core
from sennit.calls import check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sennit.schedules import Schedule

_MESSAGES = "send_recv"


@dataclasses.dataclass(frozen=True)
class CallOptions:
    """What is asked of calls, the same on all ranks; None leaves the choice to the library.

    What cannot be met, such as a protocol that the ranks do not have, is an error of the call.

    Attributes:
        algorithm: A name of docs/algorithms.md (`sennit algorithms`), such as "ring".
        schedule: A schedule of one's own (docs/own_schedules.md), in place of an algorithm.
        path: "shm", "cma" or both with a "+", between nodes "rail/0+rail/1"; on GPUs "nvlink",
            "host", "nvlink+host"; "device" in place of "nvlink" where all ranks share one GPU.
        protocol: "slots" or "direct"; on GPUs "ll", "ll128", "slots", "direct_put", "copy_engines".
        tile_bytes: Bytes of a tile; CPU ranks only.
        reproducible: Reduce in the order of ranks.
        codec: What shortens messages, such as "q8", or "none".
    """

    algorithm: str | None = None
    schedule: Schedule | None = None
    path: str | None = None
    protocol: str | None = None
    tile_bytes: int | None = None
    reproducible: bool = False
    codec: str | None = None

    def __post_init__(self) -> None:
        """Refuse by name what no call can take.

        Raises:
            InvalidArgument: An algorithm that no collective has, two ways at once, or no size.
            TypeError: A text that is none.
        """
        for field in ("algorithm", "path", "protocol", "codec"):
            check_text(f"{field} of CallOptions", getattr(self, field))
        if self.schedule is not None:
            _check_schedule(self.schedule, self.algorithm)
        if self.algorithm is not None:
            _check_name(self.algorithm, {name for _, name in _algorithms()}, "an algorithm")
        if self.tile_bytes is not None and not 0 < operator.index(self.tile_bytes) < 2**63:
            raise InvalidArgument(
                f"tile_bytes of CallOptions is {self.tile_bytes}: pass a size above 0, or None"
            )

    def over(self, outer: CallOptions | None) -> CallOptions:
        """These options, and those of `outer` where nothing is asked here."""
        if outer is None:
            return self
        mine = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if mine["algorithm"] is None and mine["schedule"] is None:
            mine |= {"algorithm": outer.algorithm, "schedule": outer.schedule}
        for field in ("path", "protocol", "tile_bytes", "codec"):
            mine[field] = getattr(outer, field) if mine[field] is None else mine[field]
        mine["reproducible"] = self.reproducible or outer.reproducible
        return CallOptions(**mine)

    def held_by(self, module: Any) -> Any:
        """The options as the compiled half of the backend takes them."""
        algorithm = self.algorithm if self.schedule is None else self.schedule.algorithm
        return module.settings(
            algorithm=algorithm or "",
            path=self.path or "",
            protocol=self.protocol or "",
            tile_bytes=self.tile_bytes or 0,
            reproducible=bool(self.reproducible),
            codec=self.codec or "",
        )


@dataclasses.dataclass(frozen=True)
class Options:
    """`pg_options` of a group: `dist.new_group(pg_options=sennit.torch.Options(...))`.

    Attributes:
        config: Settings of its communicators; None: those of the environment.
        calls: What is asked of its calls, by collective ("all_reduce", "send_recv"). Sparse tensors
            are reduced in several steps, of which nothing is asked.
        other_calls: What is asked of the collectives that `calls` does not name.
    """

    config: Config | None = None
    calls: Mapping[str, CallOptions] = dataclasses.field(default_factory=dict)
    other_calls: CallOptions | None = None

    def __post_init__(self) -> None:
        """Refuse by name what is not of its kind, collectives that are none, and their algorithms.

        Raises:
            InvalidArgument: There is no such collective, or it has no such algorithm.
            TypeError: An attribute is of another type.
        """
        _check_type("config", self.config, Config)
        _check_type("other_calls", self.other_calls, CallOptions)
        if not isinstance(self.calls, Mapping):
            raise TypeError(
                f"calls of Options is a mapping of collectives to CallOptions, not {self.calls!r}"
            )
        for collective, options in self.calls.items():
            _check_type(f"calls[{collective!r}]", options, CallOptions)
            _check_name(
                collective, {name for name, _ in _algorithms()} | {"barrier"}, "a collective"
            )
            names = {name for of, name in _algorithms() if of == collective}
            if options is not None and options.algorithm is not None:
                _check_name(options.algorithm, names, f"an algorithm of {collective}")

    def held_by(self, module: Any) -> dict[str, Any]:
        """The options of calls as the compiled half of the backend takes them."""
        held = {name: options.held_by(module) for name, options in self.calls.items()}
        if self.other_calls is not None:
            held[""] = self.other_calls.held_by(module)
        return held


class _OfThread(threading.local):
    options: CallOptions | None = None


_thread = _OfThread()


@contextlib.contextmanager
def call_options(**options: Any) -> Iterator[CallOptions]:
    """Ask the same of all calls that this thread makes in a block, in groups of backend `sennit`.

    All ranks ask the same. What is asked here goes before what the group asks, and what an inner
    block asks before the outer one. Threads that autograd starts for GPUs make calls of their own:
    give their group its `pg_options`.

    Args:
        options: The attributes of `CallOptions`.

    Raises:
        InvalidArgument: An algorithm that no collective has, two ways at once, or no size.
        TypeError: There is no such option, or it is of another type.
        Unsupported: The backend cannot be compiled here; the text says what is missing.
    """
    known = [field.name for field in dataclasses.fields(CallOptions)]
    for name in options:
        if name not in known:
            raise TypeError(f"{name!r} is no option of calls; there are {', '.join(known)}")
    from sennit.torch import extension

    module = extension.load()
    outer = _thread.options
    inner = CallOptions(**options).over(outer)
    before = module.exchange_settings(inner.held_by(module))
    _thread.options = inner
    try:
        yield inner
    finally:
        _thread.options = outer
        module.exchange_settings(before)


def _algorithms() -> list[tuple[str, str]]:
    """Collective and name of each."""
    rows = json.loads(_core.tool_algorithms("{}"))["algorithms"]
    return [(row["collective"], row["name"]) for row in rows]


def _check_name(name: object, names: Iterable[str], what: str) -> None:
    known = sorted(names)
    if name in known:
        return
    similar = difflib.get_close_matches(str(name), known, 1)
    hint = f"did you mean {similar[0]!r}? There " if similar else "there "
    raise InvalidArgument(f"{name!r} is not {what}: {hint}are {', '.join(known)}")


def _check_type(what: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{what} of Options is {kind.__name__}, not {value!r}")


def _check_schedule(schedule: object, algorithm: str | None) -> None:
    from sennit.schedules import Schedule

    if not isinstance(schedule, Schedule):
        raise TypeError(
            f"schedule of CallOptions is a {type(schedule).__name__}, expected what "
            "sennit.schedules.Builder.build or sennit.schedules.load gives"
        )
    if algorithm is not None:
        raise InvalidArgument(
            f"algorithm={algorithm!r} and a schedule are two ways to run one call; pass one of them"
        )
