import pytest

from tracelens.errors import UsageError
from tracelens.flops import FlopsOptions, peak_flop_per_s
from tracelens.flops.dtypes import dtype_of
from tracelens.flops.peaks import device_names, device_of_option, find_device

NAMES = [
    ("NVIDIA H100 80GB HBM3", 132, "H100-SXM5-80GB"),
    ("NVIDIA H100", 132, "H100-SXM5-80GB"),
    ("NVIDIA H100 PCIe", 114, "H100-PCIe-80GB"),
    ("NVIDIA H100 NVL", 132, "H100-NVL-94GB"),
    ("NVIDIA H200", 132, "H200-SXM-141GB"),
    ("NVIDIA H200 NVL", 132, "H200-NVL-141GB"),
    ("NVIDIA H20", 78, "H20"),
    ("NVIDIA H800", 132, "H800-SXM"),
    ("NVIDIA GH200 480GB", 132, "GH200"),
    ("NVIDIA B200", 148, "B200-SXM6"),
    ("NVIDIA GB200", 152, "GB200"),
    ("NVIDIA B300 SXM6 AC", 148, "B300-SXM6"),
    ("NVIDIA A100-SXM4-80GB", 108, "A100-SXM4-80GB"),
    ("NVIDIA A100-PG509-200", 108, "A100-SXM4-80GB"),
    ("NVIDIA A100-SXM4-40GB", 108, "A100-SXM4-40GB"),
    ("NVIDIA A100 80GB PCIe", 108, "A100-PCIE-80GB"),
    ("NVIDIA A100-PCIE-40GB", 108, "A100-PCIE-40GB"),
    ("NVIDIA A800-SXM4-80GB", 108, "A800"),
    ("NVIDIA A10", 72, "A10"),
    ("NVIDIA A10G", 80, "A10G"),
    ("NVIDIA A40", 84, "A40"),
    ("NVIDIA L4", 58, "L4"),
    ("NVIDIA L40", 142, "L40"),
    ("NVIDIA L40S", 142, "L40S"),
    ("Tesla V100-SXM2-32GB", 80, "V100-SXM2"),
    ("Tesla T4", 40, "T4"),
    ("NVIDIA GeForce RTX 4090", 128, "RTX 4090"),
    ("AMD Instinct MI300X VF", 304, "MI300X"),
    ("AMD Instinct MI210", 104, "MI210"),
]
UNKNOWN = [
    ("Tesla V100-DGXS-32GB", 80),
    ("NVIDIA PG509-210", 108),
    ("AMD Radeon Graphics", 104),
    ("NVIDIA T400", 6),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 76),
    ("NVIDIA GeForce RTX 4090 D", 114),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 188),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
    ("NVIDIA H100 80GB HBM3", 264),
    ("", 132),
    ("My H1000", None),
]


@pytest.mark.parametrize(("name", "num_sms", "model"), NAMES)
def test_names_find_their_part(name: str, num_sms: int, model: str) -> None:
    device = find_device(name, num_sms)
    assert device is not None
    assert device.model == model
    assert device.share == 1.0


@pytest.mark.parametrize(("name", "num_sms"), UNKNOWN)
def test_unknown_devices_have_no_peak(name: str, num_sms: int | None) -> None:
    assert find_device(name, num_sms) is None
    assert peak_flop_per_s(name, num_sms=num_sms) is None


@pytest.mark.parametrize(
    ("name", "dtype", "num_sms", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 132, 989.4e12),
        ("NVIDIA H100 80GB HBM3", "c10::BFloat16", 132, 989.4e12),
        ("NVIDIA H100 80GB HBM3", "fp8", 132, 1978.9e12),
        ("NVIDIA H100 80GB HBM3", "tf32", 132, 494.7e12),
        ("NVIDIA H100 80GB HBM3", "float", 132, 67e12),
        ("h100", "half", None, 989.4e12),
        ("a100", "bf16", None, 312e12),
        ("NVIDIA A100-SXM4-80GB", "fp8", 108, None),
        ("Tesla V100-SXM2-32GB", "bf16", 80, None),
        ("Tesla V100-SXM2-32GB", "fp16", 80, 125e12),
        ("v100", "fp32", None, 15.7e12),
        ("NVIDIA A10G", "bf16", 80, 70e12),
        ("NVIDIA L40S", "bf16", 142, 362.05e12),
        ("mi300x", "bf16", None, 1307.4e12),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "bf16", 42, 312e12 * 42 / 108),
        ("NVIDIA A100-SXM-64GB", "bf16", 124, 312e12 * 124 / 108),
        ("AMD Instinct MI300X", "bf16", 38, 1307.4e12 / 8),
        ("NVIDIA H100 80GB HBM3", "complex64", 132, None),
    ],
)
def test_peaks(name: str, dtype: str, num_sms: int | None, peak: float | None) -> None:
    assert peak_flop_per_s(name, dtype=dtype, num_sms=num_sms) == pytest.approx(peak)


def test_rates_follow_from_units_and_clock() -> None:
    device = find_device("NVIDIA H100 80GB HBM3", 132)
    assert device is not None
    assert device.spec_clock_mhz is not None
    assert 132 * 4096 * device.spec_clock_mhz * 1e6 == pytest.approx(989.4e12, rel=1e-3)
    assert device.measured_flop_per_s("bf16") == 794.5e12


def test_every_part_is_found_by_its_own_name() -> None:
    assert len(device_names()) == 56
    for name in device_names():
        device = device_of_option(name)
        assert device is not None
        assert device.model == name
        assert device.source


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("c10::BFloat16", "bf16"),
        ("torch.float16", "fp16"),
        ("double", "fp64"),
        ("fp64", "fp64"),
        ("float64", "fp64"),
        ("c10::Float8_e4m3fn", "fp8"),
        ("c10::Float4_e2m1fn_x2", "fp4"),
        ("signed char", "int8"),
        ("unsigned char", None),
        ("long int", None),
        ("fp16/bf16", None),
        ("", None),
    ],
)
def test_spellings_of_formats(text: str, name: str | None) -> None:
    assert dtype_of(text) == name


@pytest.mark.parametrize("text", ["h1000", "typo", "", "NVIDIA"])
def test_a_name_for_no_device_is_refused_with_those_that_are_listed(text):
    with pytest.raises(UsageError, match=f"^--gpu {text}: no such device is listed$") as caught:
        FlopsOptions(gpu=text)
    assert "H100-SXM5-80GB, " in caught.value.hint
    assert FlopsOptions(gpu=text, peak=500).user_peak == 500e12


@pytest.mark.parametrize("text", ["h100", "H100 SXM5", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"])
def test_a_name_for_a_device_or_a_slice_of_one_is_taken(text):
    assert FlopsOptions(gpu=text).gpu == text
