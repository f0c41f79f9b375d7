"""The commands of the demo."""

from __future__ import annotations

from springline.services.demo import days, fault
from springline.services.demo.terminal import main


def run_days() -> None:
    """Run three days of the workflow and three streams, and show the resulting datasets and outputs."""
    main(days.run)


def run_fault() -> None:
    """Wipe the cache and kill a stream, after `springline demo run`, and show how both recover."""
    main(fault.run)
