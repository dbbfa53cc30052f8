"""``attribute`` and ``report``: one answer in every form, and no file destroyed on the way."""

import json
import re

import pytest

import tracelens
from tracelens.errors import UsageError


def test_json_is_to_dict_and_nothing_else(cli, sample):
    done = cli("attribute", sample, "--json")
    assert (done.code, done.err) == (0, "")
    with tracelens.attribute(sample) as run:
        assert json.loads(done.out) == run.to_dict()


def test_quiet_prints_nothing(cli, trace):
    assert cli("attribute", trace, "--quiet") == type(cli("--version"))(0, "", "")


def test_options_of_the_command_line_work_in_python(trace):
    with tracelens.attribute(
        trace, peak="clock", sm_clock=1755, gpu="h100", max_memory="1 GB"
    ) as run:
        assert run.to_dict()["peak"]["kind"] == "clock"
    with tracelens.attribute(trace, peak="clock", sm_clock_mhz=1755, gpu="h100") as again:
        assert again.to_dict()["peak"] == run.to_dict()["peak"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 5}, "window must be text, not 5"),
        ({"gpu": 5}, "gpu must be text"),
        ({"max_memory": 5}, "--max-memory 5: not a size"),
        ({"nope": 5}, "unknown option: nope"),
    ],
)
def test_wrong_options_in_python(trace, options, message):
    with pytest.raises(UsageError, match=message):
        tracelens.attribute(trace, **options)


@pytest.mark.parametrize("size", ["4.5GB", "80%", "1 GB", "512MiB"])
def test_sizes_of_memory(cli, trace, size):
    assert cli("attribute", trace, "--quiet", "--max-memory", size).code == 0


# --- a store -----------------------------------------------------------------------------------


def test_a_store_answers_like_its_trace(cli, trace, tmp_path):
    store = tmp_path / "run.duckdb"
    done = cli("attribute", trace, "--json", "--store", store)
    assert done.code == 0
    with tracelens.Run.open(store) as run:
        assert run.to_dict() == json.loads(done.out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.duckdb", "small.json"]


def test_a_store_is_replaced_by_success_and_kept_by_failure(cli, trace, cpu_trace, tmp_path):
    store = tmp_path / "run.duckdb"
    assert cli("attribute", trace, "--quiet", "--store", store).code == 0
    before = store.read_bytes()
    for source, code in ((cpu_trace, 4), (tmp_path / "none.json", 6)):
        assert cli("attribute", source, "--quiet", "--store", store).code == code
        assert store.read_bytes() == before
    assert cli("attribute", trace, "--quiet", "--store", store, "--gpu", "h100").code == 0
    with tracelens.Run.open(store) as run:
        assert run.to_dict()["peak"]["device"] == "H100-SXM5-80GB"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["cpu.json", "run.duckdb", "small.json"]


def test_a_store_behind_a_link_is_replaced_where_it_lies(cli, trace, tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "run.duckdb"
    link.symlink_to(tmp_path / "disk" / "run.duckdb")
    assert cli("attribute", trace, "--quiet", "--store", link).code == 0
    assert link.is_symlink()
    assert (tmp_path / "disk" / "run.duckdb").is_file()


# --- places that must not be written -------------------------------------------------------------


@pytest.mark.parametrize("option", ["--store", "--html", "--perfetto"])
def test_no_other_file_is_overwritten(cli, trace, option):
    before = trace.read_bytes()
    done = cli("attribute", trace, option, trace)
    assert done.code == 2
    assert "not overwritten" in done.err
    assert trace.read_bytes() == before


@pytest.mark.parametrize("option", ["--store", "--html", "--perfetto"])
@pytest.mark.parametrize("place", ["", "none/x", "/proc/x", "n" * 300])
def test_places_that_cannot_be_written(cli, trace, tmp_path, option, place):
    done = cli("attribute", trace, option, tmp_path / place)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {tmp_path / place}: ")
    assert list(tmp_path.iterdir()) == [trace]


def test_a_page_in_python_that_cannot_be_written(trace, tmp_path):
    with tracelens.attribute(trace) as run:
        for place in ("none/x.html", "/proc/x.html", ""):
            with pytest.raises(UsageError):
                run.save_html(tmp_path / place)


# --- report ------------------------------------------------------------------------------------


def test_a_report_of_a_store_and_over_an_earlier_report(cli, kept, tmp_path):
    page = tmp_path / "run.html"
    for _ in range(2):
        done = cli("report", kept, "--html", page)
        assert (done.code, done.out, done.err) == (0, f"{page}\n", "")
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html")


def test_a_report_of_a_trace_equals_that_of_attribute(cli, trace, tmp_path):
    options = ("--gpu", "h100", "--window", "all")
    assert cli("report", trace, "--html", tmp_path / "a.html", *options).code == 0
    assert cli("attribute", trace, "--html", tmp_path / "b.html", "--quiet", *options).code == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_options_do_not_apply_to_a_store(cli, kept, tmp_path):
    done = cli("report", kept, "--html", tmp_path / "x.html", "--model", "gpt2", "--seq-len", 99)
    assert done.code == 2
    assert "--model, --seq-len would change nothing" in done.err
    assert list(tmp_path.iterdir()) == []


def test_the_page_must_be_no_store(cli, kept):
    before = kept.read_bytes()
    assert cli("report", kept, "--html", kept).code == 2
    assert kept.read_bytes() == before


# --- batch, simulate -----------------------------------------------------------------------------


def test_a_batch_says_how_each_run_ended(cli, samples, tmp_path):
    lake = tmp_path / "lake"
    (tmp_path / "bad.json").write_text("{")
    source = samples / "single_gpu.sqlite"
    done = cli("batch", source, tmp_path / "bad.json", "--lake", lake)
    assert done.code == 0
    good, bad, total = done.out.splitlines()
    assert bad.startswith("failed     ")
    assert "bad.json" in bad
    # A bound without its reason would read like a figure.
    told = r"ok +sample_traces/single_gpu.sqlite  MFU ≥ \d+\.\d %: .+ has no shapes.*"
    assert re.fullmatch(told, good)
    assert total == "1 attributed, 0 abstained, 1 failed, 0 unchanged"
    again = cli("batch", source, tmp_path / "bad.json", "--lake", lake)
    assert again.out == "0 attributed, 0 abstained, 0 failed, 2 unchanged\n"


def test_a_batch_refuses_wrong_options_before_the_first_run(cli, samples, tmp_path):
    done = cli("batch", samples, "--lake", tmp_path / "lake", "--gpu", "typo")
    assert (done.code, done.out) == (2, "")
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("place", ["/proc/x", "file"])
def test_simulate_where_it_cannot_write(cli, tmp_path, place):
    (tmp_path / "file").write_text("")
    done = cli("simulate", "single_gpu", "--out", tmp_path / place)
    assert (done.code, done.out) == (2, "")
    assert "cannot be written" in done.err
