"""The orders of persisting that can be chosen by name: the paper's, our own, and what installed packages add.

A package adds one by an entry point of the group `springline.policies`, named as it is to be chosen. It names a
function from the `Settings` of the platform to a `Policy`:

    [project.entry-points."springline.policies"]
    smallest = "springline_smallest:smallest"
"""

from __future__ import annotations

from springline.persistence.decisions.priority import Paper, Policy, ValueDensity
from springline.persistence.errors import ExtensionError
from springline.persistence.extensions import POLICIES
from springline.persistence.settings import Settings


def policy_of(settings: Settings, name: str = "") -> Policy:
    """The policy that the settings ask for, or the installed one called `name`; raises `ExtensionError`."""
    name = name or settings.policy
    policy: Policy = POLICIES.call(name, settings)
    if not callable(getattr(policy, "score", None)) or getattr(policy, "name", None) != name:
        raise ExtensionError(f"policy {name!r}: its package gave {policy!r}, which is no Policy of that name")
    return policy


def paper(settings: Settings) -> Paper:
    """`paper`: the paper's formula with the weights of the settings."""
    return Paper(settings.weights)


def value_density(settings: Settings) -> ValueDensity:
    """`value-density`: the most expected recovery that a second of the link saves first."""
    return ValueDensity(settings.mean_fault_seconds)
