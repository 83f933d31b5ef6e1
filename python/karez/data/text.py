"""Functions of text for the `map` of data sets: strings become int32 arrays of token numbers.

A function takes an element and returns it with tokens in the place of the text, which is its first item:
`byte_tokens()(text, label)` is (tokens, label). With `field`, it is another item of a tuple, or the value of a key of a
dict.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Optional, Union

import numpy

from ..errors import DataError, TypeError, UserError
from .argument_types import explain_types

__all__ = ["Function", "byte_tokens", "tokenizer"]

Field = Union[int, str]


class Function:
    """A function of text. In `map(f, parallel=n)` it is called in n threads of the program, by default."""

    def __init__(self, name: str, max_length: Optional[int], truncation: str, field: Field) -> None:
        if max_length is not None and max_length < 1:
            raise UserError(f"{name}: max_length must be at least 1, got {max_length}")
        if truncation not in ("right", "left", "error"):
            raise UserError(f"{name}: truncation must be 'right', 'left' or 'error', got {truncation!r}")
        self.__name__ = name
        self.max_length, self.truncation, self.field = max_length, truncation, field

    def tokens(self, text: str) -> Any:
        """The tokens of a text, before truncation: an int32 array."""
        raise NotImplementedError

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens."""
        raise NotImplementedError

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest token."""
        raise NotImplementedError

    def many_tokens(self, texts: list[str]) -> list[Any]:
        """The tokens of several texts."""
        return [self.tokens(text) for text in texts]

    def __call__(self, *items: Any) -> Any:
        """The items with tokens in the place of the text."""
        text = self._text_of(items)
        return self._replace(items, self._truncate(text, self.tokens(text)))

    def call_together(self, elements: list[tuple[Any, ...]]) -> list[Any]:
        """The results for several elements, of which each is a tuple of items."""
        texts = [self._text_of(items) for items in elements]
        found = zip(elements, texts, self.many_tokens(texts))
        return [self._replace(items, self._truncate(text, tokens)) for items, text, tokens in found]

    def _text_of(self, items: tuple[Any, ...]) -> str:
        field = self.field
        if isinstance(field, str):
            if len(items) != 1 or not isinstance(items[0], dict) or field not in items[0]:
                raise UserError(f"{self.__name__}: expected a dict with the key {field!r}, got {_types_of(items)}")
            text = items[0][field]
        elif not -len(items) <= field < len(items):
            raise UserError(f"{self.__name__}: the element has {len(items)} items, but the text must be item {field}")
        else:
            text = items[field]
        if isinstance(text, (bytes, bytearray)):
            try:
                text = text.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{self.__name__}: the text is not UTF-8: byte {error.start} is {text[error.start]:#x}"
                ) from None
        if not isinstance(text, str):
            raise TypeError(f"{self.__name__}: expected a str or UTF-8 bytes, got {type(text).__name__}")
        return text

    def _replace(self, items: tuple[Any, ...], tokens: Any) -> Any:
        if isinstance(self.field, str):
            return {**items[0], self.field: tokens}
        if len(items) == 1:
            return tokens
        changed = list(items)
        changed[self.field] = tokens
        return tuple(changed)

    def _truncate(self, text: str, tokens: Any) -> Any:
        most = self.max_length
        if most is None or len(tokens) <= most:
            return tokens
        if self.truncation == "error":
            begin = text[:40]
            raise DataError(
                f"{self.__name__}: a text must have at most {most} tokens (max_length), got {len(tokens)}: {begin!r}"
            )
        return tokens[:most] if self.truncation == "right" else tokens[-most:]

    def __repr__(self) -> str:
        return f"text.{self.__name__}"


class _ByteTokens(Function):
    def tokens(self, text: str) -> Any:
        return numpy.frombuffer(text.encode(), numpy.uint8).astype(numpy.int32)

    def decode(self, tokens: Iterable[int]) -> str:
        return bytes(int(token) for token in tokens).decode(errors="replace")

    @property
    def vocabulary_size(self) -> int:
        return 256


class _Tokenizer(Function):
    def __init__(
        self, source: Any, special_tokens: bool, max_length: Optional[int], truncation: str, field: Field
    ) -> None:
        super().__init__("tokenizer", max_length, truncation, field)
        self.library_tokenizer = _library_tokenizer(source)
        self.special_tokens = special_tokens
        if max_length is not None and truncation != "error":
            # The library leaves places for the special tokens. The copy keeps the caller's object as it is.
            copy = type(self.library_tokenizer).from_str(self.library_tokenizer.to_str())
            copy.enable_truncation(max_length, direction=truncation)
            self.library_tokenizer = copy

    def tokens(self, text: str) -> Any:
        return self.many_tokens([text])[0]

    def many_tokens(self, texts: list[str]) -> list[Any]:
        # Unlike `encode`, functions of batches release the interpreter's lock.
        found = self.library_tokenizer.encode_batch_fast(texts, add_special_tokens=self.special_tokens)
        return [numpy.array(encoding.ids, numpy.int32) for encoding in found]

    def decode(self, tokens: Iterable[int]) -> str:
        return str(self.library_tokenizer.decode([int(token) for token in tokens]))

    @property
    def vocabulary_size(self) -> int:
        return int(self.library_tokenizer.get_vocab_size())


def is_function(f: Any) -> bool:
    """Whether f is a function of this module, for which threads are preferred to worker processes."""
    return isinstance(f, Function)


def call_together_of(f: Any) -> Any:
    """What computes several elements in one call, if f has such a function."""
    return f.call_together if isinstance(f, Function) and type(f).__call__ is Function.__call__ else None


def byte_tokens(*, max_length: Optional[int] = None, truncation: str = "right", field: Field = 0) -> Function:
    """The bytes of the text in UTF-8, which are numbers below 256, as int32.

    max_length: the largest number of tokens. Of a longer text, "right" drops tokens at the end, and "left" at the
    beginning, as truncation says; "error" raises an error.
    field: the item of the element that contains the text, or a key of the dict.
    """
    return _ByteTokens("byte_tokens", max_length, truncation, field)


def tokenizer(
    source: Any,
    *,
    special_tokens: bool = True,
    max_length: Optional[int] = None,
    truncation: str = "right",
    field: Field = 0,
) -> Function:
    """The tokens of a tokenizer of the package `tokenizers`, such as byte-pair encoding, as int32.

    source: the path of its JSON file, a `tokenizers.Tokenizer`, or a fast tokenizer of the package `transformers`.
    special_tokens: whether tokens such as [CLS] are added, if the tokenizer has a post-processor for them.
    The other options are those of byte_tokens; special tokens count in max_length.

    The package computes without the interpreter's lock, so `map(tokenizer(...), parallel=n)` calls it in n threads.
    """
    return _Tokenizer(source, special_tokens, max_length, truncation, field)


def _library_tokenizer(source: Any) -> Any:
    try:
        import tokenizers
    except ImportError:
        raise UserError("tokenizer needs the package tokenizers: pip install tokenizers") from None
    found = getattr(source, "backend_tokenizer", source)  # of transformers
    if isinstance(found, (str, os.PathLike)):
        path = os.fspath(found)
        if not os.path.isfile(path):
            raise DataError(f"tokenizer: cannot read {path!r}: No such file")
        try:
            return tokenizers.Tokenizer.from_file(path)
        except Exception as error:
            raise DataError(f"tokenizer: {path!r} is not the JSON file of a tokenizer: {error}") from error
    if not isinstance(found, tokenizers.Tokenizer):
        raise TypeError(
            f"tokenizer: expected a path, a tokenizers.Tokenizer or a fast tokenizer of transformers, "
            f"got {type(source).__name__}"
        )
    return found


def _types_of(items: tuple[Any, ...]) -> str:
    names = [f"a dict with the keys {list(item)}" if isinstance(item, dict) else type(item).__name__ for item in items]
    return ", ".join(names)


explain_types(globals(), __all__)
