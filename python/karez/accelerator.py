"""The functions of torch.accelerator that choose a device."""

from __future__ import annotations

__all__ = ["current_accelerator", "device_count", "is_available"]


def is_available() -> bool:
    """False, since Karez computes on the CPU."""
    return False


def device_count() -> int:
    """0, since there is no accelerator."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None, since there is no accelerator."""
