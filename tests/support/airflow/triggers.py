"""What a trigger of Airflow fires with."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow.triggers.base import BaseTrigger


def first_payload(trigger: BaseTrigger) -> Any:
    """What the trigger fires with first."""

    async def first() -> Any:
        return (await anext(aiter(trigger.run()))).payload

    return asyncio.run(asyncio.wait_for(first(), 30))
