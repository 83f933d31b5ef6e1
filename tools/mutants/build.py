"""Copies the tree, builds the copy with instrumentation, and builds separate objects and binaries for a fault."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
from dataclasses import dataclass

CORES = os.cpu_count() or 1
FOLDERS = ("tools/", "python/", "bench/", "examples/")  # build folders with programs that pytest's files run
HERE = pathlib.Path(__file__).resolve().parent
# The flags disable optimisations that hide a line's code. With a tail call, coverage_table.cc would not see its caller.
FLAGS = (
    "-O1 -g1 -gno-column-info -gno-statement-frontiers -fno-inline-functions-called-once -fno-optimize-sibling-calls "
    "-fsanitize-coverage=trace-pc"
)


class BuildFailure(Exception):
    """The errors of the compiler or the linker."""


def tracked(root):
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    return sorted(name for name in listing.stdout.split("\0") if name and (root / name).is_file())


def run(words, folder, **options):
    """Runs a program and returns its output; raises BuildFailure with its errors if it fails."""
    environment = options.pop("env", os.environ) | {"LC_ALL": "C"}
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        **options,
    )
    if done.returncode != 0:
        errors = [
            line
            for line in done.stdout.splitlines()
            if "error" in line or "FAILED" in line or "multiple definition" in line
        ]
        raise BuildFailure("\n".join(errors or done.stdout.splitlines()[-3:])[:600])
    return done.stdout


class Copy:
    """A copy of the tree without ignored files. A file is written only if it differs, so that builds are
    incremental."""

    def __init__(self, root, place):
        self.tree = place / "tree"
        names = tracked(root)
        for name in names:
            self.write(name, (root / name).read_bytes())
        for path in [p for p in self.tree.rglob("*") if p.is_file()]:
            if str(path.relative_to(self.tree)) not in names and "__pycache__" not in path.parts:
                path.unlink()
        self.names = names
        digest = hashlib.sha256()
        for name in names:
            if not name.endswith(".md"):
                digest.update(f"{name}\0".encode() + (self.tree / name).read_bytes() + b"\0")
        self.hash = digest.hexdigest()[:16]

    def write(self, name, content):
        path = self.tree / name
        if path.is_file() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        shutil.copymode(HERE / "__init__.py", path) if not content.startswith(b"#!") else path.chmod(0o755)

    def text(self, name):
        return (self.tree / name).read_text()


@dataclass
class Compile:
    source: str  # relative to the tree
    command: list


class Build:
    """The build of the copy. A fault does not change it: the objects and binaries of a fault are in a separate
    folder."""

    def __init__(self, copy, place, python):
        self.copy, self.tree, self.folder, self.mutant = copy, copy.tree, place / "build", place / "mutant"
        self.python = python
        self.made = {}  # object -> whether the fault changes its code
        self.sound = {}  # object -> the hash of its code without a fault
        self.links = {}

    def configure(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        table = self.folder / "coverage_table.o"
        run(
            [
                "c++",
                "-std=c++20",
                "-O2",
                "-fPIC",
                "-c",
                str(self.tree / "tools/mutants/coverage_table.cc"),
                "-o",
                str(table),
            ],
            self.tree,
        )
        run(
            [
                "cmake",
                "--log-level=WARNING",
                "-G",
                "Ninja",
                "-S",
                str(self.tree),
                "-B",
                str(self.folder),
                "-DCMAKE_BUILD_TYPE=Mutants",
                f"-DCMAKE_CXX_FLAGS_MUTANTS={FLAGS}",
                "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                "-DKAREZ_CCACHE=OFF",  # ccache would pass other paths to the compiler
                f"-DPython_EXECUTABLE={self.python}",
                *[f"-DCMAKE_{kind}_LINKER_FLAGS={table}" for kind in ("EXE", "MODULE", "SHARED")],
            ],
            self.tree,
        )

    def make(self, *targets):
        run(["ninja", "-C", str(self.folder), *targets], self.tree)

    def binaries(self):
        """Every test binary, by its target."""
        out = run(["ninja", "-C", str(self.folder), "-t", "targets", "all"], self.tree)
        rows = [line.split(": ") for line in out.splitlines() if ": CXX_EXECUTABLE_LINKER" in line]
        return sorted(name for name, _ in rows if name.endswith("_test"))

    def programs(self):
        """The default targets without the test binaries: programs and Python's module."""
        built = run(["ninja", "-C", str(self.folder), "-t", "query", "all"], self.tree).splitlines()
        return sorted(name.strip() for name in built if name.strip().startswith(FOLDERS))

    def read(self):
        """Reads from a finished build the compile command of each object and the files that it depends on."""
        self.compiles, self.dependents = {}, {}
        for row in json.loads((self.folder / "compile_commands.json").read_text()):
            command = shlex.split(row["command"])
            source = os.path.relpath(row["file"], self.tree)
            if "-o" in command and not source.startswith(".."):
                self.compiles[command[command.index("-o") + 1]] = Compile(source, command)
        object_name = None
        for line in run(["ninja", "-C", str(self.folder), "-t", "deps"], self.tree).splitlines():
            if line and not line.startswith(" "):
                object_name = line.split(": #deps")[0]
            elif object_name in self.compiles and line.strip():
                name = os.path.relpath(os.path.join(self.folder, line.strip()), self.tree)
                if not name.startswith(".."):
                    self.dependents.setdefault(name, set()).add(object_name)

    def link(self, target):
        """The link command of a target, its objects named in the command, and its objects from libraries."""
        if target not in self.links:
            text = (
                run(["ninja", "-C", str(self.folder), "-t", "commands", "-s", target], self.tree)
                .strip()
                .splitlines()[-1]
            )
            (line,) = [part for part in text.split("&&") if " -o " in part]
            words = shlex.split(line)
            libraries = {pathlib.Path(w).name[3:-2] for w in words if w.endswith(".a")}
            inside = {
                o for o in self.compiles if o.startswith("CMakeFiles/") and o.split("/")[1][: -len(".dir")] in libraries
            }
            self.links[target] = words, {w for w in words if w in self.compiles}, inside
        return self.links[target]

    def affected(self, path, target):
        """The objects of a target that depend on a file."""
        _, direct, inside = self.link(target)
        return sorted(self.dependents.get(path, set()) & (direct | inside))

    def begin(self, fault):
        """Plants a fault, which later calls of compile and binary use."""
        self.clear()
        text = fault.plant(self.copy.text(fault.path))
        path = self.mutant / "overlay" / fault.path
        path.parent.mkdir(parents=True)
        path.write_text(text)

    def clear(self):
        self.made = {}
        shutil.rmtree(self.mutant, ignore_errors=True)

    def compile(self, objects):
        """Compiles with the fault those objects that are not compiled yet. Returns whether the fault changes the code
        of any of the objects."""
        new = [o for o in objects if o not in self.made]
        with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
            for object_name, changed in zip(new, pool.map(self.compile_one, new)):
                self.made[object_name] = changed
        return any(self.made[o] for o in objects)

    def compile_one(self, object_name):
        overlay, out = self.mutant / "overlay", self.mutant / "objects" / object_name
        out.parent.mkdir(parents=True, exist_ok=True)
        one = self.compiles[object_name]
        words = [word for word in one.command if word != "-Winvalid-pch"]
        words[words.index("-o") + 1] = str(out)
        if (overlay / one.source).is_file():
            words[words.index("-c") + 1] = str(overlay / one.source)
        first = next(i for i, word in enumerate(words) if word.startswith("-"))
        maps = [word for word in words if word.startswith(f"-ffile-prefix-map={self.tree}")]
        maps = maps or [f"-ffile-prefix-map={self.tree}={self.tree}"]
        maps = [word.replace(str(self.tree), str(overlay), 1) for word in maps]  # so that strings with paths stay equal
        words[first:first] = [f"-I{overlay}", *maps, "-w"]
        run(words, self.folder)
        if missing := self.functions(self.folder / object_name) - self.functions(out):
            # The linker would take the object without the fault from its library.
            raise BuildFailure(f"error: the object does not define {min(missing)} any more")
        if object_name not in self.sound:
            self.sound[object_name] = self.code(self.folder / object_name)
        return self.code(out) != self.sound[object_name]

    def functions(self, path):
        """The functions and data that an object defines for others; those of inline functions may be missing."""
        lines = run(["nm", "--extern-only", "--defined-only", "--format=posix", str(path)], self.folder).splitlines()
        return {line.split()[0] for line in lines if line.split()[1] in "TDBR"}

    def code(self, path):
        """The hash of an object without its debug information."""
        bare = self.mutant / f"bare{hashlib.md5(str(path).encode()).hexdigest()}"
        run(["objcopy", "--strip-debug", str(path), str(bare)], self.folder)
        content = bare.read_bytes()
        bare.unlink()
        return hashlib.sha256(content).digest()

    def binary(self, target):
        """Links a target with the fault; returns the path of the binary."""
        words, direct, inside = self.link(target)
        object_path = lambda object_name: str(self.mutant / "objects" / object_name)
        out = self.mutant / "build" / target
        out.parent.mkdir(parents=True, exist_ok=True)
        out.unlink(missing_ok=True)  # it may be a link to the binary without the fault
        changed = {o for o in self.made if self.made[o]}
        words = [object_path(w) if w in changed & direct else w for w in words]
        words[words.index("-o") + 1] = str(out)
        first = next(i for i, word in enumerate(words) if word.endswith(".o"))
        words[first:first] = [
            object_path(o) for o in sorted(changed & inside)
        ]  # before the library, so that these objects replace the library's
        run([*words, "-Wl,--strip-debug"], self.folder)
        return out

    def linked_build(self):
        """A build folder for tests that run programs: the binaries with the fault, and links to all other files of the
        build without a fault."""
        for path in [
            *self.folder.glob("tools/*"),
            *self.folder.glob("examples/*"),
            *self.folder.glob("bench/*"),
            *self.folder.rglob("python/karez/**/*"),
        ]:
            if path.is_file():
                link = self.mutant / "build" / path.relative_to(self.folder)
                link.parent.mkdir(parents=True, exist_ok=True)
                if not link.exists():
                    link.symlink_to(path)
        return self.mutant / "build"
