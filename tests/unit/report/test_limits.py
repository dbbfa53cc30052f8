from tracelens.report import document
from tracelens.report.limits import limits


def test_a_complete_answer_leaves_nothing_open(example):
    assert limits(document(example)) == []


def test_one_rank_cannot_say_who_is_late(make_store):
    store = make_store(ranks=1)
    store.execute("UPDATE raw.segment SET leaf = 'comm.dp.undivided' WHERE leaf = 'comm.dp.wait'")

    assert limits(document(store)) == [("who is late: one rank only", "traces of all ranks", "")]


def test_several_ranks_cannot_tell_waiting_from_transfer_in_this_version(example):
    example.execute("UPDATE raw.segment SET leaf = 'comm.dp.undivided' WHERE leaf = 'comm.dp.wait'")

    (found,) = limits(document(example))

    assert found.what == (
        "waiting apart from transfer in collectives: not told apart in this version"
    )
    assert found.remedies == []


def test_unlabelled_host_time_asks_for_labels(example):
    example.execute("UPDATE raw.segment SET leaf = 'host.unlabelled' WHERE leaf = 'host.sync'")

    assert limits(document(example)) == [
        ("what the host did in some gaps", "NVTX or record_function ranges", "")
    ]


def test_missing_flops_name_the_options(make_store):
    (found,) = limits(document(make_store(ranks=1, sections={})))

    assert found.remedies == [
        "give: --gpu NAME, --model NAME, --seq-len N, --tokens-per-step N",
        "record: record_shapes=True",
    ]


def test_a_known_reason_is_not_repeated(make_store):
    """No kernel that multiplies matrices: the device is known, and no option would help."""
    why = "no FLOP-bearing kernel in the window"
    peak = {"flop_per_s": None, "device": "A800", "reason": why}
    store = make_store(ranks=1, sections={"peak": peak, "mfu": {"reason": why}})

    assert limits(document(store)) == []
