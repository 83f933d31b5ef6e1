"""./dev test: builds the selected tests, runs them with CTest and pytest in parallel, and sums up their results."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import busy
import goldens
import names
import summary

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("KAREZ_BUILD", "build")
RESULTS = BUILD / "results"
SECONDS = 120  # a test's time limit, unless cmake/test_limits.cmake or a pytest mark sets another
QUICK = 2  # seconds; slower tests, by their last run, are not quick
CORES = len(os.sched_getaffinity(0))


def say(text):
    print("dev:", text, flush=True)


def options():
    p = argparse.ArgumentParser(
        prog="./dev test", description="Builds and runs tests: all, or those that the names select."
    )
    p.add_argument(
        "names", nargs="*", metavar="NAME", help="a component, a test file, a suite, a test, or a pattern with *"
    )
    p.add_argument("--all", "--long", action="store_true", dest="everything", help="run all cases instead of samples")
    p.add_argument(
        "--update", action="store_true", help="rewrite golden texts and pinned numbers, and print what changed"
    )
    p.add_argument(
        "--busy",
        nargs="?",
        type=int,
        const=CORES,
        default=0,
        metavar="N",
        help="keep N cores (default: all) busy at the same time",
    )
    p.add_argument("--times", type=int, default=1, metavar="N", help="run the tests N times")
    p.add_argument("--limits", type=int, default=1, metavar="N", help="multiply time limits by N")
    p.add_argument("--built", action="store_true", help="build nothing and run existing binaries")
    p.add_argument("--cpp", action="store_true", help="run only tests in C++")
    p.add_argument("--quick", action="store_true", help="run only tests in C++ that took under 2 s in their last run")
    o = p.parse_intermixed_args()
    o.cpp = o.cpp or o.quick
    o.limits *= (15 if o.everything else 1) * (1 + 2 * -(-o.busy // CORES))
    return o


def chosen(tests, words):
    """The tests that the words select, in the order of the sources; ends the program if a word selects none."""
    wanted = set()
    for word in words:
        found = names.select(tests, word, ROOT, pathlib.Path(os.environ.get("KAREZ_START", ".")))
        if not found:
            sys.exit("dev: " + names.unknown(tests, word))
        wanted.update(found)
    return [t for t in tests if t in wanted]


def build(targets):
    if subprocess.run([ROOT / "dev", "build", *targets]).returncode != 0:
        sys.exit("dev: the build failed")


def ctest_tests():
    """Number and name of every test of CTest in the build folder."""
    listing = subprocess.run(["ctest", "--test-dir", BUILD, "-N"], capture_output=True, text=True)
    if listing.returncode != 0:
        sys.exit(listing.stdout + listing.stderr)
    return [(int(number), name) for number, name in re.findall(r"^\s*Test\s+#(\d+): (.*)$", listing.stdout, re.M)]


def slow_tests():
    """The names of tests that were slow in their last run."""
    times = RESULTS / "seconds.json"
    return (
        {name for name, seconds in json.loads(times.read_text()).items() if seconds > QUICK}
        if times.exists()
        else set()
    )


def keep_seconds(results):
    times = RESULTS / "seconds.json"
    known_seconds = json.loads(times.read_text()) if times.exists() else {}
    times.write_text(json.dumps(known_seconds | {r.name: r.seconds for r in results}))


def run_ctest(numbers, limits):
    """Runs these tests in C++ in parallel and prints those that failed; returns failures that belong to no test."""
    report, selection = RESULTS / "ctest.xml", RESULTS / "selection"
    report.unlink(missing_ok=True)
    selection.write_text(",".join(map(str, [0, 0, 0, *numbers])) + "\n")
    words = [
        "ctest",
        "--test-dir",
        BUILD,
        "-I",
        selection,
        f"-j{CORES}",
        "--timeout",
        SECONDS * limits,
        "--output-on-failure",
        "--no-label-summary",
    ]
    words += ["--output-junit", report, "--test-output-size-passed", 1 << 24, "--test-output-size-failed", 1 << 24]
    environment = os.environ | {"KAREZ_TIME_LIMITS": str(limits)}
    with subprocess.Popen(
        list(map(str, words)), stdout=subprocess.PIPE, text=True, errors="replace", env=environment
    ) as process:
        last_report, over = time.monotonic(), False
        for line in process.stdout:
            over = over or re.match(r"\d+% tests passed", line) is not None
            passed = re.match(r"\s*(\d+/\d+) Test\s+#\d+: .* Passed ", line)
            if (
                not over
                and not passed
                and line.strip()
                and not re.match(r"\s*Start\s+\d+: |Test project |Internal ctest|Errors while running", line)
            ):
                print(line, end="", flush=True)
            if passed and time.monotonic() - last_report > 30:
                last_report = time.monotonic()
                say(f"{passed[1]} tests in C++")
    return [] if report.exists() else [f"ctest, which ended with exit code {process.returncode} and no report"]


def run_pytest(report, words, limits):
    """Runs pytest; returns failures that belong to no test."""
    report.unlink(missing_ok=True)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(BUILD / "python"), os.environ.get("PYTHONPATH")])),
        "KAREZ_TIME_LIMITS": str(limits),
    }
    # AddressSanitizer: Python is built without it, and does not free all memory at exit
    if libraries := os.environ.get("KAREZ_PRELOAD"):
        environment |= {"LD_PRELOAD": libraries, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    # A test that hangs ends its worker. A replacement worker may wait forever (pytest-xdist 3.8, --dist loadgroup).
    options = ["-q", f"--junitxml={report}", f"--timeout={SECONDS * limits}", "--max-worker-restart=0"]
    words = [ROOT / ".venv/bin/python", "-m", "pytest", *options, *words]
    code = subprocess.run(list(map(str, words)), cwd=ROOT, env=environment).returncode
    # 5: no test was selected
    return [] if code in (0, 1, 5) and report.exists() else [f"pytest, which ended with exit code {code}"]


def run_cpp(tests, o):
    """Results of these tests in C++, and failures that belong to no test."""
    wanted = {(t.program, t.name) for t in tests}
    exact = [name for name in o.names if names.is_instance(name)]
    built_tests = ctest_tests()
    found = [(number, name) for number, name in built_tests if names.is_one_of(name, wanted, exact)]
    missing = {program for program, _ in wanted} - {name.split(":")[0] for _, name in built_tests}
    failures = [f"{program}, which is not built" for program in sorted(missing)]
    slow = slow_tests() if o.quick else ()
    numbers = [number for number, name in found if name not in slow]
    if len(numbers) < len(found):
        say(f"{len(found) - len(numbers)} tests that took over {QUICK} s are skipped; ./dev test runs them")
    if not numbers:
        return [], failures
    failures += run_ctest(numbers, o.limits)
    results = summary.of_ctest(RESULTS / "ctest.xml")
    keep_seconds(results)
    return results, failures


def run_python(tests, o):
    """Results of these pytest tests, and failures that belong to no test."""
    results, failures = [], []
    # One more process than cores, because many tests wait for other processes. Tests with the mark `alone` run in a
    # second call of pytest, one at a time.
    alone_files = {t.file for t in tests if "mark.alone" in (ROOT / t.file).read_text()}
    for report, selected_tests, words in (
        ("pytest.xml", tests, ["-n", min(CORES + 1, len(tests)), "--dist", "loadgroup", "-m", "not alone"]),
        ("pytest-alone.xml", [t for t in tests if t.file in alone_files], ["-n", 1, "-m", "alone"]),
    ):
        ids = dict.fromkeys(f"{t.file}::{t.name}" if o.names else t.file for t in selected_tests)
        if ids:
            failures += run_pytest(RESULTS / report, [*words, *ids], o.limits)
            results += summary.of_pytest(RESULTS / report)
    return results, failures


def run(choice, o):
    """Runs the tests once and returns the counts."""
    cpp, python = [t for t in choice if t.component != "python"], [t for t in choice if t.component == "python"]
    results, failures = run_cpp(cpp, o) if cpp else ([], [])
    if python:
        python_results, python_failures = run_python(python, o)
        results, failures = results + python_results, failures + python_failures
    return summary.add_up(results, summary.allowed_skips(ROOT / "tests/allowed_skips.txt"), failures)


def update(choice, o):
    """Runs the tests, rewrites expected values, and reruns the tests whose source changed; returns the counts."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KAREZ_UPDATE"] = folder
        counts = run(choice, o)
        del os.environ["KAREZ_UPDATE"]
        edits, rejections = goldens.edits_of(goldens.read(pathlib.Path(folder), ROOT), ROOT)
    goldens.rewrite(edits, ROOT)
    say(f"{len(edits)} values rewritten" + ("; their tests run again:" if edits else ""))
    for why in rejections:
        say("not rewritten: " + why)
    if edits:
        changed = {str(e.test.relative_to(ROOT)) for e in edits}
        # all tests, if a page changed
        selected = [t for t in choice if t.file in changed] if changed <= {t.file for t in choice} else choice
        prepare(selected, o)
        counts = summary.Counts(0, counts.failed, 0).plus(run(selected, o))
    return counts._replace(failed=counts.failed + len(rejections))


def prepare(choice, o):
    """Builds the targets of these tests, unless --built is given."""
    files = dict.fromkeys(t.file for t in choice if t.component == "python")
    programs = dict.fromkeys(t.program for t in choice if t.component != "python") if o.names else ["all"]
    if not o.built:
        build([*programs, *names.builds(ROOT, files)])


def main():
    o = options()
    tests = names.read(ROOT)
    choice = [t for t in (chosen(tests, o.names) if o.names else tests) if not (o.cpp and t.component == "python")]
    if not choice:
        sys.exit("dev: no tests in C++ have these names")
    prepare(choice, o)
    RESULTS.mkdir(exist_ok=True)
    if o.everything:
        os.environ["KAREZ_ALL"] = "1"
    good, total = 0, summary.Counts()
    with busy.busy(o.busy):
        for run_number in range(1, o.times + 1):
            counts = (update if o.update else run)(choice, o)
            good, total = good + counts.good(), total.plus(counts)
            if o.times > 1:
                say(f"{good} of {run_number} runs passed")
    print(total)
    sys.exit(good != o.times)


if __name__ == "__main__":
    main()
