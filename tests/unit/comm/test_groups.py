"""Every rule of groups.toml is proved by its own examples, against the whole table."""

import pytest

from tracelens import taxonomy
from tracelens.comm.groups import group_rules, rule_of, silent_descriptions

EXAMPLES = [(rule, example) for rule in group_rules() for example in rule.examples]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_each_example_is_decided_by_its_own_rule(rule, example):
    assert rule_of(example) is rule
    assert rule_of(example.lower()) is rule


@pytest.mark.parametrize("description", [*silent_descriptions(), None, "  "])
def test_descriptions_that_say_nothing_match_no_rule(description):
    assert rule_of(description) is None


def test_rules_speak_the_taxonomy_and_have_examples():
    for rule in group_rules():
        assert rule.dimension in set(taxonomy.DIMENSIONS) - {"unknown"}
        assert rule.sharded in {None, "fsdp"}
        assert rule.examples


def test_every_dimension_can_be_told_by_a_description():
    told = {rule.dimension for rule in group_rules()}
    assert told == set(taxonomy.DIMENSIONS) - {"unknown"}


@pytest.mark.parametrize(
    "near_miss",
    ["xTENSOR_MODEL_PARALLEL_GROUP", "mesh_tp2", "mesh_tpx", "TENSOR_MODEL_PARALLEL", "mesh_dp\n1"],
)
def test_a_part_of_a_description_is_not_enough(near_miss):
    assert rule_of(near_miss) is None


@pytest.mark.parametrize(
    ("op", "ops", "dimension"),
    [
        ("all_gather", {"all_gather", "reduce_scatter"}, "fsdp"),
        ("reduce_scatter", {"all_gather", "reduce_scatter", "all_reduce"}, "fsdp"),
        ("all_reduce", {"all_gather", "reduce_scatter", "all_reduce"}, "dp"),
        ("all_gather", {"all_gather", "all_reduce"}, "dp"),
        ("reduce_scatter", {"reduce_scatter"}, "dp"),
    ],
)
def test_data_parallel_groups_that_shard_are_fsdp(op, ops, dimension):
    rule = rule_of("DATA_PARALLEL_GROUP_WITH_CP")
    assert rule is not None
    assert rule.dimension_for(op, ops) == dimension


def test_tensor_parallel_pairs_stay_tensor_parallel():
    rule = rule_of("TENSOR_MODEL_PARALLEL_GROUP")
    assert rule is not None
    assert rule.dimension_for("all_gather", {"all_gather", "reduce_scatter"}) == "tp"
