"""Stores as the stages before the report leave them: the worked example of the accounting model.

Two of eight ranks, three steps of one second each; a millisecond is 0.1 points.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tracelens.store import Store

MS = 1_000_000
PEAK = 989e12
STEPS = (3, 4, 5)
ORIGIN_NS = 1_700_000_000_000_000_000
HOSTILE = "evil\x1b[31m</script><script>alert(1)</script>\u202e\x9b5n"

# leaf, ms a step, pieces, class, name of the kernels (for idle: of the kernel that ends it)
LEAVES = (
    ("flop.gemm", 500, 5, "gemm", "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"),
    ("flop.attn", 80, 2, "attention", "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>"),
    ("flop.recompute.gemm", 60, 2, "gemm", "nvjet_tst_192x192_64x4_2x1_v_bz_TNN"),
    ("compute.norm", 30, 2, "norm", "void rms_norm_kernel<float>"),
    ("compute.elementwise", 60, 3, "elementwise", "void at::vectorized_elementwise_kernel<4>"),
    ("compute.softmax", 6, 1, "softmax", "void softmax_warp_forward<float>"),
    ("compute.loss", 4, 1, "loss", "cross_entropy_kernel"),
    ("compute.optimizer", 18, 1, "optimizer", "void multi_tensor_apply_kernel<Adam>"),
    ("compute.other", 2, 2, "other", HOSTILE),
    ("compute.copy.fsdp", 15, 1, "copy", "void chunk_cat_cuda_kernel<float>"),
    ("comm.dp.transfer", 70, 2, "collective:reducescatter", "ncclDevKernel_ReduceScatter_Sum_bf16"),
    ("comm.dp.wait", 25, 2, "collective:allgather", "ncclDevKernel_AllGather_RING_LL"),
    ("mem.h2d", 5, 1, "memcpy:h2d", "Memcpy HtoD (Pinned -> Device)"),
    ("gap.kernel", 15, 3, "elementwise", "void at::vectorized_elementwise_kernel<4>"),
    ("gap.launch_latency", 5, 2, "norm", "void rms_norm_kernel<float>"),
    ("host.dispatch", 40, 4, "gemm", "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"),
    ("host.sync", 20, 1, "gemm", "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"),
    ("host.dataloader", 25, 1, "embedding", "embedding_kernel"),
    ("host.gc", 5, 1, "gemm", "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"),
    ("idle.unknown", 15, 3, "norm", "void rms_norm_kernel<float>"),
)
EXECUTED_MS_OF_PEAK = {"flop.gemm": 365, "flop.attn": 35, "flop.recompute.gemm": 42}
IDLE_ROOTS = ("gap", "host", "idle")

WATERFALL: list[dict[str, Any]] = [
    {"id": "peak", "label": "8 x 989 TFLOP/s x 1.000 s", "points": 100.0},
    {
        "id": "idle",
        "label": "idle and host",
        "points": -12.5,
        "tag": "M",
        "children": [
            {"id": "launch_gap", "label": "launch gaps", "points": -6.0},
            {"id": "host", "label": "host waits", "points": -5.0},
            {"id": "idle_unknown", "label": "idle, unexplained", "points": -1.5},
        ],
    },
    {"id": "exposed_copy", "label": "exposed copies", "points": -0.5, "tag": "M"},
    {
        "id": "exposed_communication",
        "label": "exposed communication",
        "points": -9.5,
        "tag": "M",
        "children": [
            {"id": "comm.dp.transfer", "points": -7.0},
            {"id": "comm.dp.wait", "points": -2.5},
        ],
    },
    {"id": "other_compute", "label": "non-matmul compute", "points": -13.5, "tag": "M"},
    {
        "id": "below_peak",
        "label": "FLOP-bearing time below peak",
        "points": -19.8,
        "tag": "D",
        "children": [
            {"id": "gemm", "label": "matmul below peak", "points": -13.5},
            {"id": "attention", "label": "attention below peak", "points": -4.5},
            {"id": "recompute", "label": "recomputed kernels below peak", "points": -1.8},
        ],
    },
    {"id": "recompute_flop", "label": "recomputation FLOPs", "points": -4.2, "tag": "D"},
    {
        "id": "attention_backward_recompute",
        "label": "flash-backward recompute",
        "points": -0.5,
        "tag": "D",
    },
    {"id": "convention_credit", "label": "causal credit", "points": 3.0, "tag": "D"},
    {"id": "residual", "label": "residual", "points": 0.0, "tag": "D"},
    {"id": "mfu", "label": "MFU", "points": 42.5},
]

SECTIONS: dict[str, Any] = {
    "window": {
        "source": "profiler_step",
        "steps": list(STEPS),
        "excluded_steps": [{"step": 6, "reason": "last marked step has no successor"}],
        "confidence": "high",
        "note": None,
    },
    "workload": {
        "parameters": 8_030_261_248,
        "tokens_per_step_global": 65_536,
        "mesh": {"fsdp": 8},
        "dtypes": ["bf16"],
        "source": {"tokens_per_step_global": "option"},
        "tokens_per_s_per_gpu": 8192.0,
    },
    "flops": {
        "model_flop": 0.425 * 6 * PEAK,
        "executed_flop": 0.442 * 6 * PEAK,
        "source": "config",
        "convention": "full",
        "per_convention": {"full": 0.425 * 6 * PEAK, "causal": 0.395 * 6 * PEAK},
        "reconciliation": {
            "recompute": 0.042 * 6 * PEAK,
            "attention_backward_recompute": 0.005 * 6 * PEAK,
            "masked_not_executed": -0.03 * 6 * PEAK,
            "padding": 0.0,
            "unshaped": None,
            "residual": 0.0,
            "residual_points": 0.0,
        },
    },
    "peak": {
        "flop_per_s": PEAK,
        "kind": "nominal",
        "dtype": "bf16",
        "mix": {"bf16": 1.0},
        "bf16_flop_per_s": PEAK,
        "device": "NVIDIA H100 80GB HBM3",
        "source": "data sheet, dense",
    },
    "mfu": {
        "value": 0.425,
        "low": None,
        "scope": "replica",
        "hfu": 0.442,
        "all_recorded": 0.41,
        "against_bf16": 0.425,
        "per_convention": {"full": 0.425, "causal": 0.395},
        "reason": None,
    },
    "waterfall": WATERFALL,
    "capacity": {"ok": True, "residual_rel": 0.0},
    "identities": {"time": {"ok": True, "residual_ns": 0}, "splits": {"ok": True}},
    "collectives": [
        {
            "dim": "dp",
            "op": "reduce_scatter",
            "bytes": 67_108_864,
            "count": 12,
            "busbw_p50_bytes_per_s": 182e9,
            "exposed_ns": 570 * MS,
            "wait_ns": 150 * MS,
            "transfer_ns": 420 * MS,
        }
    ],
}


TIME_ONLY: dict[str, Any] = {
    "waterfall": [
        {"id": "peak", "label": "all GPU time", "points": 100.0},
        *WATERFALL[1:5],
        {
            "id": "flop_bearing",
            "label": "FLOP-bearing time",
            "points": 64.0,
            "children": [
                {"id": "flop.gemm", "label": "matmul", "points": 50.0},
                {"id": "flop.attn", "label": "attention", "points": 8.0},
                {"id": "flop.recompute.gemm", "label": "recomputed matmul", "points": 6.0},
            ],
        },
    ]
}
"""What the FLOPs stage writes where neither FLOPs nor a peak are known."""


@dataclass
class Timeline:
    """Columns of the tables that one rank after the other fills."""

    store: Store
    activity: dict[str, list[Any]] = field(default_factory=dict)
    segment: dict[str, list[Any]] = field(default_factory=dict)
    call: dict[str, list[Any]] = field(default_factory=dict)
    link: dict[str, list[Any]] = field(default_factory=dict)
    kernel_class: dict[str, list[Any]] = field(default_factory=dict)
    flop: dict[str, list[Any]] = field(default_factory=dict)
    dimension: dict[str, list[Any]] = field(default_factory=dict)

    @staticmethod
    def row(table: dict[str, list[Any]], **values: Any) -> None:
        for name, value in values.items():
            table.setdefault(name, []).append(value)

    def step(self, gpu: int, step: int, start_ns: int) -> int:
        at_ns = start_ns
        for leaf, ms, pieces, kernel_class, name in LEAVES:
            for _ in range(pieces):
                end_ns = at_ns + ms * MS // pieces
                self._piece(gpu, step, (at_ns, end_ns), leaf, (kernel_class, name))
                at_ns = end_ns
        return at_ns

    def _piece(
        self,
        gpu: int,
        step: int,
        span: tuple[int, int],
        leaf: str,
        kernel: tuple[str, str],
    ) -> None:
        idle = leaf.partition(".")[0] in IDLE_ROOTS
        activity = len(self.activity.get("activity_id", []))
        start_ns, end_ns = (span[1], span[1] + 1000) if idle else span
        self.row(
            self.activity,
            activity_id=activity,
            gpu=gpu,
            process=gpu,
            stream=7,
            kind="memcpy" if leaf == "mem.h2d" else "kernel",
            name_id=self.store.name_ids([kernel[1]])[0],
            start_ns=start_ns,
            end_ns=end_ns,
            correlation=1000 + activity,
        )
        source = "none" if leaf == "compute.other" else "name"
        self.row(self.kernel_class, activity_id=activity, **{"class": kernel[0]}, source=source)
        self.row(
            self.call,
            call_id=activity,
            process=gpu,
            thread=gpu,
            kind="runtime",
            name_id=self.store.name_ids(["cudaLaunchKernel"])[0],
            start_ns=span[1] - 6000 if idle else span[0] - 6000,
            end_ns=span[1] - 2000 if idle else span[0] - 2000,
            correlation=1000 + activity,
        )
        self.row(self.link, activity_id=activity, call_id=activity, method="correlation")
        if leaf.startswith("comm."):
            self.row(
                self.dimension,
                activity_id=activity,
                dimension="dp",
                collective="all_reduce",
                group_size=8,
                source="description",
            )
        if leaf in EXECUTED_MS_OF_PEAK:
            share = (span[1] - span[0]) / ({row[0]: row[1] for row in LEAVES}[leaf] * MS)
            executed = EXECUTED_MS_OF_PEAK[leaf] * 1e-3 * PEAK * share
            self.row(
                self.flop,
                activity_id=activity,
                executed_flop=executed,
                model_flop=executed,
                dtype="bf16",
                shaped=True,
                rule="mm",
            )
        self.row(
            self.segment,
            gpu=gpu,
            step=step,
            start_ns=span[0],
            end_ns=span[1],
            leaf=leaf,
            activity_id=activity,
            call_id=activity if idle else None,
            detail="aten::item" if leaf == "host.sync" else None,
        )

    def write(self) -> None:
        self.store.append("activity", self.activity)
        self.store.append("activity_class", self.kernel_class)
        self.store.append("host_call", self.call)
        self.store.append("link", self.link)
        self.store.append("activity_flop", self.flop)
        self.store.append("activity_dimension", self.dimension)
        self.store.append("segment", self.segment)
        self.store.flush_names()


def fill(store: Store, ranks: int = 2, sections: dict[str, Any] | None = None) -> Store:
    """Write the worked example into an empty store."""
    timeline = Timeline(store)
    gpus = list(range(ranks))
    starts: list[tuple[int, int, int, int]] = []
    for gpu in gpus:
        at_ns = ORIGIN_NS + gpu * 5
        for step in STEPS:
            end_ns = timeline.step(gpu, step, at_ns)
            starts.append((gpu, step, at_ns, end_ns))
            at_ns = end_ns
    timeline.write()
    store.append(
        "step",
        {
            "gpu": [row[0] for row in starts],
            "step": [row[1] for row in starts],
            "start_ns": [row[2] for row in starts],
            "end_ns": [row[3] for row in starts],
            "included": [True] * len(starts),
        },
    )
    _write_files(store, gpus)
    for name, body in (SECTIONS if sections is None else sections).items():
        store.put_result(name, body)
    return store


def _write_files(store: Store, gpus: list[int]) -> None:
    many = len(gpus)
    store.append(
        "input",
        {
            "input": gpus,
            "path": [f"night/llama3-8b/rank{gpu}.json.gz" for gpu in gpus],
            "format": ["kineto"] * many,
            "sha256": [f"{gpu:064x}" for gpu in gpus],
            "bytes": [4096] * many,
            "producer": ["PyTorch"] * many,
            "events_read": [1000] * many,
            "truncated": [False] * many,
            "started_at": ["2026-01-02T03:04:05Z"] * many,
            "resolution_ns": [1] * many,
            "viewer_zero_ns": [ORIGIN_NS - 12_345_678_901] * many,
        },
    )
    store.append(
        "gpu",
        {
            "gpu": gpus,
            "input": gpus,
            "process": gpus,
            "device": gpus,
            "device_name": ["NVIDIA H100 80GB HBM3"] * many,
            "num_sms": [132] * many,
            "rank": gpus,
            "rank_source": ["trace"] * many,
        },
    )
    store.append("process", {"process": gpus, "input": gpus, "world_size": [8] * many})
    store.append(
        "hidden",
        {
            "gpu": gpus,
            "class_leaf": ["comm.dp"] * many,
            "by_leaf": ["flop.gemm"] * many,
            "dur_ns": [7 * MS] * many,
        },
    )
    store.append("damage", {"input": [0], "reason": ["cut"], "count": [3], "first_offset": [99]})
    store.append("note", {"input": [0], "severity": ["info"], "text": ["recorded with shapes"]})


@pytest.fixture
def example() -> Iterator[Store]:
    """The worked example, complete."""
    with Store() as store:
        yield fill(store)


@pytest.fixture
def time_only() -> dict[str, Any]:
    """The sections of a run without FLOPs."""
    return TIME_ONLY


@pytest.fixture
def make_store() -> Iterator[Callable[..., Store]]:
    """Make variants of the worked example: ``make_store(ranks=1, sections=TIME_ONLY)``."""
    stores: list[Store] = []

    def make(**options: Any) -> Store:
        stores.append(Store())
        return fill(stores[-1], **options)

    yield make
    for store in stores:
        store.close()
