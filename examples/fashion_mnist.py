"""Trains a small CNN (or MLP) on Fashion-MNIST on a mesh of logical devices. It computes the same losses as
fashion_mnist.cc."""

import argparse
import sys
from typing import Any

import karez as kz
from karez import F, nn

MEAN, DEVIATION = 0.2860, 0.3530  # of the pixels of the training images


class Cnn(nn.Module):
    def __init__(self) -> None:
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3)
        self.fc1, self.fc2 = nn.Linear(32 * 5 * 5, 128), nn.Linear(128, 10)

    def forward(self, x: kz.Tensor) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Mlp(nn.Module):
    def __init__(self) -> None:
        self.fc1, self.fc2 = nn.Linear(28 * 28, 256), nn.Linear(256, 128)
        self.fc3, self.fc4 = nn.Linear(128, 100), nn.Linear(100, 10)

    def forward(self, x: kz.Tensor) -> Any:
        return self.fc4(F.relu(self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))))


def labelled_images(folder: str, part: str) -> kz.data.Dataset:
    return kz.data.from_labelled_images(folder, part, mean=MEAN, deviation=DEVIATION)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="directory of the IDX files")
    parser.add_argument("--model", default="cnn", choices=["cnn", "mlp"])
    parser.add_argument("--mesh", default="", help="axes and sizes, such as data=2,model=2; default: one device")
    parser.add_argument("--epochs", type=int, help="default: 3 for the CNN, 8 for the MLP")
    parser.add_argument("--batch", type=int, default=64, help="images per step")
    parser.add_argument("--optimizer", default="adam", choices=["adam", "sgd"], help="sgd has momentum 0.9")
    parser.add_argument("--lr", type=float, help="default: 2e-3 for adam, 2e-2 for sgd")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the initial weights and of the order of the images"
    )
    parser.add_argument("--losses", help="file for the loss of every step")
    parser.add_argument("--report", help="file for a report on the plan: memory, transfers, critical cycle")
    return parser.parse_args()


def main() -> None:
    o = options()
    epochs = o.epochs if o.epochs is not None else 3 if o.model == "cnn" else 8
    adaptive = o.optimizer == "adam"
    lr = o.lr if o.lr is not None else 2e-3 if adaptive else 2e-2
    kz.seed(o.seed)
    mesh = kz.Mesh(o.mesh)
    images, tests = labelled_images(o.data, "train"), labelled_images(o.data, "t10k")
    batches = images.shuffle(seed=o.seed).batch(o.batch, last="drop")
    if len(batches) == 0:
        raise kz.UserError(f"--batch must be at most {len(images)}, the number of training images; got {o.batch}")

    net = Cnn() if o.model == "cnn" else Mlp()
    optimizer = (
        kz.optim.Adam(net.parameters(), lr=lr) if adaptive else kz.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    )

    @kz.compile(mesh=mesh)
    def step(x: kz.Tensor, y: kz.Tensor) -> kz.Tensor:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    @kz.compile(mesh=mesh)
    def correct(x: kz.Tensor, y: kz.Tensor, w: kz.Tensor) -> kz.Tensor:
        return F.correct_count(net(x), y, row_weights=w)

    steps = epochs * len(batches)
    progress = kz.data.Progress(steps, o.batch)
    losses: list[float] = []
    for epoch in range(epochs):
        for x, y in batches:
            optimizer.lr = lr * min(1.0, 2.0 * (steps - len(losses)) / steps)  # falls to zero over the second half
            losses.append(float(step(x, y)))
            progress.show(len(losses), epoch + 1, losses[-1])
    progress.finish()
    if o.losses:
        with open(o.losses, "w") as out:
            out.writelines(f"{loss!r}\n" for loss in losses)

    right = sum(float(correct(x, y, weights)) for x, y, weights in tests.batch(256, last="pad"))
    print(f"accuracy {right / len(tests):.4f} on {len(tests)} test images")
    if steps:
        print(
            f"""
The training step is one plan for {mesh.size if o.mesh else 1} devices, made before the first step:
  memory     at most {step.peak_bytes / 2**20:.2f} MiB on a device, parameters and optimizer state included
  step       predicted at {1e3 * step.predicted_seconds:.2f} ms from the cost of each kernel and transfer
`--report FILE` writes where memory, transfers and time go; docs/tools.md explains the tables."""
        )
        if o.report:
            with open(o.report, "w") as out:
                out.write(step.summary())


if __name__ == "__main__":
    try:
        main()
    except kz.Error as error:
        sys.exit(f"fashion_mnist: {error}")
