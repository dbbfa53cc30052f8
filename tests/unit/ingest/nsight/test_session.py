"""Clock, versions, and what the profiler itself complains about."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Export = Callable[..., Path]
UTC_NS = 1_779_782_330_176_752_435
PID = 0x0001_0000_0000_0000 | 100 << 24
HELPER = 0x0001_0000_0000_0000 | 300 << 24


def _settings(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize("table", ["META_DATA_EXPORT", "EXPORT_META_DATA"])
def test_versions_and_start(export: Export, load: Any, table: str) -> None:
    settings = _settings(EXPORT_PRODUCT_VERSION="2026.2.1.210", EXPORT_SCHEMA_VERSION="3.25.0")
    start = [{"utcEpochNs": UTC_NS}]
    store = load(export(**{table: settings}, TARGET_INFO_SESSION_START_TIME=start))
    assert store.rows(
        "SELECT producer, base_ns, started_at, viewer_zero_ns, resolution_ns, truncated"
        " FROM raw.input"
    ) == [
        (
            "Nsight Systems 2026.2.1.210, schema 3.25.0",
            *(UTC_NS, "2026-05-26T07:58:50.176752435Z", 0, 1, False),
        )
    ]


def test_only_numbers_are_taken_for_a_version(export: Export, load: Any) -> None:
    settings = _settings(EXPORT_PRODUCT_VERSION="/home/me/secret", EXPORT_SCHEMA_VERSION="x")
    store = load(export(META_DATA_EXPORT=settings))
    assert store.scalar("SELECT producer FROM raw.input") == "Nsight Systems (version not recorded)"


def test_a_normalised_export_is_not_shifted_twice(export: Export, load: Any, row: Any) -> None:
    kernel = row["kernel"] | {"start": UTC_NS + 1_000, "end": UTC_NS + 2_000}
    early = kernel | {"start": UTC_NS - 1}
    open_range = {
        "start": UTC_NS + 5,
        "end": UTC_NS + 9_000,
        "eventType": 59,
        "text": "open",
        "globalTid": PID,
    }
    store = load(
        export(
            META_DATA_EXPORT=_settings(EXPORT_PARAM_TIME_NORMALIZE="true"),
            TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": UTC_NS}],
            ANALYSIS_DETAILS=[{"duration": 9_000}],
            CUPTI_ACTIVITY_KIND_KERNEL=[kernel, early],
            CUPTI_ACTIVITY_KIND_RUNTIME=[],
            NVTX_EVENTS=[open_range],
        )
    )
    assert store.rows("SELECT base_ns, viewer_zero_ns FROM raw.input") == [(0, UTC_NS)]
    assert store.rows("SELECT start_ns FROM raw.activity") == [(UTC_NS + 1_000,)]
    assert store.rows("SELECT reason, count FROM raw.damage ORDER BY reason") == [
        ("CUPTI_ACTIVITY_KIND_KERNEL: starts before the session", 1),
        ("NVTX_EVENTS: open NVTX range", 1),
    ]


def test_a_shifted_export_may_start_below_zero(export: Export, load: Any, row: Any) -> None:
    store = load(
        export(
            META_DATA_EXPORT=_settings(EXPORT_PARAM_TIME_SHIFT="-5000"),
            CUPTI_ACTIVITY_KIND_KERNEL=[row["kernel"] | {"start": -4_000, "end": -3_000}],
        )
    )
    assert store.rows("SELECT start_ns, end_ns FROM raw.activity") == [(-4_000, -3_000)]
    assert store.scalar("SELECT viewer_zero_ns FROM raw.input") == -5_000


def _complaint(text: str, severity: int = 2, pid: int = PID) -> dict[str, Any]:
    return {"text": text, "severity": severity, "globalPid": pid, "timestamp": 0}


def _notes(store: Any) -> list[tuple[str, str]]:
    return store.rows("SELECT severity, text FROM raw.note")


def test_losses_are_told_once_in_our_own_words(export: Export, load: Any) -> None:
    complaints = [
        _complaint("Not all CUDA events might have been collected."),
        _complaint("Not all CUDA events might have been collected."),
        _complaint("Couldn't allocate CUPTI bufer 12 times in /home/me/secret"),
        _complaint("Process was launched by /home/me/secret"),
        _complaint("Reached the size limit on recording trace events", severity=1),
        _complaint("Reached the size limit on recording trace events", pid=HELPER),
        _complaint("No CUDA events collected. Does the process use CUDA?", pid=HELPER),
    ]
    notes = _notes(load(export(DIAGNOSTIC_EVENT=complaints)))
    assert notes == [
        (
            "warning",
            "the profiler reports: CUDA events may be missing; launches without a kernel are not"
            " proof of idle time",
        ),
        (
            "warning",
            "the profiler reports: it had no memory for trace buffers, so CUDA events are missing",
        ),
    ]


def test_an_unsupported_driver_is_told_with_its_version(export: Export, load: Any) -> None:
    text = (
        "Installed CUDA driver version (13.2) is not supported by this build of Nsight Systems."
        " CUDA trace will be collected using libraries for driver version 13.1"
    )
    assert _notes(load(export(DIAGNOSTIC_EVENT=[_complaint(text)]))) == [
        (
            "warning",
            "the profiler reports: CUDA driver 13.2 is newer than this nsys, which supports 13.1:"
            " events may be missing",
        )
    ]


def test_without_kernels_every_process_may_complain(export: Export, load: Any, row: Any) -> None:
    complaints = [_complaint("No CUDA events collected. Does the process use CUDA?", pid=HELPER)]
    calls = [row["call"], row["call"] | {"nameId": 1}]
    path = export(
        CUPTI_ACTIVITY_KIND_KERNEL=[],
        CUPTI_ACTIVITY_KIND_RUNTIME=calls,
        DIAGNOSTIC_EVENT=complaints,
    )
    notes = [text for _, text in _notes(load(path))]
    assert notes[0].startswith(
        "the export has no kernels: 2 CUDA API calls were recorded, 1 of them kernel launches and"
        " 0 graph launches"
    )
    assert notes[1:] == ["the profiler reports: no CUDA events were collected"]
