"""Which files a user means, recognized by what they hold."""

import gzip
import json

import pytest

from tracelens.errors import AbstainedError, InputError, UsageError
from tracelens.ingest import find_inputs, load
from tracelens.ingest.inputs import recognize
from tracelens.store import Store

TRACE = json.dumps({"schemaVersion": 1, "traceEvents": []}).encode()


def test_content_decides_not_the_name(tmp_path):
    odd = tmp_path / "trace.png"
    odd.write_bytes(gzip.compress(TRACE))
    assert recognize(odd).FORMAT == "kineto"
    fake = tmp_path / "pyproject.json"
    fake.write_text('{"project": {"name": "x"}}')
    assert recognize(fake) is None


def test_a_folder_stands_for_its_traces_and_a_glob_for_its_matches(tmp_path):
    for name in ("b.json", "a.json", "sub/c.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(TRACE)
    (tmp_path / "notes.txt").write_text("no trace")
    names = [path.name for path in find_inputs([tmp_path, tmp_path / "a.json"])]
    assert sorted(names) == ["a.json", "b.json", "c.json"]
    assert [path.name for path in find_inputs([str(tmp_path / "*.json")])] == ["a.json", "b.json"]


@pytest.mark.parametrize("name", ["missing.json", "*.nothing"])
def test_what_does_not_exist_is_said(tmp_path, name):
    with pytest.raises(InputError, match="no such file"):
        find_inputs([str(tmp_path / name)])


def test_folder_without_traces_is_said(tmp_path):
    (tmp_path / "notes.txt").write_text("no trace")
    with pytest.raises(InputError, match="no trace in this folder"):
        find_inputs([tmp_path])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"<html>404</html>", "HTML"),
        (b'{"a": 1}', "JSON, but not a trace"),
        (b"PK\x03\x04rest", "zip"),
        (gzip.compress(gzip.compress(TRACE)), "gzip inside gzip"),
        (b"SQLite format 3\0" + b"\0" * 100, "SQLite"),
        (b"\x00\x01\x02", "not a trace of a known kind"),
    ],
)
def test_each_kind_of_wrong_file_is_named(tmp_path, content, words):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        load([path], Store())
    assert str(path) in caught.value.message


def test_a_trace_without_kernels_is_abstained_from(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(TRACE)
    with pytest.raises(AbstainedError, match="metadata only"):
        load([path], Store())


def test_two_profilers_of_one_run_are_not_mixed(samples):
    both = [samples / "single_gpu.json.gz", samples / "single_gpu.sqlite"]
    with pytest.raises(UsageError, match="two profilers"):
        load(both, Store())
