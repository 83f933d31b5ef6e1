"""Plants small bugs, one at a time, in a copy of the tree, and tells which the tests notice.

Rows stand in tests/mutants.txt, a blank line between two:

    file plan/ports.cc
    - missing_ = static_cast<std::int32_t>(inputs_.size());
    + missing_ = 0;
    who plan_test

The lines after '-' stand together in the file exactly once, blanks at their ends apart; one '-' line may also be a part of a line. The lines
after '+' take their place; with none, the old ones go. `who` names the test binary that must fail (or crash, or hang),
or a file of pytest's, python/tests/test_compile.py or tests/doctor_kernels_test.py. '#' begins a comment line.
"""

import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ROOT / "tests" / "mutants.txt"
PYTHON = str(ROOT / ".venv" / "bin" / "python")
ENOUGH = 0.95


class Wrong(Exception):
    """A row that cannot be planted."""


@dataclass
class Row:
    line: int
    file: str = ""
    who: str = ""
    old: list = field(default_factory=list)
    new: list = field(default_factory=list)

    def __str__(self):
        return f"{self.file}: {' / '.join(self.old)[:70]}  ->  {' / '.join(self.new)[:70] or '(nothing)'}"


def parse(text):
    rows, row = [], None
    for number, line in enumerate(text.splitlines() + [""], 1):
        line = line.strip()
        if not line:
            if row and not (row.file and row.old and row.who and row.old != row.new):
                raise Wrong(f"line {row.line}: a row needs file, '-', who, and a '+' that differs")
            rows, row = rows + ([row] if row else []), None
            continue
        if line.startswith("#"):
            continue
        row = row or Row(number)
        word, _, rest = line.partition(" ")
        if word in ("-", "+"):
            (row.old if word == "-" else row.new).append(rest.strip())
        elif word in ("file", "who") and rest and not getattr(row, word):
            setattr(row, word, rest.strip())
        else:
            raise Wrong(f"line {number}: expected 'file', '-', '+' or 'who' once each, not '{line}'")
    return rows


def plant(text, row):
    """The file's text with the bug in it."""
    lines = text.split("\n")
    bare = [line.strip() for line in lines]
    size = len(row.old)
    whole = [i for i in range(len(lines) - size + 1) if bare[i : i + size] == row.old]
    if len(whole) == 1:
        indent = re.match(r"\s*", lines[whole[0]]).group()
        lines[whole[0] : whole[0] + size] = [indent + line for line in row.new]
        return "\n".join(lines)
    found = len(whole) or (text.count(row.old[0]) if size == 1 else 0)
    if found != 1:
        raise Wrong(f"line {row.line}: {row.file} holds the old text {found} times: {' / '.join(row.old)[:100]}")
    if len(row.new) > 1:
        raise Wrong(f"line {row.line}: a part of a line is replaced by a part of a line")
    return text.replace(row.old[0], row.new[0] if row.new else "")


def faults(rows, root):
    """What is wrong with the rows against a tree, without building anything."""
    out = []
    for row in rows:
        try:
            if not (root / row.file).is_file():
                raise Wrong(f"line {row.line}: there is no {row.file}")
            plant((root / row.file).read_text(), row)
        except Wrong as wrong:
            out.append(str(wrong))
    return out


class Copy:
    """The tree without what git ignores, and its build; a file is written only if it differs, so that builds are incremental."""

    def __init__(self, place, quiet):
        self.tree, self.build, self.quiet = place, place / "build", quiet
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
        for name in names:
            self.write(name, (ROOT / name).read_bytes())
        for path in [p for p in self.tree.rglob("*") if p.is_file()]:
            name = path.relative_to(self.tree)
            if name.parts[0] != "build" and str(name) not in names:
                path.unlink()

    def write(self, name, content):
        path = self.tree / name
        if path.is_file() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def configure(self):
        words = ["cmake", "--log-level=WARNING", "-G", "Ninja", "-S", str(self.tree), "-B", str(self.build), f"-DPython_EXECUTABLE={PYTHON}"]
        if subprocess.run(["which", "ccache"], capture_output=True).returncode == 0:
            words += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def make(self, *targets):
        """None, or what the compiler said."""
        rc, out = run(["ninja", "-C", str(self.build), *{name for one in targets for name in targets_of(one)}], self.tree, None)
        return None if rc == 0 else "\n".join(line for line in out.splitlines() if "error" in line or "FAILED" in line)[:600]

    def test(self, who, limit):
        """True if the binary passes within the limit, and its seconds."""
        begin = time.monotonic()
        if who.endswith(".py"):
            words = [PYTHON, "-m", "pytest", "-q", "-x", str(self.tree / who)]
        else:
            words = [str(self.build / who), "--gtest_brief=1", "--gtest_fail_fast"]
        rc, out = run(words, self.tree, limit)
        if rc != 0 and not self.quiet:
            failed = sorted(set(re.findall(r"(?:\[  FAILED  \]|^FAILED) ([\w./:]+)", out, re.M)))
            print(f"    noticed by {failed[0] if failed else who + ' with exit code ' + str(rc)}")
        return rc == 0, time.monotonic() - begin


def targets_of(who):
    """What is built for a test: its binary; or the Python package, and the command that starts ranks of it."""
    if not who.endswith(".py"):
        return [who]
    return ["karez_python", "karez_command", *(["karez_stubs"] if who.endswith("test_types.py") else [])]


def run(words, folder, limit):
    """Exit code and output of a program that goes, with all its children, when its time is up or we are interrupted."""
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        out, _ = process.communicate(timeout=limit)
        return process.returncode, out
    except BaseException as why:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        if isinstance(why, subprocess.TimeoutExpired):
            return 124, out
        raise


def hunt(rows, copy):
    """Plants each row in turn. Returns the rows caught, those that lived and those that do not compile."""
    caught, lived, invalid = [], [], []
    copy.configure()
    targets = sorted({row.who for row in rows})
    if said := copy.make(*targets):
        sys.exit(f"mutants: the tree itself does not build:\n{said}")
    limit = {}
    for who in targets:
        passes, seconds = copy.test(who, 600)
        if not passes:
            sys.exit(f"mutants: {who} fails without any bug planted")
        limit[who] = 60 + 10 * seconds
    try:
        for number, row in enumerate(rows, 1):
            print(f"{number}/{len(rows)} {row}", flush=True)
            sound = (copy.tree / row.file).read_bytes()
            copy.write(row.file, plant(sound.decode(), row).encode())
            try:
                said = copy.make(row.who)
                kind = invalid if said else lived if copy.test(row.who, limit[row.who])[0] else caught
            finally:
                copy.write(row.file, sound)
            kind.append(row)
            if kind is not caught:
                print("    LIVES" if kind is lived else f"    does not compile: {said}", flush=True)
    except KeyboardInterrupt:
        print("interrupted: what follows counts the rows so far")
    return caught, lived, invalid


def main():
    words = argparse.ArgumentParser(prog="./dev mutants", description=__doc__.split("\n")[0])
    words.add_argument("sample", nargs="?", type=int, help="so many rows, drawn at random; all if not given")
    words.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="of the draw")
    words.add_argument("--rows", type=pathlib.Path, default=ROWS, help="another list than tests/mutants.txt")
    words.add_argument("--only", default="", help="rows whose file or test begins so: plan/, runtime_test")
    words.add_argument("--check", action="store_true", help="only see that every row fits the tree")
    words.add_argument("--quiet", action="store_true", help="do not say which test noticed")
    given = words.parse_args()
    try:
        rows = parse(given.rows.read_text())
    except Wrong as wrong:
        sys.exit(f"mutants: {given.rows}: {wrong}")
    rows = [row for row in rows if row.file.startswith(given.only) or row.who.startswith(given.only)]
    if wrong := faults(rows, ROOT):
        sys.exit("\n".join(f"mutants: {given.rows}: {fault}" for fault in wrong))
    if given.check:
        sys.exit(f"mutants: {len(rows)} rows fit the tree" if not rows else print(f"{len(rows)} rows fit the tree"))
    if given.sample is not None and given.sample < len(rows):
        rows = random.Random(given.seed).sample(rows, given.sample)
        print(f"{len(rows)} rows drawn with --seed {given.seed}")
    rows.sort(key=lambda row: (row.who, row.file))  # neighbours share what a build makes
    caught, lived, invalid = hunt(rows, Copy(ROOT / "build-mutants", given.quiet))
    for row in lived:
        print(f"lives (line {row.line}, {row.who}): {row}")
    for row in invalid:
        print(f"does not compile (line {row.line}): {row}")
    share = len(caught) / max(1, len(caught) + len(lived))
    print(f"{len(caught)} caught, {len(lived)} lived, {len(invalid)} invalid of {len(rows)}: {100 * share:.1f} %")
    sys.exit(share < ENOUGH or bool(invalid) or len(caught) + len(lived) < len(rows))


if __name__ == "__main__":
    main()
