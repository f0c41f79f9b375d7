"""Orders and items to try joins on."""

from __future__ import annotations

from collections import Counter

from springline.spark_jobs.streaming.examples.orders import ORDERS, item_messages, order_messages


def test_they_are_the_same_each_time_and_some_orders_have_far_more_items() -> None:
    """Each order has its key in its turn; items are of orders that there are."""
    orders = b"\n".join(order_messages(rows=250, size=100)).decode().splitlines()
    assert [int(line.split(",")[0]) for line in orders] == list(range(250))
    items = list(item_messages(rows=20_000, size=1_000))
    assert items == list(item_messages(rows=20_000, size=1_000))
    keys = Counter(int(line.split(",")[0]) for message in items for line in message.decode().splitlines())
    assert max(keys) < ORDERS
    assert keys[0] > 1_000 > 10 * keys[1_000]


def test_the_last_message_may_be_smaller() -> None:
    """There are as many rows as were asked for."""
    assert [len(message.splitlines()) for message in item_messages(rows=25, size=10)] == [10, 10, 5]
    assert [len(message.splitlines()) for message in order_messages(rows=25, size=10)] == [10, 10, 5]
