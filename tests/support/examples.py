"""How many examples a property draws."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> int:
    """So many at night; otherwise a third of them, the same in each run."""
    return number if settings.get_current_profile_name() == "random" else max(number // 3, 2)
