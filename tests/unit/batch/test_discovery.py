"""Which files make a run, from folders made for the purpose."""

import os

import pytest

from tracelens.batch import discover
from tracelens.errors import InputError


def is_trace(path):
    """Recognise by content, as the importers do."""
    return path.is_file() and path.read_bytes().startswith(b"TRACE")


def write(folder, *names, content=b"TRACE"):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content)


def found(*paths, recognize=is_trace):
    return [(run.name, [path.name for path in run.files]) for run in discover(paths, recognize)]


def test_a_folder_is_a_run_and_other_files_are_not_part_of_it(tmp_path):
    write(tmp_path / "night" / "a", "host1_17.json", "host2_18.json")
    write(tmp_path / "night" / "a", "train.log", content=b"step 1")
    write(tmp_path / "night" / "b", "trace.json.gz")
    write(tmp_path / "night" / "empty", "readme", content=b"")
    assert found(tmp_path / "night") == [
        ("night/a", ["host1_17.json", "host2_18.json"]),
        ("night/b", ["trace.json.gz"]),
    ]


def test_traces_directly_in_the_given_folder_have_its_name(tmp_path):
    write(tmp_path / "night", "t.json")
    assert found(tmp_path / "night") == [("night", ["t.json"])]


def test_names_that_number_ranks_make_sets(tmp_path):
    write(tmp_path / "n", "mon_rank0.json", "mon_rank1.json", "tue-rank-00.json", "other.json")
    assert found(tmp_path / "n") == [
        ("n/mon_rankN.json", ["mon_rank0.json", "mon_rank1.json"]),
        ("n/other.json", ["other.json"]),
        ("n/tue-rank-00.json", ["tue-rank-00.json"]),
    ]


def test_traces_of_two_profilers_are_two_runs(tmp_path):
    write(tmp_path / "n", "a.json.gz", "a.sqlite", "b.nsys-rep")
    assert found(tmp_path / "n") == [
        ("n/*.nsys", ["a.sqlite", "b.nsys-rep"]),
        ("n/a.json.gz", ["a.json.gz"]),
    ]


def test_one_set_of_ranks_is_the_folder(tmp_path):
    write(tmp_path / "it" / "iteration_10", "rank0_trace.json", "rank1_trace.json")
    write(tmp_path / "it" / "iteration_20", "rank0_trace.json", "rank1_trace.json")
    assert found(tmp_path / "it") == [
        ("it/iteration_10", ["rank0_trace.json", "rank1_trace.json"]),
        ("it/iteration_20", ["rank0_trace.json", "rank1_trace.json"]),
    ]


def test_a_word_that_ends_like_rank_numbers_nothing(tmp_path):
    write(tmp_path / "n", "crank1.json", "crank2.json")
    assert found(tmp_path / "n") == [("n", ["crank1.json", "crank2.json"])]


def test_files_given_by_name_are_runs_unless_they_are_ranks(tmp_path):
    write(tmp_path / "d", "a.json", "b.json", "j_rank0.json", "j_rank1.json", "k_rank0.json")
    files = sorted((tmp_path / "d").iterdir())
    assert found(*files) == [
        ("d/a.json", ["a.json"]),
        ("d/b.json", ["b.json"]),
        ("d/j_rankN.json", ["j_rank0.json", "j_rank1.json"]),
        ("d/k_rank0.json", ["k_rank0.json"]),
    ]


def test_a_file_given_by_name_is_tried_whatever_it_holds(tmp_path):
    write(tmp_path, "notes.txt", content=b"hello")
    (run,) = discover([tmp_path / "notes.txt"], is_trace)
    assert run.files == (tmp_path / "notes.txt",)


def test_a_folder_can_be_a_trace(tmp_path):
    write(tmp_path / "night" / "x_pqtdir", "KERNEL.parquet")
    runs = found(tmp_path / "night", recognize=lambda path: path.name.endswith("_pqtdir"))
    assert runs == [("night", ["x_pqtdir"])]


def test_a_report_and_its_export_are_one_trace(tmp_path):
    write(tmp_path / "n", "a.nsys-rep", "a.sqlite", "b.nsys-rep", "b.sqlite", "c.qdrep")
    os.utime(tmp_path / "n" / "a.nsys-rep", ns=(0, 10))
    os.utime(tmp_path / "n" / "a.sqlite", ns=(0, 11))
    os.utime(tmp_path / "n" / "b.nsys-rep", ns=(0, 12))
    os.utime(tmp_path / "n" / "b.sqlite", ns=(0, 11))
    assert found(tmp_path / "n") == [("n", ["a.sqlite", "b.nsys-rep", "b.sqlite", "c.qdrep"])]


def test_hidden_files_and_folders_are_left_alone(tmp_path):
    write(tmp_path / "n" / ".cache", "t.json")
    write(tmp_path / "n", ".t.json")
    assert found(tmp_path / "n") == []


def test_what_cannot_be_read_is_a_run_of_its_own(tmp_path):
    write(tmp_path / "n", "good.json")
    (tmp_path / "n" / "gone.json").symlink_to(tmp_path / "nowhere")
    runs = found(tmp_path / "n", recognize=lambda path: path.read_bytes().startswith(b"TRACE"))
    assert runs == [("n", ["good.json"]), ("n/gone.json", ["gone.json"])]


def test_links_to_folders_make_no_endless_walk(tmp_path):
    write(tmp_path / "n", "t.json")
    (tmp_path / "n" / "loop").symlink_to(tmp_path / "n")
    assert found(tmp_path / "n") == [("n", ["t.json"])]


def test_the_same_file_twice_is_one_run(tmp_path):
    write(tmp_path / "n", "t.json")
    assert len(discover([tmp_path / "n", tmp_path / "n"], is_trace)) == 1


def test_names_that_are_no_text_are_shown_as_such(tmp_path):
    folder = tmp_path / os.fsdecode(b"bad\xff")
    write(folder, "t.json")
    assert found(folder) == [("bad\N{REPLACEMENT CHARACTER}", ["t.json"])]


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        discover([tmp_path / "absent"], is_trace)


def test_a_broken_trace_is_a_run_of_its_own(tmp_path):
    write(tmp_path / "n", "good.json")
    write(tmp_path / "n", "rank1.json", "x.sqlite", "notes.txt", content=b"")
    write(tmp_path / "n", "config.json", content=b"{}")
    write(tmp_path / "n", "cut.nsys-rep", content=b"NVID")
    assert found(tmp_path / "n") == [
        ("n", ["good.json"]),
        ("n/cut.nsys-rep", ["cut.nsys-rep"]),
        ("n/rank1.json", ["rank1.json"]),
        ("n/x.sqlite", ["x.sqlite"]),
    ]
