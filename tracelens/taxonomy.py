"""The one list of where a nanosecond may go: kernel classes, leaves, groups, their order and names.

Three vocabularies, each derived from the one before it:

* a **class** says what an activity is (``gemm``, ``collective:allreduce``, ``memcpy:h2d``);
* a **leaf** is where time is charged (``flop.gemm``, ``comm.dp.undivided``, ``gap.kernel``);
* a **group** rolls leaves up for a headline (``matmul``, ``launch_gap``).

Ids are API: they stand in stores, JSON and baselines. The source of the tree is the accounting
model in ``docs/explanation/attribution.md``.
"""

from enum import IntEnum

DIMENSIONS = ("dp", "fsdp", "tp", "pp", "ep", "cp", "world", "embed", "unknown")
"""Parallel dimensions of a process group."""


class Kind(IntEnum):
    """What competes for a nanosecond; a lower value wins it (the order of precedence)."""

    FLOP = 0
    COMPUTE = 1
    OPAQUE = 2
    COMM = 3
    COPY = 4
    IDLE = 5


COLLECTIVES = (
    "allreduce",
    "allgather",
    "reducescatter",
    "alltoall",
    "broadcast",
    "reduce",
    "barrier",
    "generic",
)

_UNDECIDED_COMM = "comm.unknown.undivided"

CLASS_LEAF: dict[str, str] = {
    "gemm": "flop.gemm",
    "gemm_mem": "flop.gemm",
    "attention": "flop.attn",
    "conv": "flop.conv",
    "gemm_aux": "compute.gemm_aux",
    "attention_aux": "compute.attention_aux",
    "norm": "compute.norm",
    "softmax": "compute.softmax",
    "elementwise": "compute.elementwise",
    "reduction": "compute.reduction",
    "embedding": "compute.embedding",
    "loss": "compute.loss",
    "optimizer": "compute.optimizer",
    "moe": "compute.moe",
    "quantize": "compute.quantize",
    "copy": "compute.copy",
    "index": "compute.index",
    "fft": "compute.other",
    "annotation": "compute.other",
    "other": "compute.other",
    "graph": "opaque.graph",
    **{f"collective:{name}": _UNDECIDED_COMM for name in COLLECTIVES},
    "p2p:sendrecv": _UNDECIDED_COMM,
    "memcpy:p2p": _UNDECIDED_COMM,
    "memcpy:h2d": "mem.h2d",
    "memcpy:d2h": "mem.d2h",
    "memcpy:d2d": "mem.d2d",
    "memset": "mem.memset",
}
"""Leaf that a class is charged to. Communication receives its dimension later (see ``comm``)."""

FLOP_LEAVES = (
    "flop.gemm",
    "flop.attn",
    "flop.conv",
    "flop.recompute",
    "flop.recompute.gemm",
    "flop.recompute.attn",
)

_COMPUTE_TITLES = {
    "compute.norm": "normalization",
    "compute.softmax": "softmax",
    "compute.elementwise": "elementwise",
    "compute.reduction": "reductions",
    "compute.embedding": "embedding",
    "compute.loss": "loss",
    "compute.optimizer": "optimizer",
    "compute.moe": "MoE routing",
    "compute.quantize": "quantization",
    "compute.copy": "on-device copies",
    "compute.copy.fsdp": "FSDP copies",
    "compute.gemm_aux": "matmul helpers",
    "compute.attention_aux": "attention helpers",
    "compute.index": "sort and index",
    "compute.other": "unclassified and other kernels",
    "compute.recompute": "recomputed work without matmuls",
}

_COMM_TITLES = {
    f"comm.{dim}.{part}": f"exposed {dim.upper() if dim != 'unknown' else ''} communication"
    f"{'' if part == 'undivided' else ': ' + part}".replace("  ", " ")
    for dim in DIMENSIONS
    for part in ("transfer", "wait", "undivided")
}

LEAF_TITLES: dict[str, str] = {
    "flop.gemm": "matmul",
    "flop.attn": "attention",
    "flop.conv": "convolution",
    "flop.recompute": "recomputed FLOP-bearing kernels",
    "flop.recompute.gemm": "recomputed matmul",
    "flop.recompute.attn": "recomputed attention",
    **_COMPUTE_TITLES,
    "opaque.graph": "CUDA graph recorded as one row",
    **_COMM_TITLES,
    "pp.bubble.structural": "pipeline bubble: structural",
    "pp.bubble.imbalance": "pipeline bubble: imbalance",
    "pp.bubble.residual": "pipeline bubble: residual",
    "mem.h2d": "exposed copy host to device",
    "mem.d2h": "exposed copy device to host",
    "mem.d2d": "exposed copy within the device",
    "mem.p2p": "exposed peer copy",
    "mem.memset": "exposed memset",
    "gap.launch_latency": "launch latency",
    "gap.kernel": "gaps between queued kernels",
    "gap.graph": "gaps inside CUDA graphs",
    "gap.dependency": "waits for another stream",
    "host.dispatch": "host dispatch",
    "host.sync": "host synchronization",
    "host.dataloader": "data loader",
    "host.gc": "garbage collection",
    "host.alloc": "allocator",
    "host.ckpt": "checkpoint",
    "host.compile": "compile and module loading",
    "host.cuda_api": "slow CUDA call",
    "host.profiler": "profiler overhead",
    "host.blocked": "host blocked in the OS",
    "host.unlabelled": "host time that nothing recorded",
    "idle.unknown": "idle, cause unknown",
    "idle.tail": "idle after the last activity",
    "idle.unrecorded": "GPU work that was not recorded",
}
"""Every leaf, in report order, with the words a report uses for it."""

INEFFICIENCY_TITLES: dict[str, str] = {
    "ineff.precision": "slower number format",
    "ineff.memory": "bound by memory",
    "ineff.sm_reserved": "multiprocessors not used",
    "ineff.quantisation": "tile and wave quantisation",
    "ineff.clock": "clock below that of the peak",
    "ineff.ceiling": "declared ceiling of matmuls",
    "ineff.kernel": "kernel quality, unexplained",
    "ineff.contention": "slowed by communication or copies",
    "ineff.sharing": "kernels side by side",
    "ineff.unshaped": "kernels without shapes",
    "ineff.window_edge": "FLOPs counted in another window",
    "anomaly.faster_than_peak": "faster than the peak",
}
"""What time of FLOP-bearing kernels is lost to, in the order of the ladder."""

GROUPS = (
    "matmul",
    "attention",
    "other_compute",
    "recompute",
    "exposed_communication",
    "exposed_copy",
    "launch_gap",
    "host",
    "pipeline_bubble",
    "opaque",
    "idle_unknown",
)

GROUP_TITLES: dict[str, str] = {
    "matmul": "matmul",
    "attention": "attention",
    "other_compute": "other compute",
    "recompute": "recompute",
    "exposed_communication": "exposed communication",
    "exposed_copy": "exposed copies",
    "launch_gap": "launch gaps",
    "host": "host waits",
    "pipeline_bubble": "pipeline bubble",
    "opaque": "opaque CUDA graphs",
    "idle_unknown": "idle, unexplained",
}

GROUP_COLORS: dict[str, str] = {
    "matmul": "#117733",
    "attention": "#44aa99",
    "other_compute": "#8f9a2f",
    "recompute": "#ddcc77",
    "exposed_communication": "#d9773b",
    "exposed_copy": "#aa4499",
    "launch_gap": "#882255",
    "host": "#5a5fc7",
    "pipeline_bubble": "#56b4e9",
    "opaque": "#66727e",
    "idle_unknown": "#b4bbc1",
}
"""Chosen so that neighbors differ with any kind of color vision; the same in every figure."""


def leaf_of_class(kernel_class: str) -> str:
    """Return the leaf that time of ``kernel_class`` is charged to.

    Raises:
        KeyError: if the class is not in the vocabulary.
    """
    return CLASS_LEAF[kernel_class]


def kind_of_leaf(leaf: str) -> Kind:
    """Return the precedence kind of a leaf."""
    root = leaf.partition(".")[0]
    return {
        "flop": Kind.FLOP,
        "compute": Kind.COMPUTE,
        "opaque": Kind.OPAQUE,
        "comm": Kind.COMM,
        "pp": Kind.COMM,
        "mem": Kind.COPY,
    }.get(root, Kind.IDLE)


def kind_of_class(kernel_class: str) -> Kind:
    """Return the precedence kind of a class."""
    return kind_of_leaf(leaf_of_class(kernel_class))


def group_of_leaf(leaf: str, *, single_rank: bool = False) -> str:
    """Return the group that a leaf rolls up into.

    Args:
        leaf: a leaf id.
        single_rank: with one rank only, undivided pipeline communication is mostly waiting for the
            neighbouring stage and rolls up into the pipeline bubble.
    """
    if leaf.startswith(("flop.recompute", "compute.recompute")):
        return "recompute"
    if leaf in {"flop.gemm", "flop.conv"}:
        return "matmul"
    if leaf == "flop.attn":
        return "attention"
    if leaf.startswith("pp.") or (single_rank and leaf == "comm.pp.undivided"):
        return "pipeline_bubble"
    if leaf.startswith("gap.") or leaf == "host.dispatch":
        return "launch_gap"
    return {
        "compute": "other_compute",
        "opaque": "opaque",
        "comm": "exposed_communication",
        "mem": "exposed_copy",
        "host": "host",
        "idle": "idle_unknown",
    }[leaf.partition(".")[0]]
