"""Data sets of the rows of Parquet and Arrow files, read by pyarrow, which is imported only for them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy

from .. import _core
from ..errors import DataError, UserError
from .argument_types import explain_types
from .dataset import Dataset
from .formats import MAX_RECORD_BYTES, Path, Paths, check_file_options, path_list
from .iterable_reader import IterableReader
from .remote_files import expand_url, is_url, open_file
from .skipped_record import count_skipped

__all__ = ["from_arrow", "from_parquet"]

_ROWS = 1024  # converted at a time


def from_parquet(
    paths: Paths,
    columns: Optional[Sequence[str]] = None,
    *,
    on_error: str = "raise",
    max_record_bytes: int = MAX_RECORD_BYTES,
    max_file_bytes: int = 0,
) -> Dataset:
    """The rows of Parquet files as dicts of columns. Numbers and lists of numbers are arrays; all other values are
    Python objects, and a missing value is None, or NaN among floating-point numbers. Needs the package pyarrow.

    columns: the names of the columns; by default all.
    The other options are those of from_text; sizes are those of the values in memory. After damage, the rest of the row
    group is skipped.
    """
    options = _Options("from_parquet", columns, on_error, max_record_bytes, max_file_bytes)
    return _dataset(_ParquetFile, paths, options)


def from_arrow(
    paths: Paths,
    columns: Optional[Sequence[str]] = None,
    *,
    on_error: str = "raise",
    max_record_bytes: int = MAX_RECORD_BYTES,
    max_file_bytes: int = 0,
) -> Dataset:
    """The rows of files in Arrow's IPC format (also named Feather), of both kinds, file and stream; as from_parquet."""
    options = _Options("from_arrow", columns, on_error, max_record_bytes, max_file_bytes)
    return _dataset(_ArrowFile, paths, options)


class _Options:
    def __init__(
        self, function: str, columns: Optional[Sequence[str]], on_error: str, max_record_bytes: int, max_file_bytes: int
    ) -> None:
        check_file_options(function, on_error, max_record_bytes, max_file_bytes)
        self.function, self.columns = function, None if columns is None else list(columns)
        self.skips = on_error == "skip"
        self.max_record_bytes, self.max_file_bytes = max_record_bytes, max_file_bytes

    def check_file(self, path: str, size: int) -> None:
        if 0 < self.max_file_bytes < size:
            raise DataError(
                f"{path}: the file must have at most {self.max_file_bytes} bytes (max_file_bytes), got {size}"
            )

    def check_record(self, size: int) -> None:
        if size > self.max_record_bytes:
            raise DataError(
                f"the record must have at most {self.max_record_bytes} bytes (max_record_bytes), got {size}"
            )


def _dataset(kind: Any, paths: Paths, options: _Options) -> Dataset:
    function = options.function
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UserError(f"{function} needs the package pyarrow: pip install pyarrow") from None
    files = [file for item in path_list(function, paths) for file in _expand(function, item)]
    if not files:
        raise UserError(f"{function}: at least one path or pattern is needed")
    rows = _Rows(kind, files, options)
    text = f"{function}, {len(files)} files{', on_error=skip' if options.skips else ''}"
    return Dataset(_core.generator_dataset(lambda epoch: IterableReader(rows), text, False))


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

    def __init__(self, kind: Any, files: list[str], options: _Options) -> None:
        self.kind, self.files, self.options = kind, files, options

    def __iter__(self) -> _RowIterator:
        return _RowIterator(self)


class _RowIterator:
    """The state is the file, the group of rows in it, the row in the group, and the number of skipped records; groups
    before it are not read again."""

    def __init__(self, rows: _Rows) -> None:
        self.rows, self.options = rows, rows.options
        self.file = self.group = self.row = self.skipped = 0
        self.first_error = "unknown, because the stream was resumed after it"
        self.iterator = self._read()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.iterator)

    def state_dict(self) -> dict[str, int]:
        return {"file": self.file, "group": self.group, "row": self.row, "skipped": self.skipped}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.file, self.group, self.row = state["file"], state["group"], state["row"]
        self.skipped = state.get("skipped", 0)
        self.iterator = self._read()

    def _read(self) -> Iterator[Any]:
        import pyarrow

        errors = (pyarrow.ArrowException, OSError, DataError)
        while self.file < len(self.rows.files):
            path = self.rows.files[self.file]
            try:
                with self.rows.kind(path, self.options) as file:
                    yield from self._read_groups(path, file, errors)
            except errors as error:
                self._fail(path, error)
            self.file, self.group, self.row = self.file + 1, 0, 0
        if self.skipped:
            skipped, self.skipped = self.skipped, 0
            count_skipped(self.options.function, skipped, self.first_error)

    def _read_groups(self, path: str, file: Any, errors: Any) -> Iterator[Any]:
        while file.has_group(self.group):
            begin = 0  # the row at which a batch begins
            try:
                for batch in file.batches(self.group):
                    end = begin + batch.num_rows
                    if end > self.row:
                        yield from self._read_rows(path, batch.slice(self.row - begin))
                    begin = end
            except errors as error:
                self._fail(path, error)
                if not file.can_continue:
                    return
            self.group, self.row = self.group + 1, 0

    def _read_rows(self, path: str, batch: Any) -> Iterator[Any]:
        may_exceed = batch.nbytes > self.options.max_record_bytes
        for number, row in enumerate(_rows_of(batch)):
            if may_exceed:
                try:
                    self.options.check_record(batch.slice(number, 1).nbytes)
                except DataError as error:
                    self._fail(path, error)
                    self.row += 1
                    continue
            self.row += 1
            yield row

    def _fail(self, path: str, error: Exception) -> None:
        text = str(error)
        if not text.startswith(f"{path}: "):
            text = f"{path}: record {self.row} of row group {self.group}: {text}"
        if not self.options.skips:
            raise DataError(text) from error
        if self.skipped == 0:
            self.first_error = text
        self.skipped += 1


class _ParquetFile:
    can_continue = True  # after an error, with the next group

    def __init__(self, path: str, options: _Options) -> None:
        import pyarrow.parquet

        self.source = open_file(path) if is_url(path) else open(path, "rb")
        self.options = options
        try:
            self.file = pyarrow.parquet.ParquetFile(self.source)
            check_columns(path, options.columns, self.file.schema_arrow.names)
            groups = range(self.file.num_row_groups)
            options.check_file(path, sum(self.file.metadata.row_group(i).total_byte_size for i in groups))
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
        columns, rows = self.options.columns, _ROWS
        if columns is None:  # before memory is allocated: the longest record has at least the mean size
            metadata = self.file.metadata.row_group(group)
            mean = metadata.total_byte_size // max(1, metadata.num_rows)
            if mean > self.options.max_record_bytes:
                rows = 1
                if not self.options.skips:
                    self.options.check_record(mean)
        yield from self.file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)


class _ArrowFile:
    """A group is a record batch."""

    def __init__(self, path: str, options: _Options) -> None:
        import pyarrow.ipc

        self.source = open_file(path) if is_url(path) else open(path, "rb")
        self.path, self.options = path, options
        try:
            size = self.source.seek(0, os.SEEK_END)
            options.check_file(path, size)
            self.source.seek(0)
            begin = self.source.read(6)
            self.source.seek(0)
            self.has_index = begin == b"ARROW1"  # the file format, as opposed to a stream
            self.can_continue = self.has_index  # after an error, with the next batch
            self.file = (pyarrow.ipc.open_file if self.has_index else pyarrow.ipc.open_stream)(self.source)
            self.read = 0  # batches of a stream
            self.bytes = 0  # of the batches that were read
            self.batch: Any = None
            check_columns(path, options.columns, self.file.schema.names)
        except BaseException:
            self.source.close()
            raise

    def __enter__(self) -> _ArrowFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.source.close()

    def has_group(self, group: int) -> bool:
        if self.has_index:
            return bool(group < self.file.num_record_batches)
        while self.read <= group:
            try:
                self.batch = self.file.read_next_batch()
            except StopIteration:
                return False
            self.read += 1
            self._count(self.batch)
        return True

    def batches(self, group: int) -> Iterator[Any]:
        batch = self.batch
        if self.has_index:
            batch = self.file.get_batch(group)
            self._count(batch)
        columns = self.options.columns
        batch = batch if columns is None else batch.select(columns)
        for begin in range(0, batch.num_rows, _ROWS):
            yield batch.slice(begin, _ROWS)

    def _count(self, batch: Any) -> None:
        """Batches may be compressed in the file, so their sizes are added up."""
        self.bytes += batch.nbytes
        try:
            self.options.check_file(self.path, self.bytes)
        except DataError:
            self.can_continue = False
            raise


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


explain_types(globals(), __all__)
