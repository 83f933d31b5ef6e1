"""The pipelines of bench/data/throughput.py with PyTorch's DataLoader, torchvision and webdataset."""

import itertools
import sys
import types

import numpy as np
import pipelines as p
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

EPOCH = 1 << 24  # elements; so that the workers never wait for an epoch to end


class Calls(Dataset):
    """The elements f(0), f(1), ..."""

    def __init__(self, f):
        self.f = f

    def __len__(self):
        return EPOCH

    def __getitem__(self, i):
        return self.f(i)


class Repeated(Dataset):
    """The elements of a data set, again and again."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return EPOCH

    def __getitem__(self, i):
        return self.dataset[i % len(self.dataset)]


class Stream(IterableDataset):
    """The elements of an iterable that a function returns; the function gets the number of the worker and of all."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        info = get_worker_info()
        return iter(self.make(info.id, info.num_workers) if info else self.make(0, 1))


def bursts(index, workers):
    return p.bursts() if index == 0 else iter(())  # one stream, which cannot be divided


def multiples(index, workers):
    for i in itertools.count(index * EPOCH):
        if i * 2 % 3:
            yield i * 2


def called(index, workers):
    double, keep = lambda x: x * 2, lambda x: x % 3 > 0
    return filter(keep, map(double, itertools.count(index * EPOCH)))


class Lines:
    """Batches of encoded lines of similar length; each worker reads its own lines."""

    def __init__(self, folder):
        self.folder, self.encode = folder, p.Tokenizer(f"{folder}/bpe.json")

    def __call__(self, index, workers):
        buckets = [[] for _ in p.BATCH_SIZES]
        while True:
            with open(f"{self.folder}/lines.txt") as file:
                for line in itertools.islice(file, index, None, workers):
                    ids = torch.from_numpy(self.encode(line.rstrip("\n")))
                    bucket = int(np.searchsorted(p.BOUNDARIES, len(ids), side="right"))
                    buckets[bucket].append(ids)
                    if len(buckets[bucket]) == p.BATCH_SIZES[bucket]:
                        yield torch.nn.utils.rnn.pad_sequence(buckets[bucket], batch_first=True)
                        buckets[bucket] = []


def shuffled(length):
    while True:
        yield from torch.randperm(length).tolist()


class Shuffled(torch.utils.data.Sampler):
    """Permutations of a data set, one after the other."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return shuffled(self.length)


def torchvision_modules():
    try:
        from torchvision import datasets, transforms
    except RuntimeError:  # built for another build of PyTorch: without its own operators, which are not needed here
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        sys.modules["torchvision._meta_registrations"] = types.ModuleType("_meta_registrations")
        from torchvision import datasets, transforms
    return datasets, transforms


def make(name, folder, workers):
    """workers: the number of worker processes of the DataLoader."""
    torch.set_num_threads(1)
    workers = int(workers or 0)
    options = {"num_workers": workers, "persistent_workers": workers > 0}
    if name == "io":
        return DataLoader(Calls(p.read_slowly), 16, **options), 16
    if name == "cpu":
        return DataLoader(Calls(p.compute), 16, **options), 16
    if name == "skewed":
        return DataLoader(Calls(p.read_unevenly), 16, **options), 16
    if name == "bursty":
        return DataLoader(Stream(bursts), 16, **options), 16
    if name == "two_sources":
        return DataLoader(Calls(lambda i: (p.read_slowly(i), p.read_quickly(i))), 16, **options), 16
    if name in ("tiny_batches", "tiny_rows"):
        rows = TensorDataset(*(torch.from_numpy(array) for array in p.tiny_arrays()))
        if name == "tiny_rows":
            return DataLoader(Repeated(rows), None, **options), 1
        return DataLoader(rows, 64, sampler=Shuffled(len(rows)), **options), 64
    if name in ("tiny_map", "tiny_calls"):
        return DataLoader(Stream(multiples if name == "tiny_map" else called), 256, **options), 256
    if name == "jpeg":
        datasets, transforms = torchvision_modules()
        transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(p.MEAN, p.DEVIATION),
            ]
        )
        images = datasets.ImageFolder(f"{folder}/images", transform)
        return DataLoader(images, 64, sampler=Shuffled(len(images)), **options), 64
    if name == "webdataset":
        import webdataset

        samples = webdataset.WebDataset(
            p.paths(folder, ".tar"), shardshuffle=False, nodesplitter=None, workersplitter=webdataset.split_by_worker
        )
        batches = samples.repeat().decode("rgb8").to_tuple("jpg", "cls").batched(64)
        return webdataset.WebLoader(batches, batch_size=None, **options), 64
    if name == "text":
        return DataLoader(Stream(Lines(folder)), None, **options), len
    return None  # PyTorch has no reader of TFRecord files
