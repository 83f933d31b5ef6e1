"""Sums up the JUnit files of CTest and pytest: failed and skipped tests, the slowest tests, and the line of counts."""

import re
import typing
import xml.etree.ElementTree

# Lines of GTest, and warnings that a test causes. Any other line that a passed test prints is kept; most are counts of
# cases.
NOISE = re.compile(r"^(Running main|karez warning: |\[[ =-]*(RUN|OK|PASSED|SKIPPED)? *\]|Note: |$)")
SLOWEST = 10


class Result(typing.NamedTuple):
    name: str
    outcome: str  # passed, failed or skipped
    seconds: float
    printed: tuple = ()  # lines that a passed test printed


class Counts(typing.NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def good(self):
        return self.failed == 0 and self.passed > 0

    def plus(self, other):
        return Counts(*map(sum, zip(self, other)))

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def of_ctest(path):
    """The results of `ctest --output-junit`; empty if there is no file."""
    results = []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase") if path.exists() else ():
        name, seconds, output = case.get("name"), float(case.get("time") or 0), case.findtext("system-out") or ""
        outcome = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(case.get("status"), "failed")
        if case.get("status") == "notrun" and "[  SKIPPED ]" not in output:
            outcome = "failed"  # not run: its program is missing
        if outcome == "passed" and "[  PASSED  ] 1 test" not in output:
            name, outcome = name + " (ended prematurely)", "failed"
        lines = tuple(line for line in output.splitlines() if not NOISE.match(line)) if outcome == "passed" else ()
        results.append(Result(name, outcome, seconds, lines))
    return results


def of_pytest(path):
    """The results of `pytest --junitxml`; empty if there is no file."""
    results = []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase") if path.exists() else ():
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        name = re.sub(r"@\w+$", "", case.get("name"))  # without its group
        results.append(Result(f"{case.get('classname')}.{name}", outcome, float(case.get("time") or 0)))
    return results


def allowed_skips(path):
    return {line.split("#")[0].strip() for line in path.read_text().splitlines()} - {""}


def add_up(results, allowed, other_failures=()):
    """Prints failures, skips and the slowest tests, and returns the counts. `other_failures` are failures that belong
    to no test."""
    for result in results:
        for line in result.printed:
            print(line)
    print(f"the {SLOWEST} slowest:")
    for result in sorted(results, key=lambda r: -r.seconds)[:SLOWEST]:
        print(f"{result.seconds:8.2f} s  {result.name}")
    failed = [r.name for r in results if r.outcome == "failed"]
    skipped = 0
    for name in (r.name for r in results if r.outcome == "skipped"):
        if re.sub(r"^\w+_test:", "", name) in allowed:
            skipped += 1
            print("skipped:", name)
        else:
            failed.append(name)
            print("skipped:", name, "(not in tests/allowed_skips.txt: counts as failed)")
    for name in [*failed, *other_failures]:
        print("failed:", name)
    return Counts(sum(r.outcome == "passed" for r in results), len(failed) + len(other_failures), skipped)
