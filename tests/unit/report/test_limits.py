from tracelens.report import document
from tracelens.report.limits import limits


def test_a_complete_answer_leaves_nothing_open(example):
    assert limits(document(example)) == []


def test_one_rank_cannot_say_who_is_late(make_store):
    store = make_store(ranks=1)
    store.execute("UPDATE raw.segment SET leaf = 'comm.dp.undivided' WHERE leaf = 'comm.dp.wait'")

    assert limits(document(store)) == [("who is late: one rank only", "traces of all ranks")]


def test_unlabelled_host_time_asks_for_labels(example):
    example.execute("UPDATE raw.segment SET leaf = 'host.unlabelled' WHERE leaf = 'host.sync'")

    assert limits(document(example)) == [
        ("what the host did in some gaps", "NVTX or record_function ranges")
    ]


def test_missing_flops_name_the_options(make_store):
    found = limits(document(make_store(ranks=1, sections={})))

    assert [limit.remedy for limit in found] == [
        "--model NAME --tokens-per-step N, or record_shapes=True",
        "--gpu NAME or --peak TFLOP/s",
    ]
