"""The contract of channels, on one within a process."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from springline.spark_jobs.streaming.backpressure.channel import Channel
from tests.support.streams.channel_suite import ChannelSuite, Pipe


class TestPipe(ChannelSuite):
    """All ends are the same one."""

    @pytest.fixture
    def open_end(self) -> Callable[[Collection[str]], Channel]:
        channel = Pipe()
        return lambda stages: channel
