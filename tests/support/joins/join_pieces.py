"""What a piece means, in plain numpy: what the loops of stores are held against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of, part_of
from springline.spark_jobs.streaming.join.wire import SEQ_HASHES, StateMigration


def mask_of(piece: StateMigration, keys: npt.NDArray[np.int64], seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of some tuples of its side a piece means."""
    mask = (keys >= piece.keys[0]) & (keys <= piece.keys[1]) & (seqs >= piece.seqs[0]) & (seqs <= piece.seqs[1])
    if piece.buckets:
        named = np.zeros(BUCKETS, np.bool_)
        named[list(piece.buckets)] = True
        mask &= named[bucket_of(keys, piece.block)]
    if piece.excluded_keys:
        mask &= ~np.isin(keys, np.array(piece.excluded_keys, np.int64))
    if piece.part != (0, SEQ_HASHES):
        parts = part_of(seqs, piece.salt)
        mask &= (parts >= piece.part[0]) & (parts < piece.part[1])
    return mask
