"""Settings of a communicator."""

from __future__ import annotations

import dataclasses
import operator
import os

from sennit import _core, calls
from sennit.calls import check_text


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of a communicator; what is None takes its variable, else its default.

    Attributes:
        paths: Paths that may be used, comma-separated, such as "shm,cma" (SENNIT_PATHS).
        slot_bytes: Bytes of a slot of a channel (SENNIT_SLOT_BYTES).
        slots: Slots of a channel (SENNIT_SLOTS).
        ports: Channels between two ranks that one plan may have (SENNIT_PORTS).
        reproducible: Make every reduction in the order of ranks (SENNIT_REPRODUCIBLE).
        path_policy: How calls over several paths use them (SENNIT_PATH_POLICY).
        codec: Which calls use a codec, as rules: "q8", or "all_to_all>=1M=zfp:16" (SENNIT_CODEC).
        device_blocks: GPU ranks: most thread blocks, and so SMs, of a call (SENNIT_DEVICE_BLOCKS).
        tuning_table: File that `sennit tune` wrote on this machine (SENNIT_TUNING_TABLE).
    """

    paths: str | None = None
    slot_bytes: int | None = None
    slots: int | None = None
    ports: int | None = None
    reproducible: bool | None = None
    path_policy: str | None = None
    codec: str | None = None
    device_blocks: int | None = None
    tuning_table: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Refuse by name what is no text, or no number that C can take."""
        for field in ("paths", "path_policy", "codec"):
            check_text(f"{field} of a Config", getattr(self, field))
        for field in ("slot_bytes", "slots", "ports", "device_blocks"):
            value = getattr(self, field) or 0
            if not hasattr(value, "__index__"):
                raise TypeError(f"{field} of a Config is a whole number, not {value!r}")
            if abs(operator.index(value)) > calls.LARGEST:
                raise _core.InvalidArgument(f"{field} of a Config is {value}: more than 32 bits")

    def core(
        self,
        name: str,
        timeout_s: float | None = None,
        deadline_s: float | None = None,
        device: str | None = None,
    ) -> _core.Config:
        """The settings as the C ABI takes them, where zero is what None is here."""
        check_text("the name of a communicator", name)
        check_text("device", device)
        if timeout_s is not None and not timeout_s > 0:
            raise _core.InvalidArgument(f"ranks cannot join within {timeout_s} s; pass more than 0")
        return _core.Config(
            name=name,
            join_timeout_s=0.0 if timeout_s is None else float(timeout_s),
            deadline_s=calls.deadline_field(deadline_s),
            paths=self.paths,
            slot_bytes=self.slot_bytes or 0,
            slots=self.slots or 0,
            ports=self.ports or 0,
            reproducible=bool(self.reproducible),
            path_policy=self.path_policy,
            codec=self.codec,
            device_blocks=self.device_blocks or 0,
            tuning_table=None if self.tuning_table is None else os.fsencode(self.tuning_table),
            device="host" if device == "cpu" else device,
        )
