"""The pipelines that bench/data/throughput.py compares: their files, their functions in NumPy, and their sizes."""

import os
import tarfile
import time

import numpy as np

# name -> (what it is, whether all of its peers reach the same bound, and the target)
PIPELINES = {
    "io": ("10 ms of latency for each element, 4 at a time", 0.97),
    "cpu": ("a NumPy function of 1 ms", 0.97),
    "skewed": ("1 ms of latency, 32 ms for each 16th element, 4 at a time", 0.97),
    "bursty": ("bursts of 64 elements each 64 ms, steps of 1 ms for each element", 0.97),
    "two_sources": ("pairs of elements with 10 ms and with 1 ms of latency", 0.97),
    "tiny_batches": ("8 numbers and a label, shuffled, batches of 64", 3.0),
    "tiny_map": ("integers through `map` and `filter`, batches of 256, vectorised", 3.0),
    "tiny_calls": ("the same with one call of a Python function for each element", 3.0),
    "tiny_rows": ("8 numbers and a label, one by one", 3.0),
    "jpeg": ("JPEG files, random crop 224 x 224, flip, normalise, batches of 64", 0.97),
    "tfrecord": ("256 numbers and a label in TFRecord files, batches of 128", 1.2),
    "webdataset": ("JPEG files of 64 x 64 in tar files, batches of 64", 1.2),
    "text": ("lines, byte-pair encoding, buckets by length", 1.2),
}
TINY = [name for name in PIPELINES if name.startswith("tiny")]
LANES = 4  # elements with latency at a time; the largest number of workers of the DataLoader here
BOUNDARIES, BATCH_SIZES = [16, 32, 64], [128, 64, 32, 16]  # of buckets
BURST, STEP = 64, 1e-3
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def read_slowly(i):
    time.sleep(0.010)
    return np.full(16, i, np.float32)


def read_quickly(i):
    time.sleep(0.001)
    return np.full(16, i, np.float32)


def read_unevenly(i):
    time.sleep(0.032 if i % 16 == 15 else 0.001)
    return np.full(16, i, np.float32)


def compute(i):
    x = np.linspace(0, 1, 20_000) + i
    for _ in range(4):
        x = np.sin(x)
    return x[:16].astype(np.float32)


def bursts():
    i = 0
    while True:
        time.sleep(BURST * STEP)
        for _ in range(BURST):
            yield np.full(16, i % 1000, np.float32)
            i += 1


def tiny_arrays():
    rng = np.random.default_rng(1)
    return rng.random((100_000, 8), dtype=np.float32), rng.integers(0, 10, 100_000)


class Tokenizer:
    """Byte-pair encoding by the library `tokenizers`, which each process loads when it first encodes a line."""

    def __init__(self, path):
        self.path, self.tokenizer = path, None

    def __call__(self, line):
        if self.tokenizer is None:
            import tokenizers

            self.tokenizer = tokenizers.Tokenizer.from_file(self.path)
        return np.asarray(self.tokenizer.encode(line).ids, np.int32)

    def __getstate__(self):
        return {"path": self.path, "tokenizer": None}


def make_files(folder, jpegs=512, records=8000, samples=4000, lines=20_000):
    """Writes the files of all pipelines, if they do not exist: images/, *.tfrecord, *.tar, lines.txt, bpe.json."""
    if os.path.exists(f"{folder}/complete"):
        return
    _make_images(f"{folder}/images", jpegs)
    _make_tfrecords(folder, records)
    _make_tars(folder, samples)
    _make_text(folder, lines)
    open(f"{folder}/complete", "w").close()


def paths(folder, suffix):
    return sorted(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(suffix))


def _jpeg(height, width, seed):
    import io

    from PIL import Image

    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8))
    pixels = np.asarray(small.resize((width, height), Image.BICUBIC)).astype(np.int16)
    pixels = np.clip(pixels + rng.integers(-8, 9, pixels.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def _make_images(folder, count):
    for i in range(count):
        os.makedirs(f"{folder}/class{i % 8}", exist_ok=True)
        with open(f"{folder}/class{i % 8}/{i:05}.jpg", "wb") as file:
            file.write(_jpeg(375, 500, i))


def _make_tfrecords(folder, count, files=4):
    import tensorflow as tf

    rng = np.random.default_rng(2)
    for part in range(files):
        with tf.io.TFRecordWriter(f"{folder}/part{part}.tfrecord") as writer:
            for i in range(count // files):
                features = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=rng.random(256, dtype=np.float32))),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 10])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _make_tars(folder, count, files=4):
    import io

    def add(file, name, content):
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        file.addfile(entry, io.BytesIO(content))

    for part in range(files):
        with tarfile.open(f"{folder}/part{part}.tar", "w") as file:
            for i in range(count // files):
                add(file, f"{part}{i:05}.jpg", _jpeg(64, 64, i))
                add(file, f"{part}{i:05}.cls", str(i % 10).encode())


def _make_text(folder, count):
    import tokenizers

    rng = np.random.default_rng(3)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(3000)]
    with open(f"{folder}/lines.txt", "w") as file:
        for _ in range(count):
            file.write(" ".join(words[int(i)] for i in 3000 * rng.random(rng.integers(2, 60)) ** 3) + "\n")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=4000, special_tokens=["[UNK]"])
    tokenizer.train([f"{folder}/lines.txt"], trainer)
    tokenizer.save(f"{folder}/bpe.json")
