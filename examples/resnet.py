"""Trains a residual network of 18 layers (He et al., 2015) on a folder of images with one subfolder per class, as in
FOLDER/cat/1.jpg. Without --data, it makes a small folder of JPEG files and trains on these."""

import argparse
import pathlib
import sys
import tempfile
from typing import Any, Optional

import numpy as np

import karez as kz
from karez import F, nn
from karez.data import images


class Block(nn.Module):
    def __init__(self, before: int, channels: int, stride: int) -> None:
        self.conv1, self.bn1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)
        self.shortcut: Optional[nn.Sequential] = None
        if stride != 1 or before != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: kz.Tensor) -> Any:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    """Four stages with the given numbers of blocks. Each stage after the first halves the image size and doubles the
    number of channels."""

    def __init__(self, classes: int, blocks: list[int], width: int) -> None:
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.layers, before = [], width
        for stage, count in enumerate(blocks):
            for i in range(count):
                self.layers.append(Block(before, width << stage, 2 if stage > 0 and i == 0 else 1))
                before = width << stage
        self.fc = nn.Linear(before, classes)

    def forward(self, x: kz.Tensor) -> Any:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for layer in self.layers:
            x = layer(x)
        return self.fc(x.mean(dim=(2, 3)))


def make_folder(folder: pathlib.Path, count: int = 12) -> None:
    """Writes JPEG files of noise in three classes: dark, bright, and with stripes."""
    draw = np.random.default_rng(0)
    for name in ("dark", "bright", "striped"):
        (folder / name).mkdir()
        for i in range(count):
            pixels = draw.integers(0, 60, (40, 48, 3)) + 150 * (name == "bright")
            pixels[:, ::4] += 120 * (name == "striped")
            (folder / name / f"{i}.jpg").write_bytes(images.encode_jpeg(pixels.astype(np.uint8)))


def augmented(folder: kz.data.Dataset, size: int, seed: int) -> kz.data.Dataset:
    """The squares in the centres of the images, [3, size, size], of which half are mirrored, in random order."""
    squares = folder.shuffle(seed=seed).map(images.resize(size), parallel=2).map(images.center_crop(size))
    return squares.map(images.random_horizontal_flip(), seed=seed).map(images.normalize(mean=0.45, std=0.25))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, help="a folder with one subfolder of images per class")
    parser.add_argument("--mesh", default="", help="axes and sizes, such as data=2; default: one device")
    parser.add_argument("--blocks", type=int, nargs=4, default=[2, 2, 2, 2], help="number of blocks of each stage")
    parser.add_argument("--width", type=int, default=64, help="number of channels of the first stage")
    parser.add_argument("--size", type=int, default=224, help="height and width of the images in pixels")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--at-most", type=float, default=float("inf"), help="fail if the mean loss of the last epoch is above this"
    )
    return parser.parse_args()


def main() -> bool:
    o = options()
    if o.data is not None:
        return train(o, o.data)
    with tempfile.TemporaryDirectory() as folder:
        make_folder(pathlib.Path(folder))
        return train(o, pathlib.Path(folder))


def train(o: argparse.Namespace, folder: pathlib.Path) -> bool:
    kz.seed(o.seed)
    files, classes = kz.data.from_image_folder(folder), kz.data.image_folder_classes(folder)
    batches = augmented(files, o.size, o.seed).batch(o.batch, last="drop")
    if len(batches) == 0:
        raise kz.UserError(f"{folder}: expected at least {o.batch} images, one batch; found {len(files)}")
    net = ResNet(len(classes), o.blocks, o.width)
    optimizer = kz.optim.SGD(net.parameters(), lr=o.lr, momentum=0.9, weight_decay=1e-4)
    schedule = kz.optim.cosine_schedule(o.lr, o.epochs * len(batches), warmup=min(50, len(batches) // 2))

    @kz.compile(mesh=kz.Mesh(o.mesh))
    def step(x: kz.Tensor, y: kz.Tensor) -> tuple[kz.Tensor, kz.Tensor]:
        scores = net(x)
        loss = F.cross_entropy(scores, y)
        loss.backward()
        optimizer.step()
        return loss, (scores.argmax(1) == y).float().mean()

    results: list[tuple[float, float]] = []  # the loss and the accuracy of each step
    progress = kz.data.Progress(o.epochs * len(batches), o.batch)
    for epoch in range(o.epochs):
        for x, y in batches:
            optimizer.lr = schedule(len(results))
            loss, accuracy = step(x, y)
            results.append((float(loss), float(accuracy)))
            progress.show(len(results), epoch + 1, results[-1][0])
    progress.finish()
    last_loss, last_accuracy = np.mean(results[-len(batches) :], axis=0)
    print(
        f"last epoch: loss {last_loss:.4f}, accuracy {100 * last_accuracy:.1f} % "
        f"({len(files)} images in {len(classes)} classes)"
    )
    return bool(last_loss <= o.at_most)


if __name__ == "__main__":
    try:
        sys.exit(0 if main() else "resnet: the loss is above --at-most")
    except kz.Error as error:
        sys.exit(f"resnet: {error}")
