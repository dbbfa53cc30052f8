"""How do PyTorch and NCCL spell a collective: operator, ranges, kernel?"""

from dataclasses import dataclass

from tracelens.simulate import kernels
from tracelens.simulate.actions import Kernel


@dataclass(frozen=True, slots=True)
class Spelling:
    """The names of one collective.

    Attributes:
        operator: the c10d operator.
        annotation: range of the process group.
        call: range in NCCL's own NVTX domain.
        kernel: what runs; a send, a receive and every all-to-all look alike.
    """

    operator: str
    annotation: str
    call: str
    kernel: Kernel


SPELLINGS = {
    "allreduce": Spelling(
        "c10d::allreduce_", "nccl:all_reduce", "ncclAllReduce", kernels.all_reduce()
    ),
    "_reduce_scatter_base": Spelling(
        "c10d::_reduce_scatter_base_",
        "nccl:_reduce_scatter_base",
        "ncclReduceScatter",
        kernels.reduce_scatter(),
    ),
    "_allgather_base": Spelling(
        "c10d::_allgather_base_", "nccl:_all_gather_base", "ncclAllGather", kernels.all_gather()
    ),
    "all_to_allv": Spelling(
        "c10d::alltoall_base_", "nccl:all_to_all", "ncclGroupStart", kernels.send_receive()
    ),
    "send": Spelling("c10d::send", "nccl:send", "ncclSend", kernels.send_receive()),
    "recv": Spelling("c10d::recv_", "nccl:recv", "ncclRecv", kernels.send_receive()),
}
"""By the ``Collective name`` that PyTorch records."""
