"""The backend `sennit` of torch.distributed: process groups of the ranks of one machine or several.

Import it, then name the backend::

    import sennit.torch
    import torch.distributed as dist

    dist.init_process_group("sennit")  # under torchrun, say
    model = torch.nn.parallel.DistributedDataParallel(model)

docs/pytorch.md says when that pays and what is refused.
"""

import torch.distributed as _dist

from sennit.torch.backend import create as _create
from sennit.torch.options import CallOptions, Options, call_options
from sennit.torch.rms_norm import all_reduce_rms_norm, all_reduce_rms_norm_fp8

__all__ = [
    "CallOptions",
    "Options",
    "all_reduce_rms_norm",
    "all_reduce_rms_norm_fp8",
    "call_options",
]

if not hasattr(_dist.Backend, "SENNIT"):
    _dist.Backend.register_backend("sennit", _create, extended_api=True, devices=["cpu", "cuda"])
