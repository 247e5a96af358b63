"""Joining the ranks that a launcher started."""

from __future__ import annotations

from sennit import _core
from sennit.communicator import Communicator
from sennit.config import Config


def init(
    *,
    device: str | None = None,
    timeout_s: float | None = None,
    deadline_s: float | None = None,
    name: str = "world",
    config: Config | None = None,
) -> Communicator:
    """Join the ranks that this process's launcher started.

    Rank, size and the job's key come from the first complete set of variables: SENNIT_RANK,
    SENNIT_SIZE, SENNIT_KEY; torchrun's; Open MPI's; MPICH's; Slurm's.

    Args:
        device: "host" (or "cpu"), "cuda" or "cuda:1": where the buffers of this rank's calls are.
            "cuda" is the current device of this thread, which torch.cuda.set_device sets. None:
            SENNIT_DEVICE, else "host".
        timeout_s: Seconds in which all ranks must join; None: SENNIT_JOIN_TIMEOUT_S, else 60.
        deadline_s: Seconds that one call may take, 0 for no limit; None: SENNIT_DEADLINE_S, else
            30.
        name: Name of the communicator in messages.
        config: Further settings, the same on all ranks.

    Returns:
        The communicator of all ranks.

    Raises:
        JoinTimeout: Not all ranks joined in time; `blamed_ranks` are missing.
        Unsupported: `device` names a GPU, and this build, or this machine, has none.
        InvalidUsage: No launcher's variables are complete.
        KeyboardInterrupt: Ctrl-C while joining.
    """
    core_config = (config or Config()).core(name, timeout_s, deadline_s, device)
    return Communicator(_core.init_env(core_config), name, core_config)
