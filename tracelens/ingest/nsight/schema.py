"""Which tables and columns of an export are read, and what do its numbers mean?

Source: the table descriptions in the documentation of Nsight Systems and the ENUM_* tables that
exports since 2022 carry. Columns that an older export lacks read as NULL.
"""

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CUDA_EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
CUPTI_OVERHEAD = "CUPTI_ACTIVITY_KIND_OVERHEAD"
OSRT = "OSRT_API"
PROFILER_OVERHEAD = "PROFILER_OVERHEAD"
NVTX_TABLES = ("NVTX_EVENTS", "NVTX_EVENTS_V2", "NVTX_EVENTS_V3")
STRINGS = "StringIds"
THREAD_NAMES = "ThreadNames"
DIAGNOSTICS = "DIAGNOSTIC_EVENT"
MPI_RANKS = "MPI_RANKS"
SESSION_START = "TARGET_INFO_SESSION_START_TIME"
ANALYSIS = "ANALYSIS_DETAILS"
GPU_INFO = "TARGET_INFO_GPU"
CUDA_GPU_INFO = "TARGET_INFO_CUDA_GPU"
CUDA_DEVICE = "TARGET_INFO_CUDA_DEVICE"
CONTEXT_INFO = "TARGET_INFO_CUDA_CONTEXT_INFO"
EXPORT_SETTINGS = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CAPTURE_SETTINGS = "META_DATA_CAPTURE"

GPU_TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
TRACE_TABLES = (*GPU_TABLES, RUNTIME, OSRT, *NVTX_TABLES)
"""An export has StringIds and at least one of these."""

_WHERE = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
KERNEL_COLUMNS = (
    *_WHERE,
    "graphNodeId",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
)
KERNEL_NAMES = ("demangledName", "shortName", "mangledName")
"""Columns that may hold a kernel's name, best first."""
MEMCPY_COLUMNS = (
    *_WHERE,
    "graphNodeId",
    "bytes",
    "copyKind",
    "srcKind",
    "dstKind",
    "srcDeviceId",
    "dstDeviceId",
)
MEMSET_COLUMNS = (*_WHERE, "graphNodeId", "bytes", "memKind")
GRAPH_COLUMNS = (*_WHERE, "graphId")
CALL_COLUMNS = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId")
OVERHEAD_COLUMNS = ("start", "end", "globalTid", "nameId", "overheadType")
NVTX_COLUMNS = ("start", "end", "eventType", "text", "textId", "globalTid")
WAIT_COLUMNS = (
    "start",
    "end",
    "contextId",
    "streamId",
    "correlationId",
    "globalPid",
    "syncType",
    "eventId",
    "eventSyncId",
)
RECORD_COLUMNS = ("streamId", "correlationId", "globalPid", "eventId", "eventSyncId")

DRIVER_CLASS = 1  # eventClass of a driver call in RUNTIME; 0 is a runtime call
OS_CALL_CLASS = 27  # eventClass of a call in OSRT_API; 31 and 32 mark start and end of a process
STREAM_WAIT = 2  # syncType: a stream waits for an event; 1, 3 and 4 are waits of the host
NO_HANDLE = 0xFFFFFFFF  # streamId or eventId that is not recorded
NVTX_PUSH_POP, NVTX_START_END = 59, 60
NVTX_DOMAIN = 75

COPY_KINDS = {
    1: ("h2d", "HtoD"),
    2: ("d2h", "DtoH"),
    3: ("h2d", "HtoA"),
    4: ("d2h", "AtoH"),
    5: ("d2d", "AtoA"),
    6: ("d2d", "AtoD"),
    7: ("d2d", "DtoA"),
    8: ("d2d", "DtoD"),
    10: ("p2p", "PtoP"),
    11: ("uvm_h2d", "UVM HtoD"),
    12: ("uvm_d2h", "UVM DtoH"),
    13: ("uvm_d2d", "UVM DtoD"),
}
"""copyKind: what it is, and how Kineto writes it in names."""
HOST_TO_HOST = 9

MEMORY_KINDS = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
}
"""memKind, srcKind and dstKind, as Kineto writes them in names."""

OVERHEAD_KINDS = {
    2: "Driver Compiler",
    3: "Buffer Flush",
    4: "Instrumentation",
    5: "Resource",
    6: "Runtime Triggered Module Loading",
    7: "Lazy Function Loading",
    8: "Command Buffer Full",
}
"""overheadType, for rows without a name."""
