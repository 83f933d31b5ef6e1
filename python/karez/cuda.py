"""The functions of torch.cuda that a program calls on a machine without a GPU."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    """False, since Karez computes on the CPU."""
    return False


def device_count() -> int:
    """0, since there is no CUDA device."""
    return 0


def empty_cache() -> None:
    """Has no effect, since there is no CUDA device."""


def manual_seed(seed: int) -> None:
    """Has no effect, since there is no CUDA device; kz.seed sets the seed."""


def manual_seed_all(seed: int) -> None:
    """Has no effect, since there is no CUDA device; kz.seed sets the seed."""


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"kz.cuda has no {name!r}, since there is no CUDA device; make the call depend on kz.cuda.is_available()"
    )
