"""One rank of `sennit bench --against gloo`: makes a group of Gloo, then runs the rank program.

    gloo_rank.py RANK_PROGRAM JOB_FILE

PyTorch makes such groups in Python only. The rank program runs in this process then, as a library;
no Python runs while it measures.
"""

import ctypes
import os
import sys
from pathlib import Path

import torch.distributed as dist


def main(program: str, job_file: str) -> int:
    """Give the exit code of the rank program."""
    dist.init_process_group(
        "gloo",
        init_method=f"file://{Path(job_file).with_name('rendezvous')}",
        rank=int(os.environ["SENNIT_RANK"]),
        world_size=int(os.environ["SENNIT_SIZE"]),
    )
    library = Path(program).parents[1] / "lib" / "libsennit-rank.so"
    code: int = ctypes.CDLL(str(library)).sennit_rank_main(os.fsencode(job_file))
    dist.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
