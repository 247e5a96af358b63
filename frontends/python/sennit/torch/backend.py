"""Making groups: what torch.distributed calls for the name `sennit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sennit import Config, Error, InvalidArgument
from sennit.torch import extension
from sennit.torch.failures import also_of_pytorch
from sennit.torch.options import Options
from sennit.torch.rendezvous import join

if TYPE_CHECKING:
    import torch.distributed as dist


def create(
    options: dist.DistributedBackendOptions, settings: Options | Config | None = None
) -> Any:
    """Join the ranks of a group.

    Args:
        options: Store, rank, size and timeout of the group.
        settings: What the program gives as `pg_options`, the same on all ranks.

    Raises:
        InvalidArgument: `pg_options` is something else than these two.
        JoinTimeout: The ranks did not all come in time.
        Unsupported: The backend cannot be compiled here; the text says what is missing.
    """
    arguments = (options.store, options.group_rank, options.group_size, options.timeout)
    if settings is not None and not isinstance(settings, Options | Config):
        kind = type(settings).__name__
        raise also_of_pytorch(
            InvalidArgument(
                "pg_options of the backend sennit is a sennit.torch.Options or a sennit.Config, "
                f"not a {kind}"
            )
        )
    asked = settings if isinstance(settings, Options) else Options(config=settings)

    def address(device: str = "host") -> int:
        try:
            return join(*arguments, device, asked.config).release()
        except Error as error:
            raise also_of_pytorch(error) from None

    try:
        module = extension.load()
    except Error as error:
        raise also_of_pytorch(error) from None
    return module.make(
        address(), options.group_rank, options.group_size, address, asked.held_by(module)
    )
