"""Compares the cheapest slots of larger graphs with the optimum of an independent integer program, which HiGHS
solves."""

# builds: solve_slots
import os
import pathlib
import random
import subprocess

import pytest

root = pathlib.Path(__file__).resolve().parent.parent
try:
    import highspy
except ImportError:
    highspy = None
pytestmark = pytest.mark.skipif(highspy is None, reason="highspy is missing: ./dev deps installs it")

GRAPHS = 50
MAX_SLOTS = 16  # slots of a register


def problem_of(seed):
    """A connected graph with 30 to 60 registers and one act per launch; every other graph has initially full registers
    and stream orders."""
    draw = random.Random(seed)
    loops = seed % 2 == 0
    actors = draw.randint(12, 26)
    seconds = [draw.randint(1, 40) / 8 if loops else round(draw.uniform(0.1, 5), 6) for _ in range(actors)]
    registers = []
    for r in range(draw.randint(30, 60)):
        to = r + 1 if r + 1 < actors else draw.randrange(1, actors)
        at = draw.randrange(max(0, to - 8), to)
        back = loops and r >= actors and draw.random() < 0.15
        more = [c for c in range(to + 1, actors) if not back and draw.random() < 0.02]
        registers.append(
            {
                "producer": to if back else at,
                "consumers": [at] if back else [to, *more],
                "bytes": draw.randint(1, 1000) * 64,
                "filled": draw.randint(1, 3) if back else 0,
            }
        )
    streams, free = [], list(range(actors))
    for _ in range(draw.randint(0, 3) if loops else 0):
        members = sorted(draw.sample(free, min(len(free), draw.randint(2, 4))))
        free = [a for a in free if a not in members]
        streams.append(members)
    return seconds, registers, streams


def text_of(problem, last):
    seconds, registers, streams = problem
    lines = [f"actor {s!r} 1" for s in seconds]
    for r in registers:
        readers = " ".join(f"{c} 1" for c in r["consumers"])
        lines.append(f"register {r['producer']} 1 {r['bytes']} 1 {MAX_SLOTS} {r['filled']} {readers}")
    lines += ["order " + " ".join(f"{a} 0" for a in members) for members in streams]
    return "\n".join(lines + [last]) + "\n"


def cheapest_by_highs(problem, interval):
    """Solves the integer program. Its variables are start times s and integer slots n, and each wait requires
    s[to] >= s[from] + seconds[from] - interval * tokens."""
    seconds, registers, streams = problem
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 0.5)
    start = [solver.addVariable(lb=-highspy.kHighsInf) for _ in seconds]
    count = [solver.addIntegral(lb=max(1, r["filled"]), ub=MAX_SLOTS) for r in registers]
    interval = interval * (1 + 1e-9)

    def wait(at, to, tokens):
        solver.addConstr(start[to] - start[at] + interval * tokens >= seconds[at])

    for a in range(len(seconds)):
        assert seconds[a] <= interval
    for r, n in zip(registers, count):
        for c in r["consumers"]:
            wait(r["producer"], c, r["filled"])
            wait(c, r["producer"], n - r["filled"])
    for members in streams:
        for i, a in enumerate(members):
            wait(a, members[(i + 1) % len(members)], int(i + 1 == len(members)))
    solver.minimize(sum(r["bytes"] * n for r, n in zip(registers, count)))
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return round(solver.getInfo().objective_function_value)


def solve(texts):
    tool = root / os.environ.get("KAREZ_BUILD", "build") / "tools" / "solve_slots"
    assert tool.exists(), f"{tool} is missing: build it first, or name the build folder in KAREZ_BUILD"
    done = subprocess.run([tool], input="".join(texts), text=True, capture_output=True, check=True)
    answers = []
    for line in done.stdout.splitlines():
        words = line.split()
        if words[0] == "error":
            answers.append(line)
            continue
        at = words.index("slots")
        answer = {words[i]: float(words[i + 1]) for i in range(0, at, 2)}
        answers.append(answer | {"slots": [int(w) for w in words[at + 1 :]]})
    assert len(answers) == len(texts)
    return answers


def test_the_costs_of_fifty_larger_graphs_equal_those_of_highs():
    problems = [problem_of(seed) for seed in range(GRAPHS)]
    fastest = solve([text_of(p, f"cap {10**12}") for p in problems])
    intervals = [
        best["interval"] * random.Random(seed).choice([1, 1, 1.07, 1.3, 1.7]) for seed, best in enumerate(fastest)
    ]
    answers = solve([text_of(p, f"interval {t!r}") for p, t in zip(problems, intervals)])
    for seed, (problem, interval, answer) in enumerate(zip(problems, intervals, answers)):
        assert answer["optimal"] == 1 and answer["bound"] == answer["bytes"], f"seed {seed}"
        assert answer["interval"] <= interval * (1 + 1e-9), f"seed {seed}"
        assert answer["bytes"] == sum(r["bytes"] * n for r, n in zip(problem[1], answer["slots"])), f"seed {seed}"
        assert answer["bytes"] == cheapest_by_highs(problem, interval), f"seed {seed}"
    assert sum(max(a["slots"]) > 2 for a in answers) > GRAPHS // 2  # many problems need more than two slots
