"""The program of a worker process, which calls a function of a data set for one element after the other.

It is started as `python worker.py REQUESTS INPUTS OUTPUTS SETUP REGION REPLIES…` by python/src/worker_process.cc: file
descriptors, the size of a channel's region in the shared memory, and a file descriptor for the replies of each channel.
It imports neither karez nor cloudpickle unless the function needs them.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    folder = sys.path.pop(0)  # of this file, whose modules must not be found by their short names

import contextlib
import mmap
import os
import pickle
import resource
import time
from typing import Any, Optional, Union

import numpy

if __name__ != "__main__":
    from . import worker_messages as messages
else:
    sys.path.insert(0, folder)
    import worker_messages as messages  # type: ignore

    del sys.path[0]


def generator(low: int, high: int) -> numpy.random.Generator:
    """The random numbers of an element, as in python/karez/data/dataset.py."""
    return numpy.random.Generator(numpy.random.Philox(key=numpy.array([low, high], dtype=numpy.uint64)))


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, None, or a pipe without a reader
            pass


class Worker:
    """Answers requests with the results of the function."""

    def __init__(self, inputs: int, outputs: int, region: int, setup: dict[str, Any]) -> None:
        dtypes: list[Union[str, Any]] = [numpy.dtype(name) if name != "bfloat16" else name for name in setup["dtypes"]]
        self.inputs, self.outputs = messages.Inputs(inputs, dtypes), messages.Outputs(outputs, region, dtypes)
        self.f: Any = None
        self.load_error: Optional[bytes] = None
        self.is_slow = True  # the last call took longer than a millisecond
        self.schedstat: Optional[int] = None  # the kernel's counters of this thread
        with contextlib.suppress(OSError):
            self.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.f = pickle.loads(setup["function"])
        except BaseException as error:
            self.load_error = messages.failure(error, error.__traceback__)

    def answer(self, request: bytes) -> tuple[int, bytes]:
        """The channel of the request, and the reply."""
        channel, flags, count, position, size = messages.REQUEST.unpack_from(request)
        memory = self.outputs.map
        messages.ELEMENT_NUMBER.pack_into(memory, 2, 0)
        memory[0] = channel + 1
        begin, cpu_begin = time.perf_counter_ns(), time.process_time_ns()
        waits = self.waits() if self.is_slow else None
        self.inputs.open(request, position, size)
        self.outputs.open(channel)
        entries, kept = [], False
        for number in range(count):
            if number > 0:
                messages.ELEMENT_NUMBER.pack_into(memory, 2, number)
            entries.append(self.entry(flags, number == 0))
            kept |= bool(self.inputs.shared) and not self.inputs.release()
        cpu_nanoseconds, nanoseconds = time.process_time_ns() - cpu_begin, time.perf_counter_ns() - begin
        not_queued = nanoseconds
        if waits is not None:
            waits_now, queued = self.waits()
            # A thread that did not wait computed all the time, even if other programs used the core.
            not_queued = cpu_nanoseconds if waits_now == waits[0] else nanoseconds - queued + waits[1]
        cpu = min(1_000_000 * cpu_nanoseconds // max(not_queued, 1), 1_000_000)
        self.is_slow = nanoseconds > 1_000_000
        reply = self.outputs.reply(entries, messages.KEPT_INPUT * kept, cpu, nanoseconds)
        flush()
        memory[0] = 0
        return channel, reply

    def entry(self, flags: int, is_first: bool) -> bytes:
        """The entry of a reply for the next element of the request."""
        if self.load_error is not None:
            return self.outputs.entry(b"l", self.load_error, False)
        value: Any = None
        low, high = self.inputs.next_key()
        before = self.outputs.next
        try:
            arguments = self.inputs.value()
            status, value = self.result(arguments, flags, low, high)
            arguments = None
            return self.outputs.entry(status, value, status == b"v")
        except messages.TooLarge as error:
            if not is_first:
                return self.outputs.entry(b"r", b"", False)
            return self.outputs.entry(b"e", messages.failure(error, error.__traceback__), False)
        except BaseException as error:
            self.outputs.next = before
            trace: Any = error.__traceback__
            trace = trace.tb_next.tb_next or trace  # without the frames of this class
            entry = self.outputs.entry(b"e", messages.failure(error, trace), False)
            trace = None
            return entry

    def waits(self) -> tuple[int, int]:
        """How often the thread has waited, and how many nanoseconds it was ready while others used the cores."""
        queued = 0
        if self.schedstat is not None:
            counters = os.pread(self.schedstat, 128, 0).split()
            queued = int(counters[1]) if len(counters) > 1 else 0
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw, queued

    def result(self, arguments: Any, flags: int, low: int, high: int) -> tuple[bytes, Any]:
        module = sys.modules.get("karez.data.skipped_record")
        if module is not None:
            module.in_worker.clear()
        if type(arguments) is not tuple:
            arguments = (arguments,)
        value = self.f(*arguments, rng=generator(low, high)) if flags & messages.RANDOM else self.f(*arguments)
        if flags & messages.FILTER:
            return b"k", b"\1" if value else b"\0"
        if type(value).__name__ == "Skip" and type(value).__module__ == "karez.data.skipped_record":
            return b"s", self.skipped_errors()
        return b"v", value

    def skipped_errors(self) -> bytes:
        """The pickle of the errors for which functions of karez skipped the record; empty if there are none."""
        module = sys.modules.get("karez.data.skipped_record")
        return pickle.dumps(module.in_worker, 5) if module is not None and module.in_worker else b""


def main(requests: int, inputs: int, outputs: int, setup_file: int, region: int, *replies: int) -> None:
    setup = pickle.loads(mmap.mmap(setup_file, os.fstat(setup_file).st_size, prot=mmap.PROT_READ))
    sys.path[:] = setup["path"]
    worker = Worker(inputs, outputs, region, setup)
    setup.clear()
    while True:
        request = os.read(requests, 65536)
        if not request:
            return  # the program has closed its end, or has ended
        channel, reply = worker.answer(request)
        try:
            os.write(replies[channel], reply)
        except ConnectionError:
            return


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
