"""Events come out whole, whatever the block size, the layout and the damage."""

import gzip
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelens.ingest.chrome import split
from tracelens.ingest.chrome.event import number_text
from tracelens.ingest.chrome.source_bytes import TRUNCATED_GZIP, ByteStream
from tracelens.ingest.chrome.split import TraceReader
from tracelens.ingest.damage import Damage


class Chunks:
    """Bytes handed out in pieces of a given size."""

    def __init__(self, text, size=1 << 20):
        self.text = text
        self.size = size

    def __iter__(self):
        for start in range(0, len(self.text), self.size):
            yield self.text[start : start + self.size]


def read(text, size=1 << 20):
    damage = Damage()
    reader = TraceReader(Chunks(text, size), damage)
    events = [event for batch in reader.batches() for event in batch]
    return events, reader, damage


def event(number, **extra):
    return {"ph": "X", "cat": "kernel", "name": f"k{number}", "ts": number, "dur": 1} | extra


def names(events):
    return [item.name for item in events]


SOME = [event(n, args={"grid": [1, 2, 3], "list": [{"a": 1}, {"b": 2}]}) for n in range(40)]


@pytest.mark.parametrize("block", [64, 300, 1000, 1 << 22])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("bare", [False, True])
def test_blocks_and_layouts_do_not_matter(monkeypatch, block, indent, bare):
    monkeypatch.setattr(split, "BLOCK_BYTES", block)
    document = (
        SOME
        if bare
        else {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
            "traceEvents": SOME,
            "distributedInfo": {"rank": 3},
        }
    )
    events, reader, damage = read(json.dumps(document, indent=indent).encode(), block)
    assert names(events) == [f"k{n}" for n in range(40)]
    assert not reader.truncated
    assert damage._found == {}
    if not bare:
        assert reader.header["distributedInfo"] == {"rank": 3}
        assert reader.header["deviceProperties"][0]["name"] == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("bad", "reason", "kept"),
    [
        (b'{"ph":"X","name":"C:\\Users","ts":1,"dur":2}', "invalid escape", True),
        (b'{"ph":"X","name":"a\x01b","ts":1,"dur":2}', "control bytes", True),
        (b'{"ph":"X","name":"n","ts":1,"dur":2,"args":{"x":NaN}}', "bare word", True),
        (b'{"ph":"X","name":"n","ts":1,"dur":2,"args":{"x":-inf}}', "bare word", True),
        (b'{"ph":"X","name":"n","ts":1,"dur":2,"args":{"x":N/A}}', "bare word", True),
        (b'{"ph":"X","name":"n","ts":1,"dur":2,}', "trailing comma", True),
        (b'{"ph":"X","name":"\xe9","ts":1,"dur":2}', "not UTF-8", True),
        (b'{"ph":"X","name":"\\ud800","ts":1,"dur":2}', "lone surrogate", True),
        (b'{"ph":"X","name":"n","ts":1,"dur":2,"args":{"d":"a"b"}}', "cannot be decoded", False),
        (b"17", "not an event", False),
    ],
)
@pytest.mark.parametrize("block", [120, 1 << 22])
def test_one_bad_event_costs_at_most_itself(monkeypatch, bad, reason, kept, block):
    monkeypatch.setattr(split, "BLOCK_BYTES", block)
    good = [json.dumps(event(n)).encode() for n in range(6)]
    text = b'{"traceEvents":[' + b",\n".join([*good[:3], bad, *good[3:]]) + b"]}"
    events, _, damage = read(text, block)
    found = names(events)
    assert [name for name in found if name in {f"k{n}" for n in range(6)}] == [
        f"k{n}" for n in range(6)
    ]
    assert len(found) == 6 + kept
    [(what, (count, offset))] = [item for item in damage._found.items() if reason in item[0]]
    assert count == 1
    assert text.find(bad) <= offset < text.find(bad) + len(bad), what


def test_timestamps_keep_every_digit():
    text = b'[{"ph":"X","ts":1719842123456789.123,"dur":"0.001"}]'
    [only], _, _ = read(text)
    assert number_text(only.ts) == "1719842123456789.123"
    assert number_text(only.dur) == "0.001"


@pytest.mark.parametrize("cut", [30, 150, 500, 1001])
def test_cut_file_keeps_its_whole_events(cut):
    text = json.dumps({"traceEvents": SOME}).encode()[:cut]
    events, reader, damage = read(text)
    whole = text.count(b'"b": 2}]}}')
    assert len(events) == whole
    assert reader.truncated
    assert sum(count for count, _ in damage._found.values()) == 1


@pytest.mark.parametrize("tail", [b'"}},\n', b"", b'"'])
def test_an_event_without_end_does_not_fill_the_memory(monkeypatch, tail):
    monkeypatch.setattr(split, "BLOCK_BYTES", 200)
    long = b'{"ph":"X","name":"' + b"x" * 20_000
    good = json.dumps(event(7)).encode()
    text = b"[" + good + b",\n" + long + tail + good + b"]"
    damage = Damage()
    reader = TraceReader(Chunks(text, 100), damage)
    longest = 0
    found = []
    for batch in reader.batches():
        found += names(batch)
        longest = max(longest, len(reader._text))
    assert longest <= 17 * 200 + 100
    assert found == (["k7", "k7"] if tail == b'"}},\n' else ["k7"])
    assert damage.count(split.LOST) == 1


def test_second_document_is_told_and_ignored():
    text = json.dumps({"traceEvents": SOME}).encode()
    events, _, damage = read(text + text)
    assert len(events) == 40
    assert damage.count(split.EXTRA) == 1


def test_gzip_members_are_one_stream_and_a_cut_one_keeps_its_beginning(tmp_path):
    text = json.dumps({"traceEvents": SOME}).encode()
    whole = gzip.compress(text[:900]) + gzip.compress(text[900:])
    path = tmp_path / "trace"
    path.write_bytes(whole)
    assert b"".join(ByteStream(path, Damage())) == text
    path.write_bytes(whole[:-9])
    damage = Damage()
    assert text.startswith(b"".join(ByteStream(path, damage)))
    assert damage.count(TRUNCATED_GZIP) == 1


@given(st.binary(max_size=12), st.integers(0, 400), st.integers(0, 12))
@settings(max_examples=300, deadline=None)
def test_no_mutation_escapes_as_an_error(insert, position, removed):
    text = json.dumps({"schemaVersion": 1, "traceEvents": SOME[:4]}).encode()
    mutated = text[:position] + insert + text[position + removed :]
    events, _, _ = read(mutated, 100)
    assert len(events) <= 8


def test_values_of_any_type_are_taken():
    text = b'[{"ph":7,"name":null,"pid":{},"tid":[1],"ts":{},"dur":[],"args":{"grid":"x"}}]'
    [only], _, _ = read(text)
    assert only.pid == {}
    assert msgspec.to_builtins(only.args.grid) == "x"
