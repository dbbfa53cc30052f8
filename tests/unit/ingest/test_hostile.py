"""Files made to break the reader: each is salvaged and counted, or refused in one line."""

import json
import os

import pytest

import tracelens
from tracelens.errors import InputError, UsageError
from tracelens.ingest import find_inputs, load, passed_over
from tracelens.store import Store


def kernel(number, **given):
    return {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": 0,
        "tid": 7,
        "ts": 100 + 10 * number,
        "dur": 5,
        "args": {"device": 0, "stream": 7, "correlation": number},
    } | given


def stored(tmp_path, *events, text=None, name="trace.json"):
    path = tmp_path / name
    path.write_text(text or json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    store = Store()
    load([path], store)
    return store


def damage(store):
    return dict(store.rows("SELECT reason, count FROM raw.damage"))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (kernel(1, args={"device": 2**31}), "GPU event without a device"),
        (kernel(1, args={"device": -1}), "GPU event without a device"),
        (kernel(1, pid="host", args={}), "GPU event without a device"),
        (kernel(1, ts=9.2e15), "event without a usable timestamp"),
        (kernel(1, dur=9_000_000_000_000_000), "event without a usable timestamp"),
        (kernel(1, ts="1" * 5000), "event without a usable timestamp"),
    ],
)
def test_impossible_numbers_are_counted_not_kept(tmp_path, event, reason):
    store = stored(tmp_path, kernel(0), event)
    assert store.scalar("SELECT count(*) FROM raw.activity") == 1
    assert damage(store) == {reason: 1}


def test_odd_integers_in_arguments_become_nothing(tmp_path):
    args = {"device": 0, "stream": 7, "correlation": "--5", "Group size": 2**31}
    store = stored(tmp_path, kernel(0, args=args | {"Collective name": "allreduce"}))
    assert store.rows("SELECT correlation FROM raw.activity") == [(None,)]
    assert store.rows("SELECT group_size FROM raw.collective") == [(None,)]


@pytest.mark.parametrize("shape", ["[", '{"a":'])
def test_nesting_without_end_is_salvaged(tmp_path, shape):
    good = json.dumps(kernel(0))
    deep = '{"ph":"X","name":"d","ts":1,"dur":1,"args":{"x":' + shape * 50_000
    store = stored(tmp_path, text='{"traceEvents":[' + good + "," + deep)
    assert store.scalar("SELECT count(*) FROM raw.activity") == 1
    assert sum(damage(store).values()) == 1


def test_brackets_alone_end_quickly(tmp_path):
    with pytest.raises(tracelens.TraceLensError):
        stored(tmp_path, text='{"traceEvents":' + "[" * 200_000)


def test_equal_numbers_of_calls_and_kernels_pair_in_order(tmp_path):
    def call(name, at):
        args = {"correlation": 5}
        event = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1}
        return event | {"ts": at, "dur": 2, "args": args}

    args = {"device": 0, "stream": 7, "correlation": 5}
    store = stored(
        tmp_path,
        call("first", 10),
        call("second", 20),
        kernel(0, name="a", args=args),
        kernel(1, name="b", args=args),
    )
    from tracelens.ingest import link_activities

    link_activities(store)
    rows = store.rows(
        "SELECT n.name, c.name FROM raw.link AS l JOIN raw.activity AS a USING (activity_id) "
        "JOIN raw.name AS n ON n.name_id = a.name_id JOIN raw.host_call AS h USING (call_id) "
        "JOIN raw.name AS c ON c.name_id = h.name_id ORDER BY n.name"
    )
    assert rows == [("a", "first"), ("b", "second")]


def test_one_kernel_over_its_successor_is_impossible_but_a_short_overlap_is_real(tmp_path):
    events = [kernel(number, name="nccl") for number in range(2)]
    store = stored(tmp_path, *events, kernel(0, name="nccl", ts=95, dur=5_000_000))
    assert damage(store) == {"impossible kernel: spans later kernels of its own stream": 1}
    assert store.scalar("SELECT count(*) FROM raw.activity") == 2
    store = stored(tmp_path, *events, kernel(0, name="nccl", ts=95, dur=900))
    assert damage(store) == {}


def test_the_same_content_is_not_two_ranks(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"traceEvents": [kernel(0)]}))
    with pytest.raises(UsageError, match="same content"):
        load([tmp_path / "a.json", tmp_path / "b.json"], Store())


def test_what_a_folder_holds_but_cannot_be_read_is_said(tmp_path):
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": [kernel(0)]}))
    (tmp_path / "rank1.json").write_text("")
    (tmp_path / "rank2.json").write_text("<html>")
    found = find_inputs([tmp_path])
    assert [path.name for path in found] == ["rank0.json"]
    remarks = passed_over([tmp_path], found)
    assert len(remarks) == 2
    assert "rank1.json: the file is empty" in remarks[0]
    with tracelens.attribute(tmp_path) as run:
        assert any("rank2.json" in note for note in run.to_dict()["quality"]["notes"])


@pytest.mark.parametrize("kind", ["pipe", "dangling", "loop"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else tmp_path / "nothing")
    with pytest.raises(InputError):
        load(find_inputs([path]), Store())


def test_file_names_need_not_be_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/b\xff.json"
    with open(path, "w") as file:  # noqa: PTH123 - a name that is no text
        json.dump({"traceEvents": [kernel(0)]}, file)
    with tracelens.attribute(os.fsdecode(path)) as run:
        assert run.to_dict()["inputs"][0]["path"].endswith("b\\xff.json")


@pytest.mark.parametrize("given", [[], [""]])
def test_nothing_given_is_a_mistake_of_the_caller(given):
    with pytest.raises(UsageError):
        tracelens.attribute(given)


def test_a_foreign_file_is_no_store_and_nothing_is_fetched(tmp_path, monkeypatch):
    path = tmp_path / "other.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"\0" * 100)
    monkeypatch.setattr("duckdb.connect", lambda *_args, **_given: pytest.fail("opened"))
    assert not Store.is_store(path)
