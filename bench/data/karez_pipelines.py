"""The pipelines of bench/data/throughput.py as data sets of Karez."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "python"))

import numpy as np  # noqa: E402
import pipelines as p  # noqa: E402

import karez  # noqa: E402, F401
from karez import data  # noqa: E402

CORES = len(os.sched_getaffinity(0))
ENDLESS = 1 << 40


def latency(f, lanes):
    return data.range(ENDLESS).map(f, lanes, processes=False)


def make(name, folder, parallel):
    """The iterable of a pipeline, and the number of elements in one of its items, or a function of the item.

    parallel: "" for numbers chosen by hand, or "auto".
    """
    lanes, cores, slots, ahead = (parallel,) * 4 if parallel else (p.LANES, CORES, 4, 64)
    if name == "io":
        dataset, count = latency(p.read_slowly, lanes).batch(16), 16
    elif name == "cpu":
        dataset, count = data.range(ENDLESS).map(p.compute, cores, processes=False).batch(16), 16
    elif name == "skewed":
        dataset, count = latency(p.read_unevenly, lanes).prefetch(ahead).batch(16), 16
    elif name == "bursty":
        dataset, count = data.from_generator(p.bursts).batch(16).prefetch(slots), 16
    elif name == "two_sources":
        pair = data.zip(latency(p.read_slowly, lanes), latency(p.read_quickly, lanes))
        dataset, count = pair.batch(16), 16
    elif name == "tiny_batches":
        dataset, count = data.from_arrays(*p.tiny_arrays()).shuffle(seed=1).repeat().batch(64).prefetch(slots), 64
    elif name == "tiny_map":
        numbers = data.range(ENDLESS).batch(256).map(lambda x: x * 2).map(lambda x: x[x % 3 > 0])
        dataset, count = numbers.unbatch().batch(256).prefetch(slots), 256
    elif name == "tiny_calls":
        numbers = data.range(ENDLESS).map(lambda x: x * 2).filter(lambda x: x % 3 > 0)
        dataset, count = numbers.batch(256).prefetch(slots), 256
    elif name == "tiny_rows":
        dataset, count = data.from_arrays(*p.tiny_arrays()).repeat().prefetch(ahead), 1
    elif name == "jpeg":
        dataset = (
            data.from_image_folder(f"{folder}/images", decode=False)
            .shuffle(seed=1)
            .repeat()
            .map(data.images.decode(channels=3))
            .map(data.images.random_resized_crop(224), seed=2)
            .map(data.images.random_horizontal_flip(), seed=3)
            .map(data.images.normalize(p.MEAN, p.DEVIATION), cores)
            .batch(64)
        )
        count = 64
    elif name == "tfrecord":
        dataset, count = data.from_tfrecord(p.paths(folder, ".tfrecord"), examples=True).repeat().batch(128), 128
    elif name == "webdataset":
        dataset = (
            data.from_webdataset(p.paths(folder, ".tar"))
            .map(lambda sample: (np.frombuffer(sample["jpg"], np.uint8), int(sample["cls"])))
            .map(data.images.decode(channels=3), cores)
            .repeat()
            .batch(64)
        )
        count = 64
    elif name == "text":
        dataset = (
            data.from_text(f"{folder}/lines.txt")
            .repeat()
            .map(p.Tokenizer(f"{folder}/bpe.json"), cores)
            .bucket_by_length(len, p.BOUNDARIES, p.BATCH_SIZES)
        )
        count = len
    return dataset.iterator(), count
