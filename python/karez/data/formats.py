"""Data sets of the records of files: text, JSONL, CSV, TFRecord, WebDataset, and NumPy's formats."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from .. import _core
from ..errors import TypeError, UserError
from .argument_types import explain_types
from .dataset import Dataset, path_bytes
from .remote_files import expand_url, is_url, open_stream
from .skipped_record import report_skipped
from .sources import from_files, from_source

__all__ = [
    "from_csv",
    "from_jsonl",
    "from_npy",
    "from_npz",
    "from_text",
    "from_tfrecord",
    "from_webdataset",
    "list_files",
    "parse_example",
]

Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Iterable[Path]]
MAX_RECORD_BYTES = 2**28


def list_files(paths: Paths) -> Dataset:
    """The paths of files as str, without reading the files. Each rank or thread can read files of its own:

    data.list_files("train/*.txt").shard(kz.ranks(), kz.rank()).interleave(data.from_text, cycle=4, parallel=True)
    """
    items = path_list("list_files", paths)
    if any(is_url(item) for item in items):
        return from_source([url for item in items for url in expand_url("list_files", item)])
    return from_files(items, str)


def from_text(
    paths: Paths, *, on_error: str = "raise", max_record_bytes: int = MAX_RECORD_BYTES, max_file_bytes: int = 0
) -> Dataset:
    """The lines of text files as str, without their ends, \\n or \\r\\n. Text that is not UTF-8 is an error.

    paths: a path, a pattern or a list of these, as for from_files; URLs are read by fsspec. Files whose names end with
    .gz or .zst are unpacked while they are read.
    on_error: what happens to an invalid record or file: "raise" raises an error, "skip" skips it; a warning at the end
    of the epoch then contains the number of skipped records of all data sets of this format, and the first error.
    max_record_bytes: longer records are errors. Memory is allocated after this check.
    max_file_bytes: a file that has more bytes, unpacked, is an error; 0 means no limit.

    The other functions of formats have the same arguments.
    """
    files = _Files("from_text", paths)
    return Dataset(_core.text_dataset(files.paths, files.options(on_error, max_record_bytes, max_file_bytes)))


def from_jsonl(
    paths: Paths,
    fields: Optional[Mapping[str, Any]] = None,
    *,
    on_error: str = "raise",
    max_record_bytes: int = MAX_RECORD_BYTES,
    max_file_bytes: int = 0,
) -> Dataset:
    """The lines of JSONL files. An element is the object that json.loads would return; integers must have at most 64
    bits. Blank lines are ignored.

    fields: if given, an element is a dict of these fields of the line: of arrays of a dtype, or of str for the type
    str, as in {"text": str, "label": kz.int64}. Lists of numbers must have equal lengths at each depth.
    """
    files = _Files("from_jsonl", paths)
    options = files.options(on_error, max_record_bytes, max_file_bytes)
    return Dataset(_core.jsonl_dataset(files.paths, _columns("from_jsonl", fields, {}), options))


def from_csv(
    paths: Paths,
    columns: Union[Mapping[str, Any], Sequence[str], None] = None,
    *,
    delimiter: str = ",",
    header: bool = True,
    names: Sequence[str] = (),
    missing: Optional[Mapping[str, float]] = None,
    on_error: str = "raise",
    max_record_bytes: int = MAX_RECORD_BYTES,
    max_file_bytes: int = 0,
) -> Dataset:
    """The rows of CSV files as dicts of columns. Fields may be quoted as in RFC 4180; blank lines are ignored.

    columns: the names of columns with their dtypes, or the type str, as in {"x": kz.float32, "name": str}, or a list of
    names. By default all columns as str.
    header: whether the first row of each file has the names; otherwise they are `names`, or "0", "1", ...
    missing: the values of empty fields, by column. By default NaN; for integers and bool an empty field is an error.
    """
    files = _Files("from_csv", paths)
    if columns is not None and not isinstance(columns, Mapping):
        columns = {name: str for name in columns}
    options = files.options(on_error, max_record_bytes, max_file_bytes)
    selected = _columns("from_csv", columns, missing or {})
    return Dataset(_core.csv_dataset(files.paths, delimiter, header, list(names), selected, options))


def from_tfrecord(
    paths: Paths,
    examples: bool = False,
    *,
    on_error: str = "raise",
    max_record_bytes: int = MAX_RECORD_BYTES,
    max_file_bytes: int = 0,
) -> Dataset:
    """The records of TFRecord files as bytes, checked by their checksums.

    examples: if true, elements are the features of the tf.train.Example in each record; see parse_example.
    """
    files = _Files("from_tfrecord", paths)
    options = files.options(on_error, max_record_bytes, max_file_bytes)
    return Dataset(_core.tfrecord_dataset(files.paths, examples, options))


def parse_example(record: bytes) -> dict[str, Any]:
    """The features of a serialised tf.train.Example as a dict, sorted by name: arrays of float32 or int64, and lists of
    bytes. Features without a value are left out."""
    features: Any = _core.parse_example(record)
    return dict(features)


def from_webdataset(
    paths: Paths, *, on_error: str = "raise", max_record_bytes: int = MAX_RECORD_BYTES, max_file_bytes: int = 0
) -> Dataset:
    """The samples of tar files in the form of WebDataset. Consecutive files whose names are equal up to the first dot
    are one sample: a dict of their bytes by extension, and of that part of the name, as str, by "__key__".

    Links, devices and names outside of the folder, such as "../a.txt", are errors.
    """
    files = _Files("from_webdataset", paths)
    return Dataset(_core.webdataset_dataset(files.paths, files.options(on_error, max_record_bytes, max_file_bytes)))


def from_npy(
    paths: Paths, *, on_error: str = "raise", max_record_bytes: int = MAX_RECORD_BYTES, max_file_bytes: int = 0
) -> Dataset:
    """The rows of the arrays in .npy files, which must have one type. They can be read by index, unless the files are
    compressed or remote."""
    files = _Files("from_npy", paths)
    return Dataset(_core.npy_dataset(files.paths, files.options(on_error, max_record_bytes, max_file_bytes)))


def from_npz(
    paths: Paths, *, on_error: str = "raise", max_record_bytes: int = MAX_RECORD_BYTES, max_file_bytes: int = 0
) -> Dataset:
    """The rows of the arrays in .npz files, as dicts by the names of the arrays."""
    files = _Files("from_npz", paths)
    return Dataset(_core.npz_dataset(files.paths, files.options(on_error, max_record_bytes, max_file_bytes)))


class _Files:
    """The files of a data set. If one of the paths is a URL, all are opened by fsspec."""

    def __init__(self, function: str, paths: Paths) -> None:
        self.function = function
        items = path_list(function, paths)
        self.remote = any(is_url(item) for item in items)
        if self.remote:
            items = [url for item in items for url in expand_url(function, item)]
        self.paths = [path_bytes(function, item) for item in items]

    def options(self, on_error: str, max_record_bytes: int, max_file_bytes: int) -> tuple[Any, ...]:
        """The options as the functions of _core expect them."""
        check_file_options(self.function, on_error, max_record_bytes, max_file_bytes)
        report = functools.partial(report_skipped, self.function)
        return (on_error == "skip", max_record_bytes, max_file_bytes, report, open_stream if self.remote else None)


def check_file_options(function: str, on_error: str, max_record_bytes: int, max_file_bytes: int) -> None:
    if on_error not in ("raise", "skip"):
        raise UserError(f"{function}: on_error must be 'raise' or 'skip', got {on_error!r}")
    if max_record_bytes < 1:
        raise UserError(f"{function}: max_record_bytes must be at least 1, got {max_record_bytes}")
    if max_file_bytes < 0:
        raise UserError(f"{function}: max_file_bytes must be at least 0, got {max_file_bytes}")


def path_list(function: str, paths: Paths) -> list[Path]:
    """A path, or paths, as a list."""
    items = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(items, Iterable) or isinstance(items, bytes):
        raise TypeError(f"{function}: expected a path or a list of paths, got {type(paths).__name__}")
    return list(items)


def _columns(function: str, columns: Optional[Mapping[str, Any]], missing: Mapping[str, float]) -> list[Any]:
    """Columns with their dtypes, None for text, and the values of missing fields."""
    out = [(name, None if dtype is str else dtype, missing.get(name)) for name, dtype in (columns or {}).items()]
    unknown = [name for name in missing if name not in (columns or {})]
    if unknown:
        raise UserError(f"{function}: missing has a value for {unknown[0]!r}, which is not in columns")
    for name, dtype, _ in out:
        if dtype is not None and not _core.is_dtype(dtype):
            raise TypeError(f"{function}: {name!r} must have a dtype or the type str, got {dtype!r}")
    return out


explain_types(globals(), __all__)
