import json
from typing import Any


def test_table_translates_a_throughput_under_every_convention(cli: Any) -> None:
    found = cli(
        "flops",
        *("--model", "llama3-8b", "--seq", 8192, "--gpu", "h100"),
        *("--tokens-per-second-per-gpu", 6667),
    )
    lines = found.out.splitlines()
    assert lines[0] == "llama3-8b: 8,030,261,248 parameters, sequences of 8,192 tokens"
    rows = {line.split()[0]: line.split() for line in lines[3:-1]}
    assert rows["causal"][1:5] == ["51.471", "+0.0%", "343.2", "34.68%"]
    assert rows["torchtitan"][1:5] == ["57.914", "+12.5%", "386.1", "39.03%"]
    assert rows["torchtitan"][5:] == ["full", "no", "yes", "active", "yes", "no", "none"]
    assert len(rows) == 28
    assert max(map(len, lines)) <= 100


def test_parts_add_up_to_the_convention(cli: Any) -> None:
    for convention in ("causal", "llm-foundry-hfu", "sc21"):
        found = cli(
            "flops",
            *("--model", "llama3-8b", "--seq", 8192, "--convention", convention, "--json"),
        )
        answer = json.loads(found.out)
        passes = ("forward_flop", "backward_flop", "again_flop")
        total = sum(row[name] for row in answer["parts"] for name in passes)
        stated = {row["convention"]: row["flop_per_token"] for row in answer["conventions"]}
        assert abs(total / stated[convention] - 1) < 1e-12
