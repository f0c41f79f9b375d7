"""What holds for every installed policy, the baselines too, and how one is chosen."""

import pytest
from pydantic_settings import SettingsError

from springline.persistence.errors import ExtensionError
from springline.persistence.extensions import POLICIES
from springline.persistence.settings import Settings
from tests.support.datasets.lineages import cached, evicted, lineage_of, persisted, ref
from tests.support.scores import LINK, policy, score

NAMES = ("paper", "value-density", "edge", "fifo", "hash-order", "lrc")


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_explains_every_score(name: str) -> None:
    """Terms, and words, for whatever state a dataset is in; a name that the settings know."""
    lineage = lineage_of(cached("raw", by=None), cached("a", "raw"), evicted("b", "a"), cached("c", "b", by="dice"))
    for dataset in ("raw", "a", "b", "c"):
        dataset_score = score(name, dataset, lineage)
        assert dataset_score.terms
        assert dataset_score.reason
    assert policy(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_a_local_policy_looks_at_the_dataset_alone(name: str) -> None:
    """What is said to be local scores the same when the rest of the lineage changes; the others need not."""
    chosen_policy = policy(name)
    one = lineage_of(cached("raw", by=None), cached("a", "raw"))
    other = lineage_of(persisted("raw", by=None), cached("a", "raw"), cached("b", "a"), readers={"op": ("sum",)})
    same = chosen_policy.score(ref("a"), one, LINK, 100.0) == chosen_policy.score(ref("a"), other, LINK, 100.0)
    assert same is chosen_policy.local


def test_the_settings_know_the_installed_policies() -> None:
    """All of them."""
    assert POLICIES.names == NAMES
    assert Settings.help_of("policy") == f"Policy that orders the queue: {POLICIES.format_names()}"


def test_an_unknown_policy_is_refused_by_name() -> None:
    """By the settings and by whoever asks what if; the error lists those there are."""
    message = (
        "policy 'best': no installed package provides 'best'; "
        "installed: paper, value-density; baselines, .*: edge, fifo, "
    )
    with pytest.raises(ExtensionError, match=message):
        policy("best")
    with pytest.raises(SettingsError, match=f"SPRINGLINE_POLICY: {message}"):
        Settings(policy="best")  # type: ignore[call-arg]
