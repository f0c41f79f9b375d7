"""The commands of the demo."""

from __future__ import annotations

from springline.services.demo import days, fault
from springline.services.demo.terminal import main


def run_days() -> None:
    """Run three days of the workflow beside three streams, and show what became of them."""
    main(days.run)


def run_fault() -> None:
    """Wipe the cache and kill a stream, after `springline demo run`, and show how both heal."""
    main(fault.run)
