"""The step that tells whenever a unit has seen a greater number than ever before."""

import pyarrow as pa

from springline.stream_kinds import DeadLetter, Input, Output, State


class Records:
    """Messages are numbers, one each; what is none goes to the dead letters."""

    def __init__(self, least: float) -> None:
        self._least = least

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        record, records, dead = state.scalars.get("record", self._least), [], []
        for message in given.messages:
            try:
                number = float(bytes(message.value))
            except ValueError as error:
                dead.append(DeadLetter(message.offset, bytes(message.value), str(error)))
                continue
            if number > record:
                record = number
                records.append({"unit": given.unit, "offset": message.offset, "record": number})
        results = [pa.RecordBatch.from_pylist(records)] if records else []
        return Output(State({"record": record}), results=results, dead_letters=dead, counts={"records": len(records)})
