"""./dev mutants FOLDER N --seed S: plants N random faults in a folder or file, and reports which of them tests
notice."""

import argparse
import pathlib
import random
import sys
import time

from .build import Build, BuildFailure, Copy, tracked
from .hunt import COUNTED, HEAD, Judge, hunt, record_of, table
from .places import MutantsError, equivalents, generator, sources, stale
from .suites import PYTEST_FOLDERS, Runner, test_files

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK_FOLDER = ROOT / "build-mutants"
EQUIVALENTS_FILE = "tests/equivalent_mutants.txt"


def say(text):
    print(text, flush=True)


def own_tests(path, binaries):
    """The tests of the component to which a file belongs: test binaries, or folders with pytest files. None if it has
    no tests."""
    top = path.removeprefix("karez/").split("/")[0]
    own_programs = {
        "ops": ("ops_test", "system_test"),  # sharding equivalence and gradients are in tests/
        "python": ("python/tests",),
        "tools": ("command_test", "tests"),
    }.get(top, (f"{top}_test",))
    return own_programs if all(name in binaries or name in PYTEST_FOLDERS for name in own_programs) else None


def maps_of(build, runner, binaries, files, remeasure):
    """The coverage maps of the binaries and of the pytest files. A stored map is reused, and new suites are added to
    it."""
    from .coverage_map import Map, Measure

    measure, maps = Measure(build, runner, say), {}
    for name in [*binaries, *(["pytest"] if files else [])]:
        path = WORK_FOLDER / "coverage" / f"{name}.json"
        old = Map.load(path)
        if old and (remeasure or old.is_stale(build.copy.hash)):
            old = None
        new_map = measure.map(name, files, old, lambda new_map, path=path: new_map.save(path))
        if new_map is old and old.content["tree"] != build.copy.hash:
            say(
                f"the coverage map of {name} was measured {old.age() / 3600:.1f} h ago on another tree; its lines are "
                f"mapped to this tree"
            )
        maps[name] = new_map.only(files) if name == "pytest" else new_map
    return maps


def main():
    parser = argparse.ArgumentParser(prog="./dev mutants", description=__doc__.split(": ", 1)[1])
    parser.add_argument(
        "folder", help="a component (plan), a folder (karez/passes/logical/algebra, python/karez) or a file"
    )
    parser.add_argument("count", type=int, help="number of faults")
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1 << 31),
        help="seed of the draw; default: random, and printed",
    )
    parser.add_argument(
        "--own", action="store_true", help="run only the component's own tests: faster, but more faults are missed"
    )
    parser.add_argument("--limit", type=float, default=120, help="seconds of tests for one fault (%(default)s)")
    parser.add_argument(
        "--measure", action="store_true", help="measure coverage again, even if the stored map is recent"
    )
    options = parser.parse_args()
    if options.count < 1:
        raise MutantsError(f"the number of faults must be at least 1, got {options.count}")
    generate = generator()
    files = sources(ROOT, tracked(ROOT), options.folder)
    rows = equivalents((ROOT / EQUIVALENTS_FILE).read_text())
    if wrong := stale(rows, ROOT):
        raise MutantsError("\n".join(wrong))

    copy = Copy(ROOT, WORK_FOLDER)
    build = Build(copy, WORK_FOLDER, sys.executable)
    begin = time.monotonic()
    build.configure()
    binaries = build.binaries()
    program_sets = {own_tests(path, binaries) for path in files}
    if len(program_sets) > 1 or None in program_sets:
        raise MutantsError(f"'{options.folder}' has no tests, or is not in a single component; name a component")
    (own_programs,) = program_sets
    if not options.own and not (WORK_FOLDER / "coverage").is_dir():
        say("building and measuring all tests; this is done only once and takes a long time")
    own_binaries = [name for name in own_programs if name in binaries]
    folders = [name for name in own_programs if name in PYTEST_FOLDERS] if options.own else PYTEST_FOLDERS
    build.make(*([*own_binaries, *(build.programs() if folders else [])] if options.own else []))
    build.read()
    runner = Runner(copy.tree, sys.executable)
    maps = maps_of(
        build, runner, own_binaries if options.own else binaries, test_files(copy.tree, folders), options.measure
    )
    say(f"built and mapped in {time.monotonic() - begin:.0f} s; --seed {options.seed}")

    record = record_of(WORK_FOLDER, options.folder, options.seed, options.own, copy.hash)
    if record.known:
        say(f"faults of this draw with a stored verdict: {len(record.known)}")
    judge = Judge(build, runner, maps, own_binaries or ["pytest"], options.limit)
    verdicts = hunt(copy.tree, files, options.seed, options.count, generate, rows, record, judge.judge, say)
    missed = [verdict for verdict in verdicts if verdict.result in ("missed", "not run")]
    for item in missed:
        say(f"missed: {item}")
    say(f"{HEAD}\n{table(options.folder, verdicts)}")
    counted = sum(verdict.result in COUNTED for verdict in verdicts)
    if counted < options.count:
        say(f"{counted} of {options.count}: interrupted, or no lines are left")
    return 1 if missed or counted < options.count else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MutantsError, BuildFailure) as wrong:
        sys.exit(f"mutants: {wrong}")
    except KeyboardInterrupt:
        sys.exit("mutants: interrupted; the same command continues")
