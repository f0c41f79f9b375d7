"""The step: reports each number that is greater than all numbers of its unit before it."""

import pyarrow as pa

from springline.stream_kinds import DeadLetter, Input, Output, State


class Records:
    """Reads a number from each message; a message without a number goes to the dead-letter queue."""

    def __init__(self, least: float) -> None:
        self._least = least

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        record, records, dead = state.scalars.get("record", self._least), [], []
        for message in step_input.messages:
            try:
                number = float(bytes(message.value))
            except ValueError as error:
                dead.append(DeadLetter.of(message, str(error)))
                continue
            if number > record:
                record = number
                records.append({"partition": message.partition, "offset": message.offset, "record": number})
        results = [pa.RecordBatch.from_pylist(records)] if records else []
        return Output(State({"record": record}), results=results, dead_letters=dead, counts={"records": len(records)})
