"""Measures which lines each test suite runs, at most once a day, and stores the result as a map."""

import concurrent.futures
import difflib
import json
import os
import pathlib
import shutil
import tempfile
import time
import zlib

import numpy

from .suites import CORES, Suite, list_tests

DAY = 24 * 3600
MAX_SUITE_SECONDS = 150  # slower suites are not used
CALL = 0xE8  # x86-64: call rel32


class Module:
    """The source lines in one instrumented program, each with the call that marks the line in the table as run."""

    def __init__(self, path, tree, known_lines):
        from elftools.elf.elffile import ELFFile

        with open(path, "rb") as file:
            elf = ELFFile(file)
            self.base = min(s["p_vaddr"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD")
            functions, callee = symbols(elf)
            calls = numpy.concatenate(
                [
                    calls_in(s, callee)
                    for s in elf.iter_sections()
                    if s["sh_flags"] & 4 and s["sh_type"] == "SHT_PROGBITS"
                ]
            )
            names, rows = line_rows(elf, tree, set(known_lines))
        self.calls = numpy.sort(calls)
        self.names = names
        begin, end, file, line = (
            (numpy.array(column, dtype=numpy.int64) for column in zip(*rows))
            if rows
            else [numpy.zeros(0, numpy.int64)] * 4
        )
        # A row of the line table ran if a call within the row ran, or the last call before the row in its function. If
        # no call precedes the row, the first call in the function counts.
        function = functions[numpy.maximum(numpy.searchsorted(functions, begin, "right") - 1, 0)]
        after = functions[numpy.minimum(numpy.searchsorted(functions, begin, "right"), len(functions) - 1)]
        first = numpy.searchsorted(self.calls, begin, "left")
        last = numpy.searchsorted(self.calls, end, "left")
        before = numpy.where((first > 0) & (self.calls[numpy.maximum(first - 1, 0)] >= function), first - 1, first)
        pairs = [(before, file, line)]
        for step in range(int((last - first).max()) if len(first) else 0):
            inside = first + step < last
            pairs.append((first[inside] + step, file[inside], line[inside]))
        call, file, line = (numpy.concatenate(column) for column in zip(*pairs))
        has_call = call < len(self.calls)
        has_call[: len(before)] &= self.calls[numpy.minimum(before, len(self.calls) - 1)] < numpy.where(
            after > begin, after, 1 << 62
        )
        self.call, self.key = call[has_call], (file[has_call] << 32) + line[has_call]

    def lines(self, keys):
        out = {}
        for key in numpy.unique(keys).tolist():
            out.setdefault(self.names[key >> 32], []).append(key & 0xFFFFFFFF)
        return out

    def known_lines(self):
        return self.lines(self.key)

    def ran(self, table):
        """The lines that ran, by file, from a table."""
        at = (self.calls + 5 - self.base) % len(table)
        return self.lines(self.key[table[at][self.call] != 0])


def symbols(elf):
    """The addresses of all functions, and the address of the function that marks the table."""
    table = elf.get_section_by_name(".symtab")
    raw = numpy.frombuffer(
        table.data(),
        dtype=numpy.dtype(
            [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("part", "<u2"), ("value", "<u8"), ("size", "<u8")]
        ),
    )
    text = elf.get_section(table["sh_link"]).data()
    name = text.index(b"\0__sanitizer_cov_trace_pc\0") + 1
    functions = numpy.unique(raw["value"][(raw["info"] & 15 == 2) & (raw["part"] != 0)].astype(numpy.int64))
    return functions, int(raw["value"][raw["name"] == name][0])


def calls_in(section, callee):
    """The addresses of the calls of the function at `callee`."""
    code = numpy.frombuffer(section.data(), dtype=numpy.uint8)
    at = numpy.flatnonzero(code[:-4] == CALL) if len(code) > 4 else numpy.zeros(0, numpy.int64)
    distance = (
        sum(code[at + 1 + i].astype(numpy.int64) << (8 * i) for i in range(4)).astype(numpy.uint32).astype(numpy.int32)
        if len(at)
        else at
    )
    at = at + section["sh_addr"]
    return at[at + 5 + distance == callee].astype(numpy.int64)


def line_rows(elf, tree, known_lines):
    """The files of the tree with lines in a program, and rows of two addresses, the index of a file and a line: (begin,
    end, file, line)."""
    names, index, rows = [], {}, []
    debug = elf.get_dwarf_info()
    for unit in debug.iter_CUs():
        program = debug.line_program_for_CU(unit)
        if program is None:
            continue
        folders, files = program["include_directory"], program["file_entry"]
        own_lines = {}
        for number, entry in enumerate(files):
            path = os.path.join(folders[entry["dir_index"]].decode(), entry["name"].decode())
            name = (
                os.path.relpath(path, tree) if os.path.isabs(path) else os.path.normpath(path)
            )  # a prefix map makes paths relative
            if name in known_lines:
                if name not in index:
                    index[name] = len(names)
                    names.append(name)
                own_lines[number] = index[name]
        if not own_lines:
            continue
        before = None
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            if before is not None and before[0] < state.address:
                rows.append((before[0], state.address, before[1], before[2]))
                before = None
            if state.end_sequence:
                before = None
            elif state.file in own_lines and state.line:
                if before is not None:  # two rows with the same address
                    rows.append((before[0], before[0] + 1, before[1], before[2]))
                before = state.address, own_lines[state.file], state.line
    return names, rows


def merge(into, lines):
    for name, numbers in lines.items():
        into[name] = sorted({*into.get(name, []), *numbers})


def line_hashes(text):
    """A hash of each line without its indentation."""
    return [zlib.crc32(line.strip().encode()) for line in text.split("\n")]


class Map:
    """The coverage of one test binary, or of pytest's files, stored as one JSON file."""

    def __init__(self, content):
        self.content, self.found = content, {}

    @staticmethod
    def load(path):
        return Map(json.loads(path.read_text())) if path.is_file() else None

    def save(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_text(json.dumps(self.content))
        path.with_suffix(".part").replace(path)

    def age(self):
        return time.time() - self.content["made"]

    def is_stale(self, tree_hash):
        """Whether the map is older than a day and was measured on a different tree."""
        return self.content["tree"] != tree_hash and self.age() > DAY

    def only(self, names):
        """The map with only these suites; an earlier command may have measured more."""
        suites = {name: value for name, value in self.content["suites"].items() if name in names}
        return Map(self.content | {"suites": suites})

    def names(self):
        return list(self.content["suites"])

    def suite(self, name):
        one = self.content["suites"][name]
        return Suite(self.content["binary"], name, one["seconds"], tuple(one["broken"]))

    def old_lines(self, path, text):
        """For each current line of a file, from 1, its line numbers at the time of the measurement. None if the file
        has not changed since."""
        if path not in self.found:
            old, new = self.content["texts"].get(path), line_hashes(text)
            if old is None or old == new:
                self.found[path] = None
            else:
                places = {}
                for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
                    for number in range(c, d):
                        places[number + 1] = (
                            [a + number - c + 1]
                            if tag == "equal"
                            else list(range(a + 1, b + 1))
                            if b > a
                            else [max(a, 1), a + 1]
                        )
                self.found[path] = places
        return self.found[path]

    def followed(self, copy):
        """The suites, with the current numbers of their lines."""
        out = {}
        for name, value in self.content["suites"].items():
            lines = {path: numbers for path, numbers in value["lines"].items() if path in copy.names}
            for path, numbers in lines.items():
                places, ran = self.old_lines(path, copy.text(path)), set(numbers)
                if places is not None:
                    lines[path] = [number for number, before in places.items() if ran & set(before)]
            out[name] = value | {"lines": lines}
        return out

    def covering(self, path, line, text):
        """The suites that run a line, without unusable ones; None if the line has no code in this binary."""
        places = self.old_lines(path, text)
        lines = {line} if places is None else set(places.get(line, []))
        if not lines & set(self.content["lines"].get(path, [])):
            return None
        return [
            self.suite(name)
            for name, value in self.content["suites"].items()
            if value["use"] and lines & set(value["lines"].get(path, []))
        ]

    def touching(self, path):
        """The suites that run any line of a file."""
        return [
            self.suite(name)
            for name, value in self.content["suites"].items()
            if value["use"] and value["lines"].get(path)
        ]

    def modules(self, name):
        return self.content["suites"][name].get("modules", [])


class Measure:
    """Measures the maps of a finished build."""

    def __init__(self, build, runner, say):
        self.build, self.runner, self.say = build, runner, say
        self.modules = {}

    def module(self, path):
        if path not in self.modules:
            self.modules[path] = Module(path, self.build.tree, self.build.copy.names)
        return self.modules[path]

    def map(self, binary, files, old, save):
        """Measures the suites of a binary, or these pytest files; with an old map, only those that the map lacks.
        An interrupted measurement is saved too."""
        program = self.build.folder / binary
        names = files if binary == "pytest" else list_tests(program)
        missing = [name for name in names if old is None or name not in old.content["suites"]]
        if old is not None and not missing:
            return old
        suites = (
            {}
            if old is None
            else {
                name: value
                for name, value in old.followed(self.build.copy).items()
                if name in names or name in self.build.copy.names
            }
        )
        created = old.content["made"] if old else time.time()
        if missing:
            self.say(f"measuring {len(missing)} suites of {binary}")
        pool = concurrent.futures.ThreadPoolExecutor(CORES)
        try:
            for name, item in zip(missing, pool.map(lambda name: self.measure(Suite(binary, name), program), missing)):
                suites[name] = item
                if not item["use"]:
                    self.say(f"not used: {name}: {item['why']}")
        finally:
            pool.shutdown(cancel_futures=True)
            known_lines = self.known_lines(binary, suites)
            texts = {path: line_hashes(self.build.copy.text(path)) for path in known_lines}
            content = {
                "binary": binary,
                "made": created,
                "tree": self.build.copy.hash,
                "lines": known_lines,
                "texts": texts,
                "suites": suites,
            }
            save(Map(content))
        return Map(content)

    def known_lines(self, binary, suites):
        """The lines with code, by file."""
        known_lines = {}
        if binary != "pytest":
            return self.module(self.build.folder / binary).known_lines()
        for path in self.build.copy.names:
            if path.startswith(("python/karez/", "tools/")) and path.endswith(".py"):
                known_lines[path] = executable(self.build.copy.text(path))
        for path in {
            module for value in suites.values() for module in value["modules"] if (self.build.folder / module).is_file()
        }:
            merge(known_lines, self.module(self.build.folder / path).known_lines())
        return known_lines

    def measure(self, suite, program):
        with tempfile.TemporaryDirectory(dir=self.build.folder) as folder:
            tables = pathlib.Path(folder)
            environment = {"COVERAGE_TABLES": folder, "KAREZ_BUILD": str(self.build.folder)}
            words = self.runner.words(suite, program)
            if suite.binary == "pytest":
                words = [word for word in words if word != "-x"]
                words[1:3] = ["-m", "coverage", "run", f"--rcfile={rules(tables, self.build)}", "-m", "pytest"]
            else:
                words.remove("--gtest_fail_fast")
            outcome = self.runner.run(words, MAX_SUITE_SECONDS, environment=environment)
            lines, modules = {}, []
            for path in sorted(tables.glob("!*")):
                module = pathlib.Path(path.name.replace("!", "/"))
                name = os.path.relpath(module, self.build.folder)
                if not name.startswith("..") and module.is_file():
                    merge(lines, self.module(module).ran(numpy.memmap(path, dtype=numpy.uint8, mode="r")))
                    modules.append(name)
            if suite.binary == "pytest":
                merge(lines, python_lines(tables, self.build))
            shutil.rmtree(tables, ignore_errors=True)
            tables.mkdir()
        broken = outcome.tests if outcome.kind == "failed" else ()
        why = (
            f"longer than {MAX_SUITE_SECONDS} s"
            if outcome.kind == "hung"
            else "ends early: " + outcome.text[-200:]
            if outcome.kind == "failed" and not broken
            else ""
        )
        if broken:
            self.say(f"left out, because they fail without a fault: {' '.join(broken)}")
        return {
            "seconds": round(outcome.seconds, 2),
            "broken": broken,
            "use": not why,
            "why": why,
            "lines": lines,
            "modules": modules,
        }


def rules(folder, build):
    """Writes the configuration of Python's coverage into a folder. It also covers the processes that a test starts."""
    path = folder / "coverage.rc"
    path.write_text(
        f"[run]\ndata_file = {folder}/python\nparallel = true\npatch = subprocess\n"
        f"include =\n    {build.folder}/python/karez/*\n"
        f"    {build.tree}/python/karez/*\n"
        f"    {build.tree}/tools/*\n"
    )
    return path


def python_lines(folder, build):
    from coverage import CoverageData

    lines = {}
    for path in folder.glob("python.*"):
        data = CoverageData(str(path))
        data.read()
        for name in data.measured_files():
            merge(lines, {os.path.relpath(os.path.realpath(name), build.tree): data.lines(name) or []})
    return lines


def executable(text):
    """The lines for which Python's compiler generates code."""
    lines, codes = set(), [compile(text, "", "exec")]
    while codes:
        code = codes.pop()
        lines |= {line for _, _, line in code.co_lines() if line}
        codes += [constant for constant in code.co_consts if hasattr(constant, "co_lines")]
    return sorted(lines)
