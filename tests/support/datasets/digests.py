"""What has to be the same in every run of the workflow over flights."""

from __future__ import annotations

from collections.abc import Mapping

from springline.persistence.model.dataset import Dataset

_PSEUDONYMOUS = ("rotate", "accepted", "quarantine")  # made with a random salt, or from what was


def repeatable_digests(datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """The logical digests of a day's datasets by name, without those that no second run can make again."""
    return {name: each.digest for name, each in datasets.items() if name not in _PSEUDONYMOUS}
