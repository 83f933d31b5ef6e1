"""What does sharding cost if it can gain nothing? Compares the step on 2 x 2 devices and on data=4 with the step on one
device, on the same cores."""

import argparse
import json
import statistics
import sys

from train_step import run_karez

TARGETS = {"cnn": 2.0, "mlp": 3.0}
MESHES = ["data=2,model=2", "data=4"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    results = []
    for model in TARGETS:
        for mesh in MESHES:
            one, many = run_karez(model, options.batch), run_karez(model, options.batch, ["--mesh", mesh])
            one.run(30), many.run(30)
            pairs = [(one.run(options.steps), many.run(options.steps)) for _ in range(options.pairs)]
            one.close(), many.close()
            ratios = [b / a for a, b in pairs]
            ratio = statistics.median(ratios)
            results.append({"model": model, "mesh": mesh, "ratio": ratio, "ratios": ratios, "target": TARGETS[model]})
            print(
                f"{model:4} {mesh:16} one device {statistics.median(a for a, _ in pairs):.3f} ms, mesh "
                f"{statistics.median(b for _, b in pairs):.3f} ms: "
                f"ratio {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {options.pairs} pairs), target "
                f"{TARGETS[model]}"
            )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    worst = max(results, key=lambda r: r["ratio"] / r["target"])
    print(f"mesh_cost: worst ratio {worst['ratio']:.2f} (target {worst['target']})")
    sys.exit(0 if worst["ratio"] <= worst["target"] else 1)


if __name__ == "__main__":
    main()
