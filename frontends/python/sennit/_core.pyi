"""The C ABI as Python objects. Private: programs use the package `sennit`."""

import enum
from collections.abc import Callable
from typing import Any

STATUS_CODES: tuple[tuple[str, int, str], ...]
"""(Python name, value, C name) of every status code, success included."""
DTYPES: tuple[str, ...]
"""Names of the element types that this build knows."""

REDUCE_OPS: tuple[str, ...]
"""Names of the reduce operators."""

ANY_RANK: int
"""In place of the peer of a recv."""

class Error(Exception):
    """Any failure that Sennit reports; the subclass says of what kind.

    Attributes:
        code: Value of the status in the C ABI.
        comm: Name of the communicator; empty outside one.
        op: The call, such as "all_reduce"; empty outside a call.
        sequence: Number of the call on its communicator, from 1; 0 outside a call.
        count: Elements of the call.
        dtype: Element type of the call.
        reduce_op: Reduce operator of the call.
        root: Root of the call, None where it has none.
        rank: Rank that reports, None outside a communicator.
        size: Number of ranks of the communicator.
        blamed_ranks: Ranks that caused the failure, as far as known.
        evidence: What was seen that shows it.
        elapsed_s: Seconds from the start of the call to the failure.
        next: What to do now.
    """

    code: int
    comm: str
    op: str
    sequence: int
    count: int
    dtype: str
    reduce_op: str
    root: int | None
    rank: int | None
    size: int
    blamed_ranks: tuple[int, ...]
    evidence: str
    elapsed_s: float
    next: str

class InProgress(Error): ...
class InvalidArgument(Error): ...
class InvalidUsage(Error): ...
class Unsupported(Error): ...
class Mismatch(Error): ...
class RankFailed(Error): ...
class DeadlineExceeded(Error): ...
class JoinTimeout(Error): ...
class Aborted(Error): ...
class NotProved(Error): ...
class SystemFailure(Error): ...
class InternalError(Error): ...

class Collective(enum.Enum):
    ALL_REDUCE = 0
    REDUCE = 1
    BROADCAST = 2
    ALL_GATHER = 3
    REDUCE_SCATTER = 4
    ALL_TO_ALL = 5
    GATHER = 6
    SCATTER = 7
    BARRIER = 8
    SEND = 9
    RECV = 10
    ALL_GATHER_V = 11
    ALL_TO_ALL_V = 12
    GATHER_V = 13
    SCATTER_V = 14

class Blocks:
    def __init__(self, counts: list[int], displacements: list[int]) -> None: ...

class Buffer:
    def __init__(
        self,
        object: object,
        name: str,
        writable: bool,
        dtype: str | None = None,
        stream: int | None = None,
    ) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def is_on_gpu(self) -> bool: ...
    @property
    def stream(self) -> int | None: ...
    @property
    def address(self) -> int: ...

class Config:
    def __init__(
        self,
        name: str,
        join_timeout_s: float,
        deadline_s: float,
        paths: str | None,
        slot_bytes: int,
        slots: int,
        ports: int,
        reproducible: bool,
        path_policy: str | None,
        codec: str | None,
        device_blocks: int,
        tuning_table: bytes | None,
        device: str | None,
    ) -> None: ...

class Comm:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def state(self) -> int: ...
    def split(self, color: int, key: int, config: Config) -> Comm | None: ...
    def shrink(self, excluded: list[int], config: Config) -> Comm: ...
    def register(self, buffer: Buffer, symmetric: bool) -> int: ...
    def deregister(self, handle: int) -> None: ...
    def release(self) -> int: ...
    def abort(self) -> None: ...
    def destroy(self) -> None: ...

class CallOptions:
    """What may be asked of any one call.

    Attributes:
        stream: The CUDA stream that the program names, as a number; None: that of the library that
            made the buffers.
    """

    def __init__(
        self,
        algorithm: str | None = None,
        deadline_s: float = 0.0,
        reproducible: bool = False,
        codec: str | None = None,
        stream: int | None = None,
        tag: int = 0,
    ) -> None: ...
    @property
    def stream(self) -> int | None: ...
    def with_rms_norm(self, norm: RmsNorm) -> CallOptions: ...

class RmsNorm:
    def __init__(
        self,
        row_elements: int,
        epsilon: float,
        residual: Buffer | None,
        weight: Buffer | None,
        quantized: Buffer | None,
        scale: Buffer | None,
    ) -> None: ...

class Work:
    def __init__(
        self,
        comm: Comm,
        collective: Collective,
        send: Buffer | None,
        recv: Buffer | None,
        count: int,
        root: int,
        options: CallOptions,
        input: Blocks,
        output: Blocks,
    ) -> None: ...
    def start(self) -> None: ...
    def run(self) -> None: ...
    def is_ended_by_stream(self) -> bool: ...
    def wait(self, timeout_s: float) -> bool: ...
    def test(self) -> bool: ...
    def peer(self) -> int: ...

def buffer_of(object: object, name: str, writable: bool, stream: int | None = None) -> Buffer: ...
def prepare(
    comm: Comm,
    collective: Collective,
    x: object,
    out: object,
    op: object,
    root: object,
    options: CallOptions,
) -> tuple[Work, Any]: ...
def run(
    comm: Comm,
    collective: Collective,
    x: object,
    out: object,
    op: object,
    root: object,
    options: CallOptions,
) -> Any: ...
def stream_of(stream: object) -> int: ...
def last_error(status: int) -> Error: ...
def start_group(works: list[Work]) -> None: ...
def init_env(config: Config) -> Comm: ...
def init_rank(
    rank: int,
    size: int,
    key: str,
    config: Config,
    give_up: Callable[[], bool] | None = None,
) -> Comm | None: ...
def tool_algorithms(request: str) -> str: ...
def tool_verify(request: str) -> str: ...
def tool_show(request: str) -> str: ...
def tool_schedule(request: str) -> str: ...
def tool_machine(request: str) -> str: ...
def tool_machines(request: str) -> str: ...
def tool_topology(request: str) -> str: ...
def tool_simulate(request: str) -> str: ...
def tool_explain(request: str) -> str: ...
def tool_reproduce(request: str) -> str: ...
def tool_measured(request: str) -> str: ...
def tool_tune(request: str) -> str: ...
def tool_tune_check(request: str) -> str: ...
def tool_explain_host(request: str) -> str: ...
def tool_gpu_profiles(request: str) -> str: ...
def tool_codecs(request: str) -> str: ...
def tool_info(request: str) -> str: ...
def encode(codec: str, values: Buffer) -> bytes: ...
def decode(codec: str, coded: Buffer, values: Buffer) -> None: ...
def version_string() -> str: ...
