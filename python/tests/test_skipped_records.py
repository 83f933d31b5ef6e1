"""Records that a function skips, and functions that are compiled."""

import pytest

import karez as kz
from karez import data


def test_a_skipped_record_is_a_row_of_weight_zero():
    records = data.range(6).map(lambda x: data.SKIP if x in (0, 4) else int(x))
    seen = []
    doubled = records.map(lambda x: seen.append(int(x)) or x * 2)
    assert [int(x) for x in doubled] == [2, 4, 6, 10] and seen == [1, 2, 3, 5]
    assert len(doubled) == 6 and doubled[0] is data.SKIP and repr(data.SKIP) == "data.SKIP" and int(doubled[1]) == 2
    batches = [(x.tolist(), w.tolist()) for x, w in doubled.batch(4, last="pad").as_numpy()]
    assert batches == [([0, 2, 4, 6], [0, 1, 1, 1]), ([0, 10, 0, 0], [0, 1, 0, 0])]
    with pytest.raises(kz.DataError, match='batch: record 0 was skipped.* use last="pad"'):
        list(doubled.batch(3))


@pytest.mark.parametrize("parallel", [1, 3])
def test_functions_may_be_compiled(parallel):
    scale = kz.compile(lambda x: x * 2)
    assert [int(x) for x in data.range(5).map(scale, parallel)] == [0, 2, 4, 6, 8]
