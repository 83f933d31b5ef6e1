"""Counts of records that are skipped because of errors: one warning at the end of each epoch."""

import re
import warnings

import numpy as np
import pytest
from test_dataset_ranks import records, run

from karez import data
from karez.data import images

GOOD = images.encode_png(np.full((4, 4, 3), 7, np.uint8))


def warned(read):
    """The texts of the warnings of a call, and its result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = read()
    return [str(warning.message) for warning in caught], result


def files(count, *damaged):
    return data.from_source([b"damaged" if i in damaged else GOOD for i in range(count)])


def read(dataset):
    return len(list(dataset.as_numpy()))


DECODE = images.decode(on_error="skip")
FIRST = "decode: 3 damaged records or files were skipped; the first error: the image of record 2: expected a JPEG"


@pytest.mark.parametrize("parallel", [1, 3])
def test_damaged_images_are_counted_in_each_epoch(parallel):
    dataset = files(20, 2, 5, 19).map(DECODE, parallel=parallel)
    for _ in range(2):
        (text,), count = warned(lambda: read(dataset))
        assert count == 17 and text.startswith("decode: 3 damaged") and "the image of record" in text
        if parallel == 1:
            assert text.startswith(FIRST)
    assert warned(lambda: read(files(4).map(DECODE))) == ([], 4)


def test_counts_of_batches_and_of_other_stages_are_one_warning():
    dataset = files(20, 2, 5, 19).map(DECODE, parallel=2).map(images.resize(2)).batch(4, last="pad")
    texts, count = warned(lambda: read(dataset))
    assert count == 5 and len(texts) == 1 and texts[0].startswith("decode: 3 ")
    both = data.concat(files(3, 1).map(DECODE), files(3, 0).map(images.decode(channels=1, on_error="skip")))
    texts, count = warned(lambda: read(both))
    assert count == 4 and [text[:11] for text in texts] == ["decode: 2 d"]


def test_an_epoch_that_is_not_read_to_its_end_does_not_count_in_the_next():
    iterator = files(20, 0, 1, 12).map(DECODE).iterator(slots=1)
    position = iterator.state()

    def restarted():
        next(iter(iterator))
        iterator.load_state(position)
        return len(list(iterator))

    texts, count = warned(restarted)
    assert count == 17 and [text[:9] for text in texts] == ["decode: 3"]


def test_iterators_at_the_same_time_have_counts_of_their_own():
    dataset = files(6, 1, 4).map(DECODE, parallel=2)
    first, second = dataset.iterator(), dataset.iterator()

    def both():
        for _ in zip(first, second):
            pass
        list(second)

    texts, _ = warned(both)
    assert texts and all(text.startswith("decode: 2 ") for text in texts)


def test_an_element_outside_of_a_stream_is_reported_at_once():
    dataset = files(6, 1, 4).map(DECODE)
    texts, element = warned(lambda: dataset[4])
    assert element is data.SKIP and texts[0].startswith("decode: 1 damaged")
    texts, element = warned(lambda: DECODE(b"damaged"))
    assert element is data.SKIP and texts[0].startswith("decode: 1 damaged")
    assert warned(lambda: dataset[0])[0] == []


def test_records_that_worker_processes_skip_are_counted():
    decode = images.decode(on_error="skip")

    def function(file):
        image = decode(file)
        return image if image is data.SKIP else image[0, 0]

    dataset = files(12, 3, 4, 9).map(function, parallel=2, processes=True)
    for _ in range(2):
        (text,), count = warned(lambda: read(dataset))
        assert count == 9 and text.startswith("decode: 3 damaged") and "expected a JPEG, PNG or WebP image" in text
    # The function does not skip the record, so it is not counted.
    texts, count = warned(lambda: read(files(3, 1).map(lambda file: decode(file) is data.SKIP, processes=True)))
    assert texts == [] and count == 3


def test_files_of_one_format_are_counted_together(tmp_path):
    for name in "abcd":
        (tmp_path / f"{name}.txt").write_bytes(f"{name}1\n".encode() + b"\xff\n" + f"{name}2\n".encode())
    paths = data.list_files(str(tmp_path / "*.txt"))

    def lines(path):
        return data.from_text(path, on_error="skip")

    for dataset in (
        paths.interleave(lines, cycle=2),
        paths.interleave(lines, cycle=3, parallel=True),
        paths.flat_map(lines),
        data.concat(lines(str(tmp_path / "[ab].txt")), lines(str(tmp_path / "[cd].txt"))),
    ):
        texts, count = warned(lambda dataset=dataset: read(dataset))
        assert count == 8 and len(texts) == 1
        assert re.match(r"from_text: 4 damaged records or files were skipped; the first error: .*[abcd].txt", texts[0])


def test_a_folder_of_images_is_counted(tmp_path):
    (tmp_path / "a").mkdir()
    for i in range(5):
        (tmp_path / "a" / f"{i}.png").write_bytes(GOOD if i % 2 else GOOD[:30])
    dataset = data.from_image_folder(tmp_path, on_error="skip").batch(2, last="pad")
    (text,), count = warned(lambda: read(dataset))
    assert count == 3 and text.startswith("from_image_folder: 3 damaged") and "a/0.png" in text


def test_a_warning_that_is_an_error_leaves_the_loop():
    dataset = files(3, 1).map(DECODE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="decode: 1 damaged"):
            read(dataset)
    assert warned(lambda: read(dataset))[1] == 2


# Each rank reads its rows of batches, of which some are damaged.
RANKS = """
import warnings
from karez.data import images
good = images.encode_png(np.full((4, 4, 3), 7, np.uint8))
files = data.from_source([b"damaged" if i in (1, 6, 13) else good for i in range(16)])
batches = files.map(images.decode(on_error="skip"), parallel=2).batch(4, last="pad")
if sys.argv[1] == "shards":
    batches = files.shard(kz.ranks(), kz.rank()).map(images.decode(on_error="skip")).batch(2, last="pad")
step = kz.compile(lambda x, w: (x.float().sum((1, 2, 3)) * w).sum(), mesh=kz.Mesh(data=kz.ranks()))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    total = sum((w.numpy().sum() if sys.argv[1] == "shards" else step(x, w)).item() for x, w in batches)
texts = [str(warning.message) for warning in caught if "skipped" in str(warning.message)]
print("record " + json.dumps({"rank": kz.rank(), "texts": texts, "total": total}))
"""


@pytest.mark.parametrize("kind", ["rows", "shards"])
def test_each_rank_reports_the_records_that_it_has_read(kind):
    found = records(run(RANKS, 2, kind))
    counts = []
    for rank in range(2):
        (record,) = found[rank]
        (text,) = record["texts"]
        counts.append(int(re.match(r"decode: (\d) damaged", text).group(1)))
        assert record["total"] == (13 * 48 * 7 if kind == "rows" else (7, 6)[rank])
    assert counts == [1, 2] if kind == "shards" else sum(counts) >= 3 and max(counts) <= 3
