"""A persister in a process of its own, to be killed: it says by a file when it is in the middle of a transfer.

python -m tests.support.datasets.worker HOME CACHE SIGNAL data|operation
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from springline.persistence.engine.copier import BandwidthLimiter
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from tests.support.datasets.workflow import workflow_runner


def main(home: str, cache: str, signal: str, method: str) -> None:
    """Take one step; pause in its middle until the file SIGNAL.go is there."""

    def halted() -> bool:
        Path(signal).touch()
        return not Path(f"{signal}.go").exists()

    def in_the_middle(_: object) -> None:
        while halted():
            time.sleep(0.01)

    by_operation = method == "operation"
    runner = workflow_runner(in_the_middle) if by_operation else workflow_runner()
    settings = Settings(
        home=Path(home), cache_uri=f"file://{cache}", lease_seconds=0.5,
        min_operation_bytes=0 if by_operation else 1 << 30,
        under_bandwidth=0 if by_operation else 2e6,
    )  # fmt: skip
    platform = open_platform(settings, runner=runner, actor="the worker that is killed")
    if not by_operation:
        platform.persister.sender.limiter = BandwidthLimiter(should_yield=halted)
    outcome = platform.persister.step()
    print(outcome.error if outcome else "nothing to do")


if __name__ == "__main__":
    main(*sys.argv[1:])
