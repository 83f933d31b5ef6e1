"""Measures one pipeline with one library, for bench/data/throughput.py: for each line on standard input with a number
of seconds, reads the pipeline for so long and prints the elements per second."""

import importlib
import sys
import time

import pipelines as p


def main():
    library, name, folder, option = sys.argv[1:5]
    made = importlib.import_module(f"{library}_pipelines").make(name, folder, option)
    if made is None:
        print("no reader", flush=True)
        return
    iterable, count = made
    sleep = p.STEP * 16 if name == "bursty" else 0
    loop = iter(iterable)
    next(loop)
    print("ready", flush=True)
    for line in sys.stdin:
        for seconds in (0.3, float(line)):  # the first is not counted
            elements, begin = 0, time.perf_counter()
            end, now = begin + seconds, begin
            while now < end:
                item = next(loop)
                elements += count if isinstance(count, int) else count(item)
                if sleep:
                    time.sleep(sleep)
                now = time.perf_counter()
        print(elements / (now - begin), flush=True)


if __name__ == "__main__":
    main()
