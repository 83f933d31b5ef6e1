"""Plants the faults of a draw one by one, judges whether a test notices each of them, and stores the verdicts."""

import contextlib
import dataclasses
import json
import pathlib
import time
from dataclasses import dataclass

from .build import BuildFailure
from .places import draw, faults_of, is_equivalent, python_shape
from .suites import CORES, Detection, Outcome, notice

TRIES = 4  # the maximum number of faults to try per line, until one compiles and changes the code
MAX_REBUILT_OBJECTS = 12  # another component's binary is not rebuilt if a fault affects more of its objects than this
COUNTED = ("noticed", "missed", "not run")


@dataclass
class Verdict:
    path: str
    line: int
    old: str
    new: str
    result: str  # noticed, missed, not run; or invalid, same code, equivalent, which do not count
    by: str = ""
    seconds: float = 0
    note: str = ""

    def __str__(self):
        how = {
            "noticed": f"noticed by {self.by}",
            "missed": "MISSED" + (f", {self.note}" if self.note else ""),
            "not run": "MISSED, no test runs the line",
            "invalid": f"does not compile: {self.note.partition('error: ')[2].partition(chr(10))[0] or self.note}",
            "same code": "compiles to the same code",
            "equivalent": "is on the list of equivalents",
        }[self.result]
        new = "\n".join(f"    + {line.strip()}" for line in self.new.split("\n"))
        return f"{self.path}:{self.line}: {how} ({self.seconds:.1f} s)\n    - {self.old.strip()}\n{new}"


class Record:
    """The verdicts of one draw, one line of JSON each; an interrupted run continues from them."""

    def __init__(self, path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.is_file() else ""
        rows = text.splitlines()
        if text and not text.endswith("\n"):
            path.write_text(text + "\n")  # the last row was truncated
        self.known = {}
        for row in rows:
            with contextlib.suppress(json.JSONDecodeError, TypeError):
                one = Verdict(**json.loads(row))
                self.known[one.path, one.line, one.new] = one

    def add(self, verdict):
        self.known[verdict.path, verdict.line, verdict.new] = verdict
        with open(self.path, "a") as file:
            file.write(json.dumps(dataclasses.asdict(verdict)) + "\n")


class Judge:
    """Judges faults in a built tree. Runs only the suites that cover a fault according to the coverage maps: those of
    the component's own programs first, pytest files last."""

    def __init__(self, build, runner, maps, own_programs, limit):
        self.build, self.runner, self.maps, self.limit = build, runner, maps, limit
        self.order = sorted(
            maps,
            key=lambda name: (
                name not in own_programs,
                name == "pytest",
                sum(s["seconds"] for s in maps[name].content["suites"].values()),
            ),
        )
        self.own = own_programs

    def covering(self, fault):
        """The suites that run the line, by binary in the order of self.order, the fastest suite of each binary first;
        for a line without code, the suites that run its file."""
        text = self.build.copy.text(fault.path)
        found = {name: self.maps[name].covering(fault.path, fault.line, text) for name in self.order}
        if all(suites is None for suites in found.values()):
            found = {name: self.maps[name].touching(fault.path) for name in self.order}
        return {name: sorted(suites, key=lambda suite: suite.seconds) for name, suites in found.items() if suites}

    def judge(self, fault):
        begin = time.monotonic()
        result, by, note = self.python(fault) if fault.path.endswith(".py") else self.cpp(fault)
        return Verdict(
            fault.path, fault.line, fault.old, fault.new, result, by, round(time.monotonic() - begin, 1), note
        )

    def notice(self, suites, program, environment, budget):
        """The detection or None, and the suites that did not fit the time budget."""
        chosen, skipped, planned = [], [], 0.0
        for suite in suites:
            planned += suite.seconds / CORES
            (chosen if planned <= budget or not chosen and budget > 0 else skipped).append(suite)

        def start(suite, stop, tests) -> Outcome:
            return self.runner.run(self.runner.words(suite, program, tests), suite.limit, stop, environment, suite.busy)

        return (notice(chosen, start) if chosen else None), skipped

    def python(self, fault):
        sound = self.build.copy.text(fault.path)
        shape = python_shape(fault.plant(sound))
        if shape is None or shape == python_shape(sound):
            return "invalid" if shape is None else "same code", "", ""
        suites = self.covering(fault).get("pytest", [])
        if not suites:
            return "not run", "", ""
        try:
            self.build.copy.write(fault.path, fault.plant(sound).encode())
            found, skipped = self.notice(suites, "", {"KAREZ_BUILD": str(self.build.folder)}, self.limit)
        finally:
            self.build.copy.write(fault.path, sound.encode())
        return verdict(found, skipped, [])

    def cpp(self, fault):
        covering = self.covering(fault)
        if not covering:
            return "not run", "", ""
        self.build.begin(fault)
        skipped, wide, changed, begin = [], [], False, time.monotonic()
        try:
            for name, suites in covering.items():
                budget = self.limit - (time.monotonic() - begin)
                if budget <= 0:
                    skipped += suites
                    continue
                targets = (
                    [name]
                    if name != "pytest"
                    else sorted({m for suite in suites for m in self.maps[name].modules(suite.name)})
                )
                objects = {target: self.build.affected(fault.path, target) for target in targets}
                new = {o for of in objects.values() for o in of} - set(self.build.made)
                if name not in self.own and len(new) > MAX_REBUILT_OBJECTS:
                    wide.append(name)
                    continue
                touched = [target for target in targets if self.build.compile(objects[target])]
                if not touched:
                    continue
                changed = True
                programs = [self.build.binary(target) for target in touched]
                environment = {"KAREZ_BUILD": str(self.build.linked_build())} if name == "pytest" else {}
                found, over = self.notice(suites, programs[0], environment, budget)
                skipped += over
                if found:
                    return verdict(found, skipped, wide)
            if not changed and not wide:
                return ("same code", "", "") if self.build.made else ("invalid", "", "no object depends on it")
            return verdict(None, skipped, wide)
        except BuildFailure as why:
            return "invalid", "", str(why)
        finally:
            self.build.clear()


def verdict(found: Detection | None, skipped, wide):
    if found:
        return "noticed", found.how, ""
    notes = [f"{len(skipped)} covering suites skipped for lack of time"] if skipped else []
    notes += [f"not rebuilt: {' '.join(wide)}"] if wide else []
    return "missed", "", "; ".join(notes)


def hunt(root, files, seed, count, generate, equivalents, record, judge, say):
    """Judges faults until `count` verdicts count, and returns all verdicts in order, or those so far if interrupted."""
    verdicts, counted = [], 0
    try:
        for path, number in draw(root, files, seed):
            if counted == count:
                break
            for fault in faults_of(path, (root / path).read_text(), number, generate, seed)[:TRIES]:
                one = record.known.get(fault.key)
                if is_equivalent(fault, equivalents):
                    one = Verdict(fault.path, fault.line, fault.old, fault.new, "equivalent")
                elif one is None or one.result == "equivalent":
                    one = judge(fault)
                    record.add(one)
                verdicts.append(one)
                counted += one.result in COUNTED
                say(f"{counted}/{count} {one}")
                if one.result in COUNTED or one.result == "same code" and path.endswith(".h"):
                    break  # a header takes many compiles, and other faults of the line probably change nothing either
    except KeyboardInterrupt:
        say("interrupted: the same command continues")
    return verdicts


def median(numbers):
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2] if ordered else 0


def table(folder, verdicts):
    """The row of a draw, with the columns of docs/checks.md."""
    count = {kind: sum(v.result == kind for v in verdicts) for kind in (*COUNTED, "invalid", "same code", "equivalent")}
    seconds = [v.seconds for v in verdicts if v.result in COUNTED and v.result != "not run"]
    faults = sum(count[kind] for kind in COUNTED)
    return (
        f"| {folder} | {faults} | {count['noticed']} | {count['missed']} | {count['not run']} "
        f"| {count['invalid']} | {count['same code']} "
        f"| {count['equivalent']} | {median(seconds):.0f} s | {max(seconds, default=0):.0f} s |"
    )


HEAD = (
    "| component | faults | noticed | missed | no test runs it "
    "| do not compile | same code | equivalent | median | longest |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def record_of(place, folder, seed, own_programs, tree_hash):
    name = folder.strip("/").replace("/", "!") + ("-own" if own_programs else "")
    return Record(pathlib.Path(place) / "runs" / f"{name}-{seed}-{tree_hash}.jsonl")
