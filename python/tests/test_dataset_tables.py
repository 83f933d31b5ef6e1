"""Rows of Parquet and Arrow files, as pyarrow writes them."""

import datetime
import sys

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
