"""Opens URLs and paths by fsspec, which is imported only for them."""

from __future__ import annotations

import io
import os
from typing import Any, Union

from ..errors import DataError, UserError


def is_url(path: Union[str, os.PathLike[str]]) -> bool:
    return isinstance(path, str) and "://" in path


def fsspec_module(what: str) -> Any:
    try:
        import fsspec.core
    except ImportError:
        raise UserError(f"{what} needs the package fsspec: pip install fsspec") from None
    return fsspec


def expand_url(function: str, url: Union[str, os.PathLike[str]]) -> list[str]:
    """The URLs that match a pattern with * or [a-z], sorted, or the URL itself."""
    text = os.fspath(url)
    fsspec = fsspec_module(f"{function}: to read {text!r}")
    if "*" not in text and "[" not in text:
        return [text]
    try:
        system, path = fsspec.core.url_to_fs(text)
        matches = sorted(system.unstrip_protocol(match) for match in system.glob(path))
    except ImportError as error:
        raise UserError(f"{function}: to read {text!r} needs another package: {error}") from None
    if not matches:
        raise DataError(f"{function}: no file matches {text!r}")
    return matches


def open_file(path: str) -> Any:
    """A file object with positions."""
    return _open(path)


def open_stream(path: str, offset: int = 0) -> Any:
    """A file object at this offset, which will be read to its end. From servers that send no parts of files, the bytes
    before the offset are read and dropped."""
    options = {"block_size": 0} if path.startswith(("http://", "https://")) else {}  # 0: one request for the whole file
    if offset:
        file = _open(path)
        try:
            file.seek(offset)
            file.read(1)
            file.seek(offset)
            return file
        except (ValueError, OSError, NotImplementedError):
            file.close()
    file = _open(path, **options)
    while offset > 0:
        dropped = len(file.read(min(offset, 2**20)))
        if dropped == 0:
            break
        offset -= dropped
    return file


def _open(path: str, **options: Any) -> Any:
    fsspec = fsspec_module(f"to read {path!r}")
    try:
        system, inner = fsspec.core.url_to_fs(path)
        if system.protocol == "memory":  # all files that it opens for one path share one position
            return io.BytesIO(system.cat_file(inner))
        return system.open(inner, "rb", **options)
    except ImportError as error:
        raise UserError(f"to read {path!r} needs another package: {error}") from None
