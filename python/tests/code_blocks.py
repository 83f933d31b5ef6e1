"""Finds the code blocks of the documentation, and lists the blocks that no test runs, each with the reason."""

import pathlib
import re
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder in (".", "docs", "docs/decisions", "bench")
    for path in (ROOT / folder).glob("*.md")
)

NETWORK = "installs packages from the network, or compiles"
ALL_TESTS = "runs tests or checks that take minutes"
LAUNCHERS = "needs a job of several ranks or hosts; tests/run_test.py and tests/run_mpi_test.py start such jobs"
DOCTOR = "measures for up to half a minute; tests/doctor_kernels_test.py runs the command"
RANKS = "is printed when ranks fail or differ; tests/faults_test.py causes such failures"
DRAWING = "is a drawing"
SYNTAX = "shows a syntax"

# (page, beginning of the block): the reason why no test runs it.
NOT_RUN = {
    ("CONTRIBUTING.md", "./dev build "): NETWORK,
    ("CONTRIBUTING.md", "./dev test "): ALL_TESTS,
    ("README.md", "./dev demo "): NETWORK,
    ("README.md", "./train "): LAUNCHERS,
    ("README.md", "auto step = compile(world.mesh("): "is a fragment; tests/placements_test.cc trains such pipelines",
    ("docs/adding.md", "./dev test --update"): ALL_TESTS,
    ("docs/checks.md", "./dev mutants "): ALL_TESTS,
    ("docs/decisions/parts-in-micro-batches.md", "2 devices with rows"): DRAWING,
    ("docs/distributed.md", "./train "): LAUNCHERS,
    ("docs/distributed.md", "karez doctor -n 4"): DOCTOR,
    ("docs/distributed.md", "4 ranks on 2 hosts"): DOCTOR,
    ("docs/distributed.md", "karez doctor --kernels"): DOCTOR,
    ("docs/distributed.md", "karez run [-n N]"): SYNTAX,
    (
        "docs/distributed.md",
        "World world({.devices = 2});",
    ): "is a fragment; tests/processes_test.cc runs such programs",
    ("docs/distributed.md", "the ranks do not run the same program"): RANKS,
    ("docs/distributed.md", "rank 0 requests a read of"): RANKS,
    ("docs/distributed.md", "rank 2's World differs from rank 0's"): RANKS,
    ("docs/distributed.md", "the links of function 'step'"): RANKS,
    ("docs/distributed.md", "rank 1 (alpha, process 4711) has stopped"): RANKS,
    ("docs/distributed.md", "rank 1 (alpha, process 4711) waits"): RANKS,
    ("docs/distributed.md", "karez warning: rank 1"): RANKS,
    ("docs/distributed.md", "karez flight explain DIR"): RANKS,
    ("docs/distributed.md", "3 ranks, 2 records"): RANKS,
    ("docs/install.md", "./dev build"): "compiles and installs; tests/install_test.py does the same",
    ("docs/install.md", "karez doctor --kernels --save"): DOCTOR,
    ("docs/install.md", "KAREZ_MAX_CPU_ISA=avx2 ./dev test"): ALL_TESTS,
    ("docs/tools.md", "karez profile --steps 20"): "needs a program; tests/command_profile_test.py runs such commands",
    ("docs/layouts.md", "          k = 0:3"): DRAWING,
    ("docs/layouts.md", "   v 32@data, 64"): DRAWING,
    ("docs/testing.md", "KAREZ_SEED=1234 ./dev test"): ALL_TESTS,
    ("docs/tour.md", "%9 = matmul(%1, %4)"): "is one line of a graph",
}


class Block(NamedTuple):
    """A fenced block of a page: its language, its text, the text of the page above it, and the line of the fence."""

    language: str
    body: str
    above: str
    line: int


def blocks_of(page: str) -> list:
    text = (ROOT / page).read_text()
    fences = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [
        Block(match[1], match[2], text[: match.start()], text.count("\n", 0, match.start()) + 1) for match in fences
    ]


def reason_not_run(page: str, block: Block):
    """Returns the reason why no test runs the block, or None if a test must run it."""
    rows = NOT_RUN.items()
    return next((reason for (name, text), reason in rows if name == page and block.body.startswith(text)), None)


def quoted_file(block: Block):
    """Returns the last file in backticks above the block, or None."""
    paths = re.findall(r"`((?:[\w.]+/)*[\w.]+\.(?:cc|h|py|txt|cmake))`", block.above)
    return ROOT / paths[-1] if paths else None


def lines_match(expected: str, output: str) -> bool:
    """Whether the lines of a page equal those of an output, apart from numbers and spaces. A line "..." matches any
    number of lines."""

    def normalised_lines(text):
        text = re.sub(r"-?\b(?:[0-9a-f]{16}|\d[\d.,]*)(?!\w)", "#", text)
        return [" ".join(line.split()) for line in text.splitlines()]

    lines, position, gap = normalised_lines(output), 0, False
    for line in normalised_lines(expected):
        if line.startswith("..."):
            gap = True
            continue
        if gap:
            position = next((i for i in range(position, len(lines)) if lines[i] == line), len(lines))
        if position == len(lines) or lines[position] != line:
            return False
        position, gap = position + 1, False
    return gap or position == len(lines)
