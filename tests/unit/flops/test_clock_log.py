from pathlib import Path
from typing import Any

import pytest

from tracelens.errors import InputError, UsageError
from tracelens.flops.clock_log import read_clocks, with_clocks
from tracelens.flops.denominator import Mix, Part, choose_peak
from tracelens.flops.options import FlopsOptions

SMI = """timestamp, index, clocks.current.sm [MHz], utilization.gpu [%]
2026/11/30 12:00:00.000, 0, 345 MHz, 0 %
2026/11/30 12:00:01.000, 0, 1590 MHz, 99 %
2026/11/30 12:00:01.000, 1, 1755 MHz, 98 %
2026/11/30 12:00:02.000, 0, 1605 MHz, 100 %
2026/11/30 12:00:02.000, 1, 1755 MHz, 100 %
2026/11/30 12:00:03.000, 0, 1620 MHz, 97 %
2026/11/30 12:00:03.000, 1, [N/A], 97 %
"""
DMON = """#Entity   SMCLK       SMACT
ID
GPU 0     1980        0.012
GPU 0     1410        0.973
GPU 1     1395        0.980
GPU 0     1420        0.981
"""
PART = Part("NVIDIA H100 80GB HBM3", 132, 1_000)


def written(folder: Path, text: str) -> Path:
    path = folder / "clocks.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SMI, {0: 1_605.0, 1: 1_755.0}),
        (DMON, {0: 1_415.0, 1: 1_395.0}),
        ("clocks.sm\n1200\n1300\n1250\n", {None: 1_250.0}),
        ("gpu,DCGM_FI_DEV_SM_CLOCK\n3,1500\n3,1500\n", {3: 1_500.0}),
    ],
)
def test_the_median_of_busy_samples(tmp_path: Path, text: str, wanted: dict[Any, float]) -> None:
    assert read_clocks(written(tmp_path, text)) == wanted


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "clocks.sm\n[N/A]\n999999\n", "\x00\xff,,,"])
def test_a_file_without_clocks_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="no SM clock found"):
        read_clocks(written(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_clocks(tmp_path / "none.csv")


def test_every_gpu_gets_its_own_clock(tmp_path: Path) -> None:
    options = FlopsOptions(clock_log=written(tmp_path, SMI), peak="clock")
    parts = [Part(PART.name, 132, 1_000, gpu, device=gpu) for gpu in (0, 1)]
    clocked = with_clocks(parts, options)
    assert [part.clock_mhz for part in clocked] == [1_605.0, 1_755.0]
    peak = choose_peak(options, clocked, Mix({"bf16": 1.0}, are_flops=True))
    assert peak.flop_per_s == pytest.approx(989.4e12 * (1_605 + 1_755) / 2 / 1_830)


def test_one_gpu_takes_the_only_clock(tmp_path: Path) -> None:
    path = written(tmp_path, "index,clocks.sm\n5,1500\n")
    (part,) = with_clocks([PART], FlopsOptions(clock_log=path))
    assert part.clock_mhz == 1_500


def test_a_gpu_that_the_log_does_not_hold_is_told(tmp_path: Path) -> None:
    parts = [Part(PART.name, 132, 1_000, gpu, device=gpu) for gpu in (0, 7)]
    with pytest.raises(UsageError, match="no clock of GPU 7, only of 0, 1"):
        with_clocks(parts, FlopsOptions(clock_log=written(tmp_path, SMI)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clock_log": "a.csv", "sm_clock_mhz": 1_500}, "both say the clock"),
        ({"clock_log": "a.csv", "peak": "measured"}, "--clock-log says nothing"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FlopsOptions(**options)


def test_a_slice_has_its_share_of_the_peak_and_of_the_clock() -> None:
    """A MIG slice of 16 of 132 multiprocessors."""
    slice_ = Part("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, 1_000, clock_mhz=1_500.0)
    options = FlopsOptions(peak="clock", sm_clock_mhz=1_500)
    peak = choose_peak(options, [slice_], Mix({"bf16": 1.0}, are_flops=True))
    assert peak.flop_per_s == pytest.approx(989.4e12 * 16 / 132 * 1_500 / 1_830)


def test_mixed_formats_are_rated_by_the_time_of_each() -> None:
    """Sum of F / P(dtype) is the ideal time, and so the reference."""
    mix = Mix({"bf16": 3.0, "fp8": 1.0, "fp32": 1.0}, are_flops=True)
    peak = choose_peak(FlopsOptions(), [PART], mix)
    assert peak.flop_per_s == pytest.approx(4 / (3 / 989.4e12 + 1 / 1_978.9e12))


def test_a_given_peak_keeps_the_ratio_of_formats() -> None:
    peak = choose_peak(FlopsOptions(peak=800), [PART], Mix({"bf16": 1.0}, are_flops=True))
    assert peak.rating("bf16") == pytest.approx(800e12)
    assert peak.rating("fp8") == pytest.approx(800e12 * 1_978.9 / 989.4)
