"""Making groups: what torch.distributed calls for the name `sennit`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from sennit import Error, Unsupported
from sennit.torch import extension
from sennit.torch.failures import also_of_pytorch
from sennit.torch.rendezvous import joined

if TYPE_CHECKING:
    import torch.distributed as dist


def create(options: dist.DistributedBackendOptions, requests: Any = None) -> Any:  # noqa: ARG001
    """Join the ranks of a group.

    Args:
        options: Store, rank, size and timeout of the group.
        requests: What the program gives as `pg_options`; none are known.

    Raises:
        JoinTimeout: The ranks did not all come in time; ranks of other machines never do.
    """
    arguments = (options.store, options.group_rank, options.group_size, options.timeout)
    try:
        module = extension.load()
    except Unsupported as error:
        warnings.warn(f"{error}. Until then calls take longer", stacklevel=2)
        module = None

    def address(device: str = "host") -> int:
        try:
            return joined(*arguments, device)[0].release()
        except Error as error:
            raise also_of_pytorch(error) from None

    if module is None:
        from sennit.torch.process_group import ProcessGroup

        return ProcessGroup(*arguments)
    return module.make(address(), options.group_rank, options.group_size, address)
