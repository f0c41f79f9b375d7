"""The policies that can be selected by name: the paper's, our own, and those of installed packages.

A package adds one by an entry point of the group `springline.policies` with the name of the policy. It refers to a
function from the `Settings` of the platform to a `Policy`:

    [project.entry-points."springline.policies"]
    smallest = "springline_smallest:smallest"
"""

from __future__ import annotations

from springline.persistence.decisions.priority import PaperPolicy, Policy, ValueDensityPolicy
from springline.persistence.errors import ExtensionError
from springline.persistence.extensions import POLICIES
from springline.persistence.settings import Settings


def load_policy(settings: Settings, name: str = "") -> Policy:
    """Return the policy that the settings select, or the installed one called `name`; raises `ExtensionError`."""
    name = name or settings.policy
    policy: Policy = POLICIES.call(name, settings)
    if not callable(getattr(policy, "score", None)) or getattr(policy, "name", None) != name:
        raise ExtensionError(f"policy {name!r}: its package returned {policy!r}, which is not a Policy of that name")
    return policy


def paper(settings: Settings) -> PaperPolicy:
    """Return `paper`: the paper's formula with the weights of the settings."""
    return PaperPolicy(settings.policy_weights)


def value_density(settings: Settings) -> ValueDensityPolicy:
    """Return `value-density`: the most expected recovery time saved per second of transfer first."""
    return ValueDensityPolicy(settings.mean_fault_seconds)
