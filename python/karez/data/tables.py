"""Data sets of the rows of Parquet and Arrow files, read by pyarrow, which is imported only for them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy

from .. import _core
from ..errors import DataError, UserError
from .dataset import Dataset
from .formats import Path, Paths, path_list
from .iterable_reader import IterableReader
from .remote_files import expand_url, is_url, open_file

__all__ = ["from_arrow", "from_parquet"]

_ROWS = 1024  # converted at a time


def from_parquet(paths: Paths, columns: Optional[Sequence[str]] = None) -> Dataset:
    """The rows of Parquet files as dicts of columns. Numbers and lists of numbers are arrays; all other values are
    Python objects, and a missing value is None, or NaN among floating-point numbers. Needs the package pyarrow.

    columns: the names of the columns; by default all.
    """
    return _dataset("from_parquet", _ParquetFile, paths, columns)


def from_arrow(paths: Paths, columns: Optional[Sequence[str]] = None) -> Dataset:
    """The rows of files in Arrow's IPC format (also named Feather), of both kinds, file and stream; as from_parquet."""
    return _dataset("from_arrow", _ArrowFile, paths, columns)


def _dataset(function: str, kind: Any, paths: Paths, columns: Optional[Sequence[str]]) -> Dataset:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UserError(f"{function} needs the package pyarrow: pip install pyarrow") from None
    files = [file for item in path_list(function, paths) for file in _expand(function, item)]
    if not files:
        raise UserError(f"{function}: at least one path or pattern is needed")
    rows = _Rows(kind, files, None if columns is None else list(columns))
    return Dataset(
        _core.generator_dataset(lambda epoch: IterableReader(rows), f"{function}, {len(files)} files", False)
    )


def _expand(function: str, path: Path) -> list[str]:
    """The files that a path, a pattern or a URL stands for."""
    if is_url(path):
        return expand_url(function, path)
    text = os.fspath(path)
    if any(letter in text for letter in "*?[") and not os.path.exists(text):
        matches = sorted(glob.glob(text))
        if not matches:
            raise DataError(f"{function}: no file matches {text!r}")
        return matches
    if not os.path.exists(text):
        raise DataError(f"{function}: cannot read {text!r}: No such file or directory")
    return [text]


class _Rows:
    """An iterable over the rows of files; each iterator has a state of its own."""

    def __init__(self, kind: Any, files: list[str], columns: Optional[list[str]]) -> None:
        self.kind, self.files, self.columns = kind, files, columns

    def __iter__(self) -> _RowIterator:
        return _RowIterator(self)


class _RowIterator:
    """The state is the file, the group of rows in it, and the row in the group; groups before it are not read again."""

    def __init__(self, rows: _Rows) -> None:
        self.rows = rows
        self.file = self.group = self.row = 0
        self.iterator = self._read()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.iterator)

    def state_dict(self) -> dict[str, int]:
        return {"file": self.file, "group": self.group, "row": self.row}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.file, self.group, self.row = state["file"], state["group"], state["row"]
        self.iterator = self._read()

    def _read(self) -> Iterator[Any]:
        import pyarrow

        while self.file < len(self.rows.files):
            path = self.rows.files[self.file]
            try:
                with self.rows.kind(path, self.rows.columns) as file:
                    while file.has_group(self.group):
                        skipped = self.row
                        for batch in file.batches(self.group):
                            if skipped >= batch.num_rows:
                                skipped -= batch.num_rows
                                continue
                            for row in _rows_of(batch.slice(skipped)):
                                self.row += 1
                                yield row
                            skipped = 0
                        self.group, self.row = self.group + 1, 0
            except (pyarrow.ArrowException, OSError) as error:
                raise DataError(f"{path}: record {self.row} of row group {self.group}: {error}") from error
            self.file, self.group, self.row = self.file + 1, 0, 0


class _ParquetFile:
    def __init__(self, path: str, columns: Optional[list[str]]) -> None:
        import pyarrow.parquet

        self.source = open_file(path) if is_url(path) else open(path, "rb")
        self.columns = columns
        try:
            self.file = pyarrow.parquet.ParquetFile(self.source)
            check_columns(path, columns, self.file.schema_arrow.names)
        except BaseException:
            self.source.close()
            raise

    def __enter__(self) -> _ParquetFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.source.close()

    def has_group(self, group: int) -> bool:
        return bool(group < self.file.num_row_groups)

    def batches(self, group: int) -> Iterator[Any]:
        return self.file.iter_batches(_ROWS, row_groups=[group], columns=self.columns, use_threads=False)  # type: ignore[no-any-return]


class _ArrowFile:
    """A group is a record batch."""

    def __init__(self, path: str, columns: Optional[list[str]]) -> None:
        import pyarrow.ipc

        self.source = open_file(path) if is_url(path) else open(path, "rb")
        self.columns = columns
        try:
            begin = self.source.read(6)
            self.source.seek(0)
            self.is_stream = begin != b"ARROW1"  # of the file format
            self.file = (pyarrow.ipc.open_stream if self.is_stream else pyarrow.ipc.open_file)(self.source)
            self.read = 0  # batches of a stream
            self.batch: Any = None
            check_columns(path, columns, self.file.schema.names)
        except BaseException:
            self.source.close()
            raise

    def __enter__(self) -> _ArrowFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.source.close()

    def has_group(self, group: int) -> bool:
        if not self.is_stream:
            return bool(group < self.file.num_record_batches)
        while self.read <= group:
            try:
                self.batch = self.file.read_next_batch()
            except StopIteration:
                return False
            self.read += 1
        return True

    def batches(self, group: int) -> Iterator[Any]:
        batch = self.batch if self.is_stream else self.file.get_batch(group)
        batch = batch if self.columns is None else batch.select(self.columns)
        for begin in range(0, batch.num_rows, _ROWS):
            yield batch.slice(begin, _ROWS)


def check_columns(path: str, columns: Optional[list[str]], names: list[str]) -> None:
    for name in columns or []:
        if name not in names:
            raise DataError(f"{path}: there is no column {name!r}; the columns are {', '.join(map(repr, names))}")


def _rows_of(batch: Any) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    columns = [_values_of(column) for column in batch.columns]
    for values in zip(*columns):
        yield dict(zip(names, values))


def _values_of(column: Any) -> Any:
    """The values of a column: NumPy scalars of numbers, arrays of lists of numbers, and otherwise objects."""
    import pyarrow.types as types

    kind = column.type
    if types.is_floating(kind) or ((types.is_integer(kind) or types.is_boolean(kind)) and column.null_count == 0):
        return column.to_numpy(zero_copy_only=False)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        items = kind.value_type
        if types.is_floating(items) or types.is_integer(items) or types.is_boolean(items):
            dtype = items.to_pandas_dtype()
            return [_array_of(value, dtype) for value in column]
    return column.to_pylist()


def _array_of(value: Any, dtype: Any) -> Any:
    if value.as_py() is None:
        return None
    items = value.values
    if items.null_count == 0 or numpy.issubdtype(dtype, numpy.floating):
        return items.to_numpy(zero_copy_only=False)
    return value.as_py()
