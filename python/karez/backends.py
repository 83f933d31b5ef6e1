"""The attributes of torch.backends that programs read to choose a device, or set. Setting one has no effect."""

from __future__ import annotations


class _Backend:
    """A backend that does not exist, and its settings."""

    __slots__ = ("allow_tf32", "benchmark", "deterministic", "enabled", "matmul")

    matmul: _Backend

    def __init__(self) -> None:
        self.allow_tf32 = self.benchmark = self.deterministic = self.enabled = False

    def is_available(self) -> bool:
        """False, since Karez computes on the CPU."""
        return False

    def is_built(self) -> bool:
        """False, since Karez computes on the CPU."""
        return False


cuda, cudnn, mps = _Backend(), _Backend(), _Backend()
cuda.matmul = _Backend()
