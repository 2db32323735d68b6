"""The best entries of a row of logits in rank order, without sorting the row.

Rank order: higher logit first; of equal logits the lower token id first. Ties therefore resolve the same way
everywhere, also where they straddle a cut. Rows hold no NaN here (the sampler turns such rows away first).
"""

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
TokenIds = npt.NDArray[np.int64]

_BLOCK = 128
_ID_MASK = np.int64(2**32 - 1)
_MAGNITUDE_MASK = np.int32(2**31 - 1)


def rank(logits: Logits, ids: TokenIds) -> TokenIds:
    """`ids` in rank order; `logits[i]` belongs to `ids[i]`."""
    # One 64-bit key per entry: the inverted order of the float in the upper half, the id in the lower. Keys are
    # unique, so that a plain (fast, unstable) sort is exact. Adding zero turns -0.0 into 0.0: they are equal.
    bits = (logits + np.float32(0)).view(np.int32)
    ascending = bits ^ ((bits >> 31) & _MAGNITUDE_MASK)  # signed integers in the order of the floats
    keys = ((~ascending).astype(np.int64) << 32) | ids
    keys.sort()
    return keys & _ID_MASK


def rank_top(row: Logits, count: int) -> TokenIds:
    """The ids of the `count` best entries of the row (shape (vocabulary_size,)) in rank order; all if it has fewer.

    Block maxima: every entry above the count-th best block maximum lies in a block whose maximum is above it too, so
    only blocks that reach it are looked into. A block is a column of the row laid out in `_BLOCK` lines (numpy takes
    the maxima of columns ten times faster than those of lines); the few entries past the last line always count in.
    """
    if count <= 0:
        return np.empty(0, dtype=np.int64)
    columns = row.size // _BLOCK
    if 2 * count >= columns:  # most blocks would be chosen
        chosen = _reaching_kth_best(row, count)
        return rank(row[chosen], chosen)[:count]
    lines = row[: columns * _BLOCK].reshape(_BLOCK, columns)
    chosen_columns = _reaching_kth_best(lines.max(axis=0), count)
    logits = np.concatenate((lines.take(chosen_columns, axis=1).reshape(-1), row[columns * _BLOCK :]))
    chosen = _reaching_kth_best(logits, count)
    return rank(logits[chosen], _ids_of(chosen, chosen_columns, columns))[:count]


def _reaching_kth_best(values: Logits, count: int) -> TokenIds:
    """Ascending indices of all values not below the `count`-th best one (more than `count` when it is tied)."""
    if count >= values.size:
        return np.arange(values.size, dtype=np.int64)
    position = values.size - count
    threshold = np.partition(values, position)[position]
    return np.flatnonzero(values >= threshold)


def _ids_of(indices: TokenIds, chosen_columns: TokenIds, columns: int) -> TokenIds:
    """Token ids of ascending indices into the chosen columns (line by line), followed by the row's tail."""
    in_lines = chosen_columns.size * _BLOCK
    split = int(np.searchsorted(indices, in_lines))
    line, column = np.divmod(indices[:split], chosen_columns.size)
    return np.concatenate((line * columns + chosen_columns[column], indices[split:] - in_lines + columns * _BLOCK))
