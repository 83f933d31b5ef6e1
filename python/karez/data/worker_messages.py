"""The messages of a worker process: requests with the arguments of a function, and replies with its results.
python/src/element_message.h describes them.

The program of a worker process, worker.py, imports this file without the package karez.
"""

from __future__ import annotations

import math
import mmap
import os
import pickle
import struct
import sys
import traceback
from typing import Any, Optional

import numpy

REQUEST = struct.Struct("<BBH4xQQ8x")  # channel, flags, number of elements, position and size of the body
ELEMENT_HEAD = struct.Struct("<QQQ8x")  # before each element: the key of random numbers, and the size of the rest
REPLY = struct.Struct("<BxHIQQQ")  # flags, number of elements, CPU, nanoseconds, position and size of the body
ENTRY = struct.Struct("<B7xQ")  # status and size of each result
RANDOM, FILTER = 1, 2  # flags of a request
KEPT_INPUT = 1  # a flag of a reply: arrays of the request are still used
IN_MESSAGE = 2**64 - 1  # the position of a body that follows the header
LARGEST_MESSAGE = 32768
LARGEST_INLINE = 4096  # bytes of an array or pickle in a body
# In the outputs. Their first byte is the number of the channel that is served now, plus 1, and the third and fourth are
# the number of the element of the request.
FIRST_REGION = 4096
ELEMENT_NUMBER = struct.Struct("<H")
# Types whose objects pickle restores in any process.
PLAIN_TYPES = (str, bytes, int, type(None), float, bool, complex)


def dumps(value: Any) -> bytes:
    """The pickle of an object. Classes and functions of the main program travel by value."""
    if type(value) in PLAIN_TYPES or (type(value) is numpy.ndarray and not value.dtype.hasobject):
        return pickle.dumps(value, 5)
    import cloudpickle  # type: ignore

    stored: bytes = cloudpickle.dumps(value, 5)
    return stored


def failure(error: BaseException, trace: Any) -> bytes:
    """The pickle of an error: its own pickle, if it has one, and texts."""
    text = "".join(traceback.format_exception(type(error), error, trace))
    stored: Optional[bytes] = None
    try:
        stored = dumps(error)
        pickle.loads(stored)
    except Exception:
        stored = None
    try:
        message = str(error)
    except Exception:
        message = "its text cannot be made"
    return pickle.dumps((stored, type(error).__name__, message, text), 5)


class UnusualValue(Exception):
    """A value that a body cannot describe, so that it travels as one pickle."""


class TooLarge(ValueError):
    """The results need more than the shared memory."""


class Inputs:
    """Reads the arguments of the function from requests."""

    def __init__(self, file: int, dtypes: list[Any]) -> None:
        self.map = mmap.mmap(file, os.fstat(file).st_size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        self.dtypes = dtypes
        self.copies = False  # whether arrays get memory of their own, because the function has kept an earlier one
        self.shared: list[Any] = []  # the arrays of the current request that use the shared memory
        self.body, self.at, self.end = b"", 0, 0  # `end`: of the current element

    def open(self, request: bytes, position: int, size: int) -> None:
        if position == IN_MESSAGE:
            self.body, self.end = request, REQUEST.size
        else:
            self.body, self.end = self.map[position : position + size], 0

    def next_key(self) -> tuple[int, int]:
        """Moves to the next element."""
        begin = (self.end + 15) & -16
        low, high, size = ELEMENT_HEAD.unpack_from(self.body, begin)
        self.at = begin + ELEMENT_HEAD.size
        self.end = self.at + size
        return low, high

    def value(self) -> Any:
        body, at = self.body, self.at
        kind = body[at]
        if kind == 97:  # a: an array
            code, dimensions, is_shared = body[at + 1 : at + 4]
            at += 4
            shape = struct.unpack_from(f"<{dimensions}q", body, at)
            at += 8 * dimensions
            dtype, count = self.dtype(code), math.prod(shape)
            if is_shared:
                (position,) = struct.unpack_from("<Q", body, at)
                self.at = at + 8
                return self.shared_array(position, dtype, count).reshape(shape)
            at = (at + 15) & -16
            self.at = at + count * dtype.itemsize
            if count == 0:
                array = numpy.empty(shape, dtype)
                array.setflags(write=False)
                return array
            array = numpy.frombuffer(body, dtype, count, at)
            return array.reshape(shape) if shape else array[0]
        if kind == 111:  # o: a pickle
            is_shared, size = struct.unpack_from("<BQ", body, at + 1)
            at += 10
            if is_shared:
                (position,) = struct.unpack_from("<Q", body, at)
                self.at = at + 8
                return pickle.loads(self.map[position : position + size])
            self.at = at + size
            return pickle.loads(body[at : at + size])
        (count,) = struct.unpack_from("<I", body, at + 1)
        self.at = at + 5
        if kind == 116:  # t: a tuple
            return tuple([self.value() for _ in range(count)])
        if kind == 108:  # l: a list
            return [self.value() for _ in range(count)]
        keys = [self.key() for _ in range(count)]  # d: a dict
        return {key: self.value() for key in keys}

    def key(self) -> str:
        (size,) = struct.unpack_from("<I", self.body, self.at)
        begin = self.at + 4
        self.at = begin + size
        return self.body[begin : self.at].decode()

    def dtype(self, code: int) -> Any:
        dtype = self.dtypes[code]
        if isinstance(dtype, str):  # bfloat16
            import ml_dtypes

            dtype = self.dtypes[code] = numpy.dtype(getattr(ml_dtypes, dtype))
        return dtype

    def shared_array(self, position: int, dtype: Any, count: int) -> Any:
        if self.copies:
            return numpy.frombuffer(self.map[position : position + count * dtype.itemsize], dtype, count)
        array = numpy.frombuffer(self.map, dtype, count, position)
        self.shared.append(array)
        return array

    def release(self) -> bool:
        """Whether the function has kept no array of the request, so that its memory may be overwritten."""
        is_free = True
        while self.shared:
            array = self.shared.pop()
            is_free &= sys.getrefcount(array) <= 2  # by the variable and the argument
        if not is_free:
            self.copies = True
        return is_free


class Outputs:
    """Writes results into replies."""

    def __init__(self, file: int, region: int, dtypes: list[Any]) -> None:
        self.map = mmap.mmap(file, os.fstat(file).st_size, flags=mmap.MAP_SHARED)
        self.memory = memoryview(self.map)
        self.region = region
        self.codes = {dtype: code for code, dtype in enumerate(dtypes) if not isinstance(dtype, str)}
        self.names = {str(dtype) for dtype in dtypes}
        self.parts: list[bytes] = []  # of the body
        self.size = self.first = self.next = 0  # of the body; the channel's region in shared memory, and its free part

    def open(self, channel: int) -> None:
        self.first = self.next = FIRST_REGION + channel * self.region

    def entry(self, status: bytes, value: Any, encode: bool) -> bytes:
        """The entry of a reply with a value, or with bytes if `encode` is false."""
        before = self.next
        self.parts, self.size = [], 0
        if encode:
            try:
                self.add(value)
            except UnusualValue:
                status, self.next = b"p", before
                self.parts = [dumps(value)]
        else:
            self.parts = [value]
        body = b"".join(self.parts)
        return ENTRY.pack(status[0], len(body)) + body

    def reply(self, entries: list[bytes], flags: int, cpu: int, nanoseconds: int) -> bytes:
        body = b"".join(entries)
        position = IN_MESSAGE
        if len(body) > LARGEST_MESSAGE:
            try:
                position = self.store(body, len(body))
            except TooLarge as error:
                if len(entries) > 1:
                    body = len(entries) * ENTRY.pack(b"r"[0], 0)
                else:
                    text = failure(error, error.__traceback__)
                    body = ENTRY.pack(b"e"[0], len(text)) + text
        header = REPLY.pack(flags, len(entries), cpu, nanoseconds, position, len(body))
        return header + body if position == IN_MESSAGE else header

    def put(self, part: bytes) -> None:
        self.parts.append(part)
        self.size += len(part)

    def place(self, size: int) -> int:
        """The position of this many bytes in shared memory."""
        position = (self.next + 63) & -64
        if position + size > self.first + self.region:
            raise TooLarge(
                f"an element of a worker process may have at most {self.region} bytes, got more; pass processes=False"
            )
        self.next = position + size
        return position

    def store(self, data: bytes, size: int) -> int:
        position = self.place(size)
        self.memory[position : position + size] = data
        return position

    def add(self, value: Any) -> None:
        kind = type(value)
        if kind is bool:
            self.add_array(numpy.array(value))
        elif isinstance(value, int):
            if -(2**63) <= value < 2**63:
                self.add_array(numpy.array(int(value), numpy.int64))
            else:
                self.add_object(value)
        elif kind is float:
            with numpy.errstate(over="ignore"):
                self.add_array(numpy.array(value, numpy.float32))
        elif isinstance(value, (tuple, list)):
            self.put(struct.pack("<cI", b"t" if isinstance(value, tuple) else b"l", len(value)))
            for item in value:
                self.add(item)
        elif isinstance(value, dict):
            self.put(struct.pack("<cI", b"d", len(value)))
            for key in value:
                if not isinstance(key, str):
                    raise UnusualValue  # an error of the program's process
                text = key.encode()
                self.put(struct.pack("<I", len(text)) + text)
            for item in value.values():
                self.add(item)
        elif hasattr(kind, "__array__"):
            self.add_array_like(value)
        else:
            self.add_object(value)

    def add_array_like(self, value: Any) -> None:
        try:
            array = numpy.asarray(value)
        except TypeError as error:  # such as for a dtype that NumPy does not have
            raise UnusualValue from error
        if array.dtype in self.codes:
            self.add_array(array)
        elif array.dtype.name in self.names:  # bfloat16, or another order of bytes
            raise UnusualValue
        else:
            self.add_object(value if isinstance(value, (numpy.ndarray, numpy.generic)) else array)

    def add_array(self, array: Any) -> None:
        is_shared = array.nbytes > LARGEST_INLINE
        head = struct.pack(f"<cBBB{array.ndim}q", b"a", self.codes[array.dtype], array.ndim, is_shared, *array.shape)
        if not is_shared:
            self.put(head + bytes(-(self.size + len(head)) % 16) + array.tobytes())
            return
        position = self.place(array.nbytes)
        numpy.copyto(numpy.frombuffer(self.map, array.dtype, array.size, position).reshape(array.shape), array)
        self.put(head + struct.pack("<Q", position))

    def add_object(self, value: Any) -> None:
        data = dumps(value)
        if len(data) > LARGEST_INLINE:
            self.put(struct.pack("<cBQQ", b"o", 1, len(data), self.store(data, len(data))))
        else:
            self.put(struct.pack("<cBQ", b"o", 0, len(data)) + data)
