"""How much does a profile slow down a training step? `./dev bench profile_cost`

Processes of bench_train_step run steps in turns: without a profile, with a profile that is on all the time and, with
--base PROGRAM, of another build. The ratios are medians over the turns."""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = ROOT / os.environ.get("KAREZ_BUILD", "build") / "bench" / "bench_train_step"


def start(program, model, team, variables):
    return subprocess.Popen(
        [program, "--model", model, "--team", str(team)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KAREZ_COSTS": "default", **variables},
    )


def run(process, steps):
    process.stdin.write(f"run {steps}\n")
    process.stdin.flush()
    return float(process.stdout.readline().split()[0]) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["mlp", "cnn", "small"])
    parser.add_argument("--seconds", type=float, default=0.3, help="of each run")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--team", type=int, default=1, help="threads of a kernel")
    parser.add_argument("--base", help="bench_train_step of a build without profiles")
    options = parser.parse_args()
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            on = {"KAREZ_PROFILE": folder, "KAREZ_PROFILE_STEPS": "1000000000"}
            processes = {"off": start(PROGRAM, model, options.team, {}), "on": start(PROGRAM, model, options.team, on)}
            if options.base:
                processes["base"] = start(options.base, model, options.team, {})
            for process in processes.values():
                run(process, 50)  # compiles and warms up
            steps = max(1, int(options.seconds / run(processes["off"], 50)))
            times = {name: [] for name in processes}
            for round in range(options.rounds):
                for name in list(processes)[:: 1 if round % 2 else -1]:
                    times[name].append(run(processes[name], steps))
            reference = times["base" if options.base else "off"]
            print(
                f"{model}: {statistics.median(reference) * 1e6:.1f} us a step, {options.rounds} runs of {steps} steps"
            )
            for name, values in times.items():
                if values is reference:
                    continue
                ratios = [value / other for value, other in zip(values, reference)]
                print(
                    f"  {name:>4}: median {100 * (statistics.median(ratios) - 1):+.2f} %, "
                    f"minimum {100 * (min(values) / min(reference) - 1):+.2f} %"
                )
            for process in processes.values():
                process.stdin.close()
                process.wait()


if __name__ == "__main__":
    main()
