"""The taxonomy is closed: every class has a leaf, every leaf a group, every group a look."""

import re

import pytest

from tracelens import taxonomy


def test_every_class_is_charged_to_a_leaf_that_exists():
    assert set(taxonomy.CLASS_LEAF.values()) <= set(taxonomy.LEAF_TITLES)


@pytest.mark.parametrize("single_rank", [False, True])
def test_every_leaf_has_a_group_and_every_group_a_leaf(single_rank):
    groups = {
        taxonomy.group_of_leaf(leaf, single_rank=single_rank) for leaf in taxonomy.LEAF_TITLES
    }
    assert groups == set(taxonomy.GROUPS)


def test_every_group_has_a_title_and_a_color():
    assert tuple(taxonomy.GROUP_TITLES) == taxonomy.GROUPS
    assert tuple(taxonomy.GROUP_COLORS) == taxonomy.GROUPS
    assert len(set(taxonomy.GROUP_COLORS.values())) == len(taxonomy.GROUPS)
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in taxonomy.GROUP_COLORS.values())


def test_titles_are_present_and_unique():
    titles = list(taxonomy.LEAF_TITLES.values())
    assert all(title.strip() == title and title for title in titles)
    assert len(set(titles)) == len(titles)


def test_communication_leaves_are_every_dimension_in_three_parts():
    expected = {
        f"comm.{dimension}.{part}"
        for dimension in taxonomy.DIMENSIONS
        for part in ("transfer", "wait", "undivided")
    }
    assert {leaf for leaf in taxonomy.LEAF_TITLES if leaf.startswith("comm.")} == expected


def test_kinds_follow_the_leaves():
    kinds = {taxonomy.kind_of_class(name) for name in taxonomy.CLASS_LEAF}
    assert kinds == set(taxonomy.Kind) - {taxonomy.Kind.IDLE}
    assert {taxonomy.kind_of_leaf(leaf) for leaf in taxonomy.FLOP_LEAVES} == {taxonomy.Kind.FLOP}
    assert set(taxonomy.FLOP_LEAVES) == {
        leaf for leaf in taxonomy.LEAF_TITLES if taxonomy.kind_of_leaf(leaf) is taxonomy.Kind.FLOP
    }
