"""A hand-made run: a few calls and kernels on a clock of whole microseconds."""

import pyarrow as pa

from tracelens.attribution import attribute
from tracelens.classify import classify
from tracelens.ingest import link_activities
from tracelens.store import Store

US = 1_000
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


class Scene:
    """Collects rows of one process with one GPU; times in microseconds."""

    def __init__(self):
        self.store = Store()
        self.store.append("input", {"input": [0], "path": ["scene"]})
        self.store.append("process", {"process": [0], "input": [0]})
        self.store.append("gpu", {"gpu": [0], "input": [0], "process": [0], "rank": [0]})
        self._correlation = 0

    def name(self, text):
        return self.store.name_ids([text])

    def call(self, name, start, end, *, thread=0, correlation=0, kind="runtime"):
        self.store.append(
            "host_call",
            {
                "process": [0],
                "thread": [thread],
                "kind": [kind],
                "name_id": self.name(name),
                "start_ns": [round(start * US)],
                "end_ns": [round(end * US)],
                "correlation": [correlation],
            },
        )

    def kernel(self, start, end, launch=None, **given):
        """Add a kernel; ``launch`` is (start, end) of its launch call."""
        options = {"name": GEMM, "stream": 7, "call": "cudaLaunchKernel", "thread": 0} | given
        correlation = options.get("correlation")
        if correlation is None:
            self._correlation += 1
            correlation = self._correlation
        if launch is not None:
            self.call(options["call"], *launch, thread=options["thread"], correlation=correlation)
        self.store.append(
            "activity",
            {
                "gpu": [0],
                "process": [0],
                "stream": [options["stream"]],
                "kind": [options.get("kind", "kernel")],
                "name_id": self.name(options["name"]),
                "start_ns": [round(start * US)],
                "end_ns": [round(end * US)],
                "correlation": [correlation],
                "copy_kind": [options.get("copy_kind")],
            },
        )

    def op(self, name, start, end, thread=0):
        self._host("op", name, start, end, thread)

    def range(self, name, start, end, thread=0):
        self._host("range", name, start, end, thread, kind=["annotation"])

    def overhead(self, name, start, end, thread=9):
        self._host("overhead", name, start, end, thread)

    def wait(self, stream, at, on=None, record=None):
        """Add a wait of a stream for what stream ``on`` was given before ``record``."""
        correlation = None
        if record is not None:
            self._correlation += 1
            correlation = self._correlation
            self.call("cudaEventRecord", record, record, thread=8, correlation=correlation)
        self.store.append(
            "stream_wait",
            {
                "gpu": [0],
                "process": [0],
                "stream": [stream],
                "wait_on_stream": pa.array([on], pa.int64()),
                "record_correlation": pa.array([correlation], pa.int64()),
                "start_ns": [round(at * US)],
                "end_ns": [round(at * US)],
            },
        )

    def _host(self, table, name, start, end, thread, **extra):
        self.store.append(
            table,
            {
                "process": [0],
                "thread": [thread],
                "name_id": self.name(name),
                "start_ns": [round(start * US)],
                "end_ns": [round(end * US)],
                **extra,
            },
        )

    def leaves(self, window="all"):
        """Run the stages and return microseconds by leaf."""
        self.store.flush_names()
        link_activities(self.store)
        classify(self.store)
        attribute(self.store, window)
        rows = self.store.rows("SELECT leaf, sum(dur_ns) FROM loss_time GROUP BY ALL")
        return {leaf: int(dur_ns) / US for leaf, dur_ns in rows}
