"""Rows of Parquet and Arrow files, as pyarrow writes them."""

import datetime
import sys
import warnings

import numpy as np
import pytest

import karez as kz
from karez import data

pyarrow = pytest.importorskip("pyarrow")


def table(rows, first=0):
    numbers = np.arange(first, first + rows)
    return pyarrow.table(
        {
            "i": numbers.astype(np.int64),
            "x": (numbers / 2).astype(np.float32),
            "flag": numbers % 2 == 0,
            "text": [f"\u00e4{n}" for n in numbers],
            "bytes": [bytes([n % 256]) for n in numbers],
            "list": [np.arange(n % 3, dtype=np.float32) for n in numbers],
            "gap": pyarrow.array([None if n % 3 == 0 else int(n) for n in numbers], pyarrow.int64()),
            "nan": pyarrow.array([None if n % 3 == 0 else float(n) for n in numbers], pyarrow.float64()),
            "day": [datetime.date(2020, 1, 1 + int(n) % 28) for n in numbers],
            "u": (numbers % 256).astype(np.uint8),
        }
    )


def write_parquet(one, path, group):
    import pyarrow.parquet

    pyarrow.parquet.write_table(one, path, row_group_size=group)


def write_file(one, path, group):
    with pyarrow.ipc.new_file(str(path), one.schema) as out:
        for batch in one.to_batches(max_chunksize=group):
            out.write_batch(batch)


def write_stream(one, path, group):
    with pyarrow.ipc.new_stream(str(path), one.schema) as out:
        for batch in one.to_batches(max_chunksize=group):
            out.write_batch(batch)


kinds = pytest.mark.parametrize(
    "write, source",
    [(write_parquet, data.from_parquet), (write_file, data.from_arrow), (write_stream, data.from_arrow)],
    ids=["parquet", "file", "stream"],
)


def check(got, first=0):
    for n, row in enumerate(got, first):
        assert list(row) == table(0).column_names
        assert row["i"] == n and row["i"].dtype == np.int64
        assert row["x"] == n / 2 and row["x"].dtype == np.float32
        assert bool(row["flag"]) == (n % 2 == 0)
        assert row["text"] == f"\u00e4{n}" and row["bytes"] == bytes([n % 256])
        assert row["list"].dtype == np.float32 and row["list"].tolist() == list(range(n % 3))
        assert (row["gap"] is None) if n % 3 == 0 else (row["gap"] == n)
        assert np.isnan(row["nan"]) if n % 3 == 0 else row["nan"] == n
        assert row["day"] == datetime.date(2020, 1, 1 + n % 28)
        assert row["u"] == n % 256 and row["u"].dtype == np.uint8


@kinds
@pytest.mark.parametrize("group", [1, 7, 5000])
def test_rows_are_dicts_of_columns(tmp_path, write, source, group):
    rows = 40 if group < 10 else 3000
    write(table(rows), tmp_path / "a", group)
    write(table(0), tmp_path / "b", group)
    write(table(10, rows), tmp_path / "c", group)
    got = list(source(tmp_path / "[abc]").as_numpy())
    assert len(got) == rows + 10
    check(got)


@kinds
def test_a_position_does_not_read_earlier_groups_again(tmp_path, write, source):
    write(table(100), tmp_path / "a", 8)
    write(table(20, 100), tmp_path / "b", 8)
    rows = source([tmp_path / "a", tmp_path / "b"])
    iterator = rows.iterator()
    loop = iterator.as_numpy()
    for n in range(115):
        next(loop)
        if n in (0, 6, 7, 8, 50, 99, 100, 114):
            with rows.iterator() as again:
                again.load_state(iterator.state())
                rest = list(again.as_numpy())
            assert len(rest) == 119 - n
            check(rest, n + 1)
    iterator.close()


@kinds
def test_columns_are_selected(tmp_path, write, source):
    write(table(5), tmp_path / "a", 8)
    batch = next(source(tmp_path / "a", ["text", "x"]).batch(5).as_numpy())
    assert sorted(batch) == ["text", "x"] and batch["x"].tolist() == [0, 0.5, 1, 1.5, 2]
    with pytest.raises(kz.DataError, match="there is no column 'z'; the columns are 'i', 'x',"):
        list(source(tmp_path / "a", ["z"]))


@kinds
def test_damaged_files_are_errors_that_name_the_file(tmp_path, write, source):
    write(table(50), tmp_path / "a", 8)
    content = (tmp_path / "a").read_bytes()
    for cut in (0, 3, 10, len(content) // 2):
        (tmp_path / "b").write_bytes(content[:cut])
        with pytest.raises(kz.DataError, match=f"{tmp_path}/b: "):
            list(source(tmp_path / "b"))
    with pytest.raises(kz.DataError, match="no file matches"):
        source(tmp_path / "*.none")
    with pytest.raises(kz.DataError, match="cannot read .*: No such file"):
        source(tmp_path / "none")


def read_with_warnings(dataset):
    """The first items of the rows, and the texts of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        numbers = [int(row["i"]) for row in dataset.as_numpy()]
    return numbers, [str(warning.message) for warning in caught]


@kinds
def test_damaged_files_are_skipped_and_counted(tmp_path, write, source):
    for name, first in (("a", 0), ("b", 10), ("c", 20)):
        write(table(10, first), tmp_path / name, 4)
    (tmp_path / "b").write_bytes((tmp_path / "b").read_bytes()[:50])
    (tmp_path / "d").write_bytes(b"")
    name = source.__name__
    dataset = source(str(tmp_path / "*"), on_error="skip")
    for _ in range(2):
        numbers, texts = read_with_warnings(dataset)
        assert numbers == [*range(10), *range(20, 30)]
        (text,) = texts
        assert text.startswith(f"{name}: 2 damaged records or files were skipped; the first error: {tmp_path}/b: ")
    assert "on_error=skip" in repr(dataset)
    with pytest.raises(kz.UserError, match=f"{name}: on_error must be 'raise' or 'skip', got 'ignore'"):
        source(str(tmp_path / "a"), on_error="ignore")
    with pytest.raises(kz.DataError, match="there is no column 'none'"):
        list(source(str(tmp_path / "a"), ["none"]))
    assert read_with_warnings(source(str(tmp_path / "a"), ["none"], on_error="skip"))[0] == []


def test_the_other_row_groups_of_a_damaged_file_are_read(tmp_path):
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"i": np.arange(4000) % 3000}), path, row_group_size=1000)
    group = pyarrow.parquet.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    begin = group.dictionary_page_offset or group.data_page_offset
    content[begin : begin + group.total_compressed_size] = bytes(group.total_compressed_size)
    path.write_bytes(content)
    numbers, (text,) = read_with_warnings(data.from_parquet(path, on_error="skip"))
    assert numbers == [n % 3000 for n in (*range(1000), *range(2000, 4000))]
    assert "1 damaged" in text and "of row group 1: " in text
    with pytest.raises(kz.DataError, match="a.parquet: record 0 of row group 1: "):
        list(data.from_parquet(path))


@kinds
def test_long_records_and_files_are_errors_or_skipped(tmp_path, write, source):
    path = tmp_path / "a"
    rows = pyarrow.table({"i": np.arange(6), "text": ["a" * (5000 if n == 3 else 5) for n in range(6)]})
    write(rows, path, 6)
    with pytest.raises(
        kz.DataError, match=r"record 3 of row group 0: the record must have at most 1000 bytes .*, got 50"
    ):
        list(source(path, max_record_bytes=1000))
    numbers, (text,) = read_with_warnings(source(path, max_record_bytes=1000, on_error="skip"))
    assert numbers == [0, 1, 2, 4, 5] and "1 damaged" in text
    assert read_with_warnings(source(path, max_record_bytes=10_000)) == ([0, 1, 2, 3, 4, 5], [])
    with pytest.raises(kz.DataError, match=r"a: the file must have at most 1000 bytes \(max_file_bytes\), got "):
        list(source(path, max_file_bytes=1000))
    numbers, (text,) = read_with_warnings(source([path, path], max_file_bytes=1000, on_error="skip"))
    assert numbers == [] and "2 damaged" in text
    assert read_with_warnings(source(path, max_file_bytes=100_000))[0] == [0, 1, 2, 3, 4, 5]
    for options in ({"max_record_bytes": 0}, {"max_file_bytes": -1}):
        with pytest.raises(kz.UserError, match=f"{source.__name__}: {next(iter(options))} must be at least"):
            source(path, **options)


def test_the_size_of_records_is_checked_before_they_are_read(tmp_path):
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a" * 100_000, "b" * 100_000]}), path, use_dictionary=False)
    with pytest.raises(kz.DataError, match=r"at most 5000 bytes \(max_record_bytes\), got 1000\d\d"):
        list(data.from_parquet(path, max_record_bytes=5000))


def test_a_compressed_arrow_file_is_measured_unpacked(tmp_path):
    rows = pyarrow.table({"i": np.zeros(100_000, np.int64)})
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_file(str(tmp_path / "a"), rows.schema, options=options) as out:
        for batch in rows.to_batches(max_chunksize=10_000):
            out.write_batch(batch)
    assert (tmp_path / "a").stat().st_size < 20_000
    numbers, (text,) = read_with_warnings(data.from_arrow(tmp_path / "a", max_file_bytes=200_000, on_error="skip"))
    assert len(numbers) == 20_000 and "1 damaged" in text


@kinds
def test_positions_count_skipped_records(tmp_path, write, source):
    rows = pyarrow.table({"i": np.arange(8), "text": ["a" * (5000 if n in (1, 6) else 5) for n in range(8)]})
    write(rows, tmp_path / "a", 4)
    dataset = source(tmp_path / "a", max_record_bytes=1000, on_error="skip")
    iterator = dataset.iterator()
    loop = iter(iterator)
    assert [int(next(loop)["i"].item()) for _ in range(3)] == [0, 2, 3]
    resumed = dataset.iterator()
    resumed.load_state(iterator.state())
    with pytest.warns(RuntimeWarning, match="2 damaged records or files were skipped; the first error: "):
        assert [int(row["i"].item()) for row in resumed] == [4, 5, 7]


def test_remote_tables_are_read(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    write_parquet(table(30), tmp_path / "a", 8)
    fsspec.filesystem("memory").pipe("/t/a.parquet", (tmp_path / "a").read_bytes())
    try:
        check(list(data.from_parquet("memory://t/*.parquet").as_numpy()))
    finally:
        fsspec.filesystem("memory").store.clear()


def test_without_pyarrow_an_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(kz.UserError, match="from_parquet needs the package pyarrow: pip install pyarrow"):
        data.from_parquet(tmp_path / "a")


def test_importing_karez_imports_neither_package():
    import subprocess

    program = "import sys, karez; sys.exit(any(name in sys.modules for name in ('pyarrow', 'fsspec')))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
