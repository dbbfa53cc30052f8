"""Host calls, overheads and waits between streams."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracelens.ingest.nsight.host import plain_call

Export = Callable[..., Path]
PID = 0x0001_0000_0000_0000 | 100 << 24
HELPER = 0x0001_0000_0000_0000 | 300 << 24


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC"),
        ("cudaStreamGetCaptureInfo_v2_v11030", "cudaStreamGetCaptureInfo_v2"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2"),
        ("cudaMalloc", "cudaMalloc"),
    ],
)
def test_calls_lose_the_version_of_their_interface(written: str, plain: str) -> None:
    assert plain_call(written) == plain


def test_kinds_of_calls_and_helper_processes(export: Export, load: Any, row: Any) -> None:
    call = row["call"]
    os_call = {"start": 1, "end": 9, "eventClass": 27, "globalTid": PID | 101, "nameId": 1}
    store = load(
        export(
            CUPTI_ACTIVITY_KIND_RUNTIME=[call, call | {"eventClass": 1, "correlationId": 12}],
            OSRT_API=[
                os_call,
                os_call | {"globalTid": HELPER | 300},
                os_call | {"eventClass": 31},  # the start of the process, no call
            ],
        )
    )
    assert store.rows(
        "SELECT kind, correlation, start_ns, end_ns FROM raw.host_call ORDER BY call_id"
    ) == [("runtime", 11, 500, 600), ("driver", 12, 500, 600), ("os", None, 1, 9)]
    assert store.rows("SELECT pid FROM raw.process") == [(100,)]


def test_overheads_have_names(export: Export, load: Any) -> None:
    own = {"start": 1, "end": 2, "globalTid": PID | 100, "nameId": 1}
    cuda = {"start": 3, "end": 4, "globalTid": PID | 100, "overheadType": 8}
    unknown = cuda | {"overheadType": 77}
    helper = own | {"globalTid": HELPER | 300}
    store = load(
        export(
            StringIds=[{"id": 1, "value": "CUPTI Buffer flush"}],
            PROFILER_OVERHEAD=[own, helper],
            CUPTI_ACTIVITY_KIND_OVERHEAD=[cuda, unknown],
        )
    )
    assert store.rows(
        "SELECT process, thread, name, start_ns, end_ns FROM raw.overhead"
        " JOIN raw.name USING (name_id) ORDER BY start_ns, name"
    ) == [
        (0, 0, "CUPTI Buffer flush", 1, 2),
        (0, 0, "Command Buffer Full", 3, 4),
        (0, 0, "Overhead", 3, 4),
    ]


def _wait(**columns: Any) -> dict[str, Any]:
    usual = {
        "start": 100,
        "end": 120,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 9,
        "correlationId": 50,
        "globalPid": PID,
        "syncType": 2,
        "eventId": 4,
    }
    return usual | columns


def _record(**columns: Any) -> dict[str, Any]:
    usual = {"globalPid": PID, "streamId": 7, "correlationId": 40, "eventId": 4, "contextId": 1}
    return usual | columns


def _waits(store: Any) -> list[tuple[Any, ...]]:
    return store.rows(
        "SELECT gpu, process, stream, wait_on_stream, record_correlation, correlation"
        " FROM raw.stream_wait ORDER BY correlation"
    )


def test_a_reused_event_means_its_last_record_before_the_wait(export: Export, load: Any) -> None:
    records = [
        _record(correlationId=60, streamId=30),
        _record(correlationId=45, streamId=20),
        _record(correlationId=40),
        _record(correlationId=49, globalPid=PID + (1 << 24)),
    ]
    waits = [_wait(), _wait(correlationId=70), _wait(correlationId=39), _wait(eventId=5)]
    store = load(
        export(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=waits, CUPTI_ACTIVITY_KIND_CUDA_EVENT=records)
    )
    assert _waits(store) == [
        (0, 0, 9, None, None, 39),
        (0, 0, 9, 20, 45, 50),
        (0, 0, 9, None, None, 50),
        (0, 0, 9, 30, 60, 70),
    ]


def test_the_number_of_the_record_decides_where_it_is_written(export: Export, load: Any) -> None:
    records = [
        _record(eventSyncId=1, streamId=21),
        _record(eventSyncId=2, correlationId=45, streamId=22),
    ]
    waits = [_wait(eventSyncId=1), _wait(eventSyncId=0xFFFFFFFF, correlationId=51)]
    store = load(
        export(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=waits, CUPTI_ACTIVITY_KIND_CUDA_EVENT=records)
    )
    assert _waits(store) == [(0, 0, 9, 21, 40, 50), (0, 0, 9, None, None, 51)]


def test_waits_without_stream_or_context_and_waits_of_the_host(export: Export, load: Any) -> None:
    waits = [
        _wait(streamId=0xFFFFFFFF, eventId=0xFFFFFFFF),
        _wait(contextId=99, correlationId=51),
        _wait(syncType=3),
        _wait(syncType=1),
    ]
    store = load(export(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=waits))
    assert _waits(store) == [(0, 0, None, None, None, 50), (None, 0, 9, None, None, 51)]
    assert store.scalar("SELECT count(*) FROM raw.activity") == 1
