"""Data sets of files against Python's own readers and writers of the formats."""

import csv
import gzip
import io
import json
import os
import random
import string
import struct
import tarfile
import warnings

import numpy as np
import pytest

import karez as kz
from karez import data


def read(dataset):
    """The elements of an epoch; a second reader that starts at each position reads the rest again."""
    iterator = dataset.iterator()
    out, states = [], []
    for element in iterator.as_numpy():
        out.append(element)
        states.append(iterator.state())
    iterator.close()
    for i in random.Random(len(out)).sample(range(len(out)), min(3, len(out))):
        with dataset.iterator() as again:
            again.load_state(states[i])
            if i + 1 < len(out):
                rest = list(again.as_numpy())
                assert repr(rest) == repr(out[i + 1 :])
    return out


def packed(content, suffix):
    if suffix == ".gz":
        half = len(content) // 2
        return gzip.compress(content[:half]) + gzip.compress(content[half:])
    if suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        return zstandard.ZstdCompressor(write_checksum=True).compress(content)
    return content


suffixes = pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])


@suffixes
def test_lines_are_those_of_python(tmp_path, suffix):
    text = "one\r\ntwo\n\n\u00e4\u20ac\U0001f600\n" + "x" * 100_000 + "\nlast"
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(packed(text.encode(), suffix))
    assert read(data.from_text(path)) == [line.removesuffix("\r") for line in text.split("\n")]


@suffixes
def test_documents_are_those_of_json(tmp_path, suffix):
    random_ = random.Random(1)

    def value(depth):
        kind = random_.randrange(8 if depth < 4 else 6)
        if kind == 6:
            return [value(depth + 1) for _ in range(random_.randrange(4))]
        if kind == 7:
            return {random_.choice("abcd\u00e4\n"): value(depth + 1) for _ in range(random_.randrange(4))}
        number = random_.choice([0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 12345])
        return [None, True, False, number, random_.uniform(-1e9, 1e9), '\u20ac"\\\n\U0001f600'][kind]

    values = [value(0) for _ in range(300)]
    lines = "\n".join(json.dumps(v, ensure_ascii=bool(i % 2)) for i, v in enumerate(values))
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(packed(lines.encode(), suffix))
    got = read(data.from_jsonl(path))
    assert got == values
    assert [json.dumps(v) for v in got] == [json.dumps(v) for v in values]  # also the types


def test_fields_of_json_become_arrays(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"x": [[1, 2.5]], "s": "\u00e4", "p": [0, 255]}\n{"x": [[3, 4]], "s": "", "p": [7, 8]}\n'
    )
    rows = data.from_jsonl(tmp_path / "a.jsonl", {"x": kz.float32, "s": str, "p": np.uint8})
    (batch,) = rows.batch(2).as_numpy()
    assert batch["s"] == ["\u00e4", ""]
    assert batch["x"].dtype == np.float32 and batch["x"].tolist() == [[[1, 2.5]], [[3, 4]]]
    assert batch["p"].dtype == np.uint8 and batch["p"].tolist() == [[0, 255], [7, 8]]


@suffixes
@pytest.mark.parametrize("terminator", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_are_those_of_csv(tmp_path, suffix, terminator, delimiter):
    random_ = random.Random(2)
    # Python writes a lone \r without quotes if it is not part of the terminator, and reads it as the end of a row.
    letters = "ab ,;\t\"\n'\u00e4" + ("\r" if "\r" in terminator else "")

    def field():
        return "".join(random_.choice(letters) for _ in range(random_.randrange(6)))

    rows = [[field() for _ in range(3)] for _ in range(400)]
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=terminator)
    writer.writerow(["a", "b", "c"])
    writer.writerows(rows)
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(packed(out.getvalue().encode(), suffix))
    got = read(data.from_csv(path, delimiter=delimiter))
    assert [list(row.values()) for row in got] == list(
        csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=delimiter)
    )[1:]
    assert [list(row.values()) for row in got] == rows
    assert set(map(tuple, got)) == {("a", "b", "c")}


def test_columns_of_csv_have_dtypes(tmp_path):
    numbers = np.random.default_rng(3).standard_normal(50).astype(np.float32)
    integers = np.random.default_rng(4).integers(-(2**62), 2**62, 50)
    lines = [f"{x!r},{i},name {i},{'' if i % 2 else 7}" for x, i in zip(numbers.tolist(), integers.tolist())]
    (tmp_path / "a.csv").write_text("x,i,name,gap\n" + "\n".join(lines))
    columns = {"i": kz.int64, "x": "float32", "name": str, "gap": np.int32}
    rows = data.from_csv(tmp_path / "a.csv", columns, missing={"gap": -1})
    (batch,) = rows.batch(50).as_numpy()
    assert list(batch) == ["i", "x", "name", "gap"]
    np.testing.assert_array_equal(batch["x"], numbers)
    np.testing.assert_array_equal(batch["i"], integers)
    np.testing.assert_array_equal(batch["gap"], np.where(integers % 2, -1, 7))
    assert batch["name"] == [f"name {i}" for i in integers]
    assert [list(row) for row in data.from_csv(tmp_path / "a.csv", ["name", "x"]).take(1)] == [["name", "x"]]


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(content):
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(records):
    out = b""
    for record in records:
        length = struct.pack("<Q", len(record))
        out += length + masked(length) + record + masked(record)
    return out


@suffixes
def test_tfrecords_are_those_of_an_independent_writer(tmp_path, suffix):
    records = [b"", b"one", bytes(range(256)), os.urandom(3000)]
    (tmp_path / f"a{suffix}").write_bytes(packed(tfrecord(records), suffix))
    assert read(data.from_tfrecord(tmp_path / f"a{suffix}")) == records


def message(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number):
    out = b""
    number &= 2**64 - 1
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def example(**features):
    """A serialised tf.train.Example, in the order of the arguments."""
    content = b""
    for name, value in features.items():
        if isinstance(value, list):
            feature = message(1, b"".join(message(1, item) for item in value))
        elif value.dtype == np.float32:
            feature = message(2, message(1, value.tobytes()))
        else:
            feature = message(3, message(1, b"".join(varint(int(item)) for item in value)))
        content += message(1, message(1, name.encode()) + message(2, feature))
    return message(1, content)


def test_examples_become_dicts_of_arrays(tmp_path):
    features = [
        {"z": np.float32([1, -2.5]), "label": np.int64([i, -1]), "image": [os.urandom(10), b""]} for i in range(20)
    ]
    (tmp_path / "a").write_bytes(tfrecord([example(**f) for f in features]))
    got = read(data.from_tfrecord(tmp_path / "a", examples=True))
    assert list(got[0]) == ["image", "label", "z"]
    for a, b in zip(got, features):
        assert a["image"] == b["image"]
        assert a["label"].dtype == np.int64 and a["z"].dtype == np.float32
        np.testing.assert_array_equal(a["label"], b["label"])
        np.testing.assert_array_equal(a["z"], b["z"])
    one = data.parse_example(example(**features[3]))
    assert one["label"].tolist() == [3, -1]
    with pytest.raises(kz.DataError, match="not a tf.train.Example"):
        data.parse_example(b"\xff")


def tar(files, **options):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


@suffixes
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_are_those_of_tarfile(tmp_path, suffix, format):
    files = []
    for i in range(30):
        folder = "d" * (i * (3 if format == tarfile.USTAR_FORMAT else 9) + 1)
        files += [
            (f"{folder}/{i}.jpg", os.urandom(i * 100)),
            (f"{folder}/{i}.seg.png", b"x"),
            (f"{folder}/{i}.cls", b"%d" % i),
        ]
    files.append(("\u00e4/\u20ac.txt", "\u00e4".encode()))
    (tmp_path / f"a.tar{suffix}").write_bytes(packed(tar(files, format=format), suffix))
    expected = {}
    for name, content in files:
        folder, base = name.rsplit("/", 1)
        key, extension = base.split(".", 1)
        expected.setdefault(f"{folder}/{key}", {})[extension] = content
    got = read(data.from_webdataset(tmp_path / f"a.tar{suffix}"))
    assert {sample.pop("__key__"): sample for sample in got} == expected


def test_links_and_names_outside_of_the_folder_are_errors(tmp_path):
    link = tarfile.TarInfo("2.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("1.txt"))
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("../3.txt"))
        archive.addfile(tarfile.TarInfo("4.txt"))
    with pytest.raises(kz.DataError, match='record 1 at byte 512: the entry "2.txt" is a link'):
        list(data.from_webdataset(tmp_path / "a.tar"))
    with pytest.warns(
        RuntimeWarning, match='from_webdataset: 2 damaged records .* the first error: .*"2.txt" is a link'
    ):
        samples = list(data.from_webdataset(tmp_path / "a.tar", on_error="skip"))
    assert [sample["__key__"] for sample in samples] == ["1", "4"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(5,), (3, 2), (4, 0), (0, 3), (2, 3, 5)])
def test_rows_are_those_of_numpy(tmp_path, dtype, shape):
    array = (np.random.default_rng(5).standard_normal(shape) * 50).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    (tmp_path / "b.npy.gz").write_bytes(gzip.compress((tmp_path / "a.npy").read_bytes()))
    np.savez(tmp_path / "c.npz", a=array, b=array[..., None])
    np.savez_compressed(tmp_path / "d.npz", a=array, b=array[..., None])
    by_index = data.from_npy(tmp_path / "a.npy")
    assert len(by_index) == len(array)
    for got in (read(by_index), read(data.from_npy(tmp_path / "b.npy.gz"))):
        assert len(got) == len(array) and all(x.dtype == array.dtype for x in got)
        assert all(np.array_equal(x, y, equal_nan=dtype.startswith("f")) for x, y in zip(got, array))
    for name in ("c", "d"):
        got = read(data.from_npz(tmp_path / f"{name}.npz"))
        assert len(got) == len(array)
        for x, y in zip(got, array):
            assert list(x) == ["a", "b"] and x["a"].dtype == array.dtype and x["b"].shape == y.shape + (1,)
            np.testing.assert_array_equal(x["a"], y)
            np.testing.assert_array_equal(x["b"][..., 0], y)


def test_arrays_of_npz_files_must_fit(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(3), b=np.zeros(2))
    with pytest.raises(kz.DataError, match="all arrays must have the same number of rows, but a has 3, and b has 2"):
        list(data.from_npz(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", a=np.asfortranarray(np.zeros((3, 2))))
    with pytest.raises(kz.DataError, match="b.npz: a.npy: the array is stored in Fortran order"):
        list(data.from_npz(tmp_path / "b.npz"))
    np.savez(tmp_path / "c.npz")
    with pytest.raises(kz.DataError, match="c.npz"):
        list(data.from_npz(tmp_path / "c.npz"))
    np.savez_compressed(tmp_path / "d.npz", a=np.arange(1000))
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[200] ^= 1
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(kz.DataError, match="d.npz"):
        list(data.from_npz(tmp_path / "d.npz"))


def test_skipped_records_are_reported_once_at_the_end_of_an_epoch(tmp_path):
    (tmp_path / "a.jsonl").write_text('1\n{\n2\n"\n3\n')
    rows = data.from_jsonl(tmp_path / "a.jsonl", on_error="skip")
    message = "from_jsonl: 2 damaged records or files were skipped; the first error: .*a.jsonl: line 2 at byte 2: "
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=message) as warned:
            assert list(rows.as_numpy()) == [1, 2, 3]
        assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rows.iterator() as iterator:
            assert next(iter(iterator)) == 1


def test_an_error_ends_the_loop_after_the_records_before_it(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n\xff\nfour\n")
    got = []
    with pytest.raises(
        kz.DataError, match=r"a.txt: line 3 at byte 8: the text is not UTF-8: invalid byte 0xff at byte 8"
    ):
        for line in data.from_text(tmp_path / "a.txt").as_numpy():
            got.append(line)
    assert got == ["one", "two"]


def test_each_rank_or_thread_reads_files_of_its_own(tmp_path):
    for name in string.ascii_lowercase[:5]:
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    files = data.list_files(tmp_path / "*")
    assert [os.path.basename(path) for path in files] == list("abcde")
    for parallel in (False, True):
        part = files.shard(2, 1).interleave(data.from_text, cycle=2, parallel=parallel)
        assert read(part) == ["b1", "d1", "b2", "d2"]


def test_streams_go_through_other_stages_and_two_iterators_at_the_same_time(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(map(str, range(100))))
    lines = data.from_text(tmp_path / "a.txt").shuffle(buffer=10, seed=3).map(int, parallel=2).batch(8)
    first, second = lines.as_numpy(), lines.iterator().as_numpy()
    a = [next(first).tolist(), next(first).tolist()]
    b = [next(second).tolist(), next(second).tolist(), next(second).tolist()]
    assert a == b[:2]
    assert sorted(x for batch in lines.as_numpy() for x in batch.tolist()) == list(range(100))


def test_bad_arguments_are_errors(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(kz.UserError, match="from_text: on_error must be 'raise' or 'skip', got 'ignore'"):
        data.from_text(tmp_path / "a", on_error="ignore")
    with pytest.raises(kz.DataError, match="from_text: no file matches"):
        data.from_text(tmp_path / "*.txt")
    with pytest.raises(kz.DataError, match="from_tfrecord: cannot read .*: No such file"):
        data.from_tfrecord(tmp_path / "none")
    with pytest.raises(kz.TypeError, match="from_text: expected a path or a list of paths, got int"):
        data.from_text(3)
    with pytest.raises(kz.TypeError, match="from_npy: expected a path, got bytes"):
        data.from_npy([b"a"])
    with pytest.raises(kz.TypeError, match="from_csv: 'x' must have a dtype or the type str, got 'text'"):
        data.from_csv(tmp_path / "a", {"x": "text"})
    with pytest.raises(kz.UserError, match="from_csv: missing has a value for 'y', which is not in columns"):
        data.from_csv(tmp_path / "a", {"x": "int32"}, missing={"y": 1})
    with pytest.raises(kz.UserError, match="from_csv: the delimiter must be one ASCII character, got"):
        data.from_csv(tmp_path / "a", delimiter="::")
    with pytest.raises(kz.UserError, match="max_record_bytes must be at least 1, got 0"):
        data.from_text(tmp_path / "a", max_record_bytes=0)


def test_a_file_that_unpacks_to_more_than_the_limit_is_an_error(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"x\n" * 1_000_000))
    with pytest.raises(kz.DataError, match="a.txt.gz: the file has more than 100000 bytes, the limit max_file_bytes"):
        list(data.from_text(tmp_path / "a.txt.gz", max_file_bytes=100_000))
