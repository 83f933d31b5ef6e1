"""The lists of parameters and modules that methods of a module return."""

from __future__ import annotations

from typing import TypeVar

Item = TypeVar("Item")


class MemberList(list[Item]):
    """A list that is also an iterator, because PyTorch's methods return iterators: next(net.parameters()).device."""

    _position = 0

    def __next__(self) -> Item:
        if self._position >= len(self):
            raise StopIteration
        self._position += 1
        return self[self._position - 1]
