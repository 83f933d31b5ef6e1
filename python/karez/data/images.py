"""Functions of images: decoding, resizing, augmentation and normalisation, for the `map` of data sets and for arrays.

Names and meanings are those of torchvision.transforms. An image is a uint8 array [height, width, channels], or [height,
width] if it is grey. A function takes an element and returns it with another image: `resize(256)(image, label)` is
(resized image, label). In `dataset.map(resize(256))` it runs in C++, on any number of threads (`parallel`).

The random functions depend on a key, (seed, epoch, record), which `map(f, seed=...)` makes, and on their own name.
Outside of a data set, pass it: `random_crop(224)(image, key=(1, 0, 7))`.

All functions except `decode` also take tensors, such as those of a compiled function, and compute the same values with
ops. A tensor of images is [..., height, width, channels], such as a batch, or [height, width] for one grey image.
Random functions of tensors draw numbers for each image, as dropout does, in each call of the compiled function.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Optional, TypeVar, Union, cast

import numpy

from .. import _core
from ..errors import UserError
from ..tensor import Tensor
from .argument_types import explain_types
from .skipped_record import report_skipped

__all__ = [
    "Function",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_saturation",
    "center_crop",
    "color_jitter",
    "crop",
    "cut_out",
    "decode",
    "encode_jpeg",
    "encode_png",
    "horizontal_flip",
    "mix_up",
    "normalize",
    "one_hot",
    "pad",
    "random_crop",
    "random_horizontal_flip",
    "random_resized_crop",
    "resize",
    "transpose",
]

Size = Union[int, Sequence[int]]
Maker = TypeVar("Maker", bound=Callable[..., Any])
MAX_PIXELS = 178_956_970  # PIL's limit


class Function:
    """A function of images. It takes the items of an element, of which the first is an image, and returns them with
    another image; the other items are passed on."""

    def __init__(
        self, function: _core.ImageFunction, name: str, of_tensors: Optional[Callable[..., Any]] = None
    ) -> None:
        self._function = function
        self.__name__ = name  # of the stage, in descriptions of data sets
        self._of_tensors = of_tensors  # of functions that change another item than the first
        self._call: Optional[Callable[[], Function]] = None  # the call that made this object

    def __reduce__(self) -> Any:
        """Pickles the call that made this object."""
        if self._call is None:
            raise TypeError(f"{self!r} cannot be pickled")
        return self._call, ()

    def __call__(self, *items: Any, key: Optional[Sequence[int]] = None) -> Any:
        """The items with another image, as NumPy arrays, or as tensors if the image is a tensor.

        key: of random functions of arrays: (seed, epoch, record).
        """
        if any(isinstance(item, Tensor) for item in items):
            if key is not None:
                raise UserError(f"{self._function.name}: random functions of tensors have no key")
            if self._of_tensors is not None:
                return self._of_tensors(*items)
            return _element(self._function.of_tensor(items[0]), items[1:])
        if key is None:
            return self._function(*items)
        seed, epoch, record = (int(number) for number in key)
        return self._function(*items, key=(seed, epoch, record))

    def __repr__(self) -> str:
        return f"images.{self.__name__}"


class Decode(Function):
    """Decodes the bytes of JPEG, PNG and WebP files to images uint8 [height, width, channels].

    `decode(file)` returns an image, `decode(file, label)` an image and a label. `decode` is also a function for `map`;
    `decode(channels=3)`, without a file, is the same with options:

    channels: 1 (grey) or 3 (RGB), converted as by PIL. By default those of the file: 1, 2 (grey and alpha), 3 or 4.
    orient: rotate and mirror the image as its EXIF data says.
    max_pixels: a larger image is an error, which is found before its memory is taken.
    min_size: (height, width); a JPEG image that will be resized to this size or a larger one may be decoded at 1/2, 1/4
    or 1/8 of its size.
    on_error: "raise", or "skip" to skip the record (data.SKIP); a warning at the end of the epoch then contains the
    number of skipped records and the first error.
    """

    def __call__(
        self,
        *items: Any,
        key: Optional[Sequence[int]] = None,
        channels: Optional[int] = None,
        orient: bool = False,
        max_pixels: int = MAX_PIXELS,
        min_size: Sequence[int] = (0, 0),
        on_error: str = "raise",
    ) -> Any:
        options = decode_options("decode", channels, orient, max_pixels, min_size, on_error)
        function = self if options == decode_options("decode") else _decode_with(*options)
        return Function.__call__(function, *items, key=key) if items else function


def recorded(make: Maker) -> Maker:
    """Lets pickle repeat the calls of a function that makes a Function."""

    @functools.wraps(make)
    def call(*arguments: Any, **options: Any) -> Function:
        function: Function = make(*arguments, **options)
        # The function of the module, which pickle finds by its name: explain_types has replaced it.
        public = getattr(sys.modules[make.__module__], make.__name__)
        function._call = functools.partial(public, *arguments, **options)
        return function

    return cast(Maker, call)


def decode_options(
    function: str,
    channels: Optional[int] = None,
    orient: bool = False,
    max_pixels: int = MAX_PIXELS,
    min_size: Sequence[int] = (0, 0),
    on_error: str = "raise",
) -> tuple[int, bool, int, tuple[int, int], bool]:
    """The arguments of decoders in C++."""
    if channels not in (None, 1, 3):
        raise UserError(f"{function}: channels must be None (as in the file), 1 or 3, got {channels!r}")
    if on_error not in ("raise", "skip"):
        raise UserError(f"{function}: on_error must be 'raise' or 'skip', got {on_error!r}")
    return channels or 0, bool(orient), int(max_pixels), _size(function, min_size), on_error == "skip"


@recorded
def crop(top: int, left: int, height: int, width: int) -> Function:
    """The part of this size whose first pixel is in row `top` and column `left`. It must be inside the image."""

    return Function(_core.image_crop(top, left, height, width), f"crop({top}, {left}, {height}, {width})")


@recorded
def center_crop(size: Size) -> Function:
    """The middle of the image; `size` is one number or (height, width). Zeros surround an image that is too small."""
    height, width = _size("center_crop", size)
    return Function(_core.image_center_crop(height, width), f"center_crop({height}, {width})")


@recorded
def pad(padding: int) -> Function:
    """The image with this number of pixels of zeros on each side."""
    return Function(_core.image_pad(padding), f"pad({padding})")


@recorded
def horizontal_flip() -> Function:
    """The image mirrored from left to right."""
    return Function(_core.image_horizontal_flip(), "horizontal_flip()")


@recorded
def random_crop(size: Size, padding: int = 0) -> Function:
    """A random part of the image with `padding` pixels of zeros on each side."""
    height, width = _size("random_crop", size)
    return Function(_core.image_random_crop(height, width, padding), f"random_crop({height}, {width}, {padding})")


@recorded
def random_horizontal_flip(p: float = 0.5) -> Function:
    """The image, mirrored with probability p."""
    return Function(_core.image_random_horizontal_flip(p), f"random_horizontal_flip({p})")


@recorded
def cut_out(size: int) -> Function:
    """The image with zeros in a square of this size around a random pixel (DeVries and Taylor, 2017)."""
    return Function(_core.image_cut_out(size), f"cut_out({size})")


@recorded
def resize(size: Size, interpolation: str = "bilinear") -> Function:
    """Another size, with antialiasing, as PIL's Image.resize. The last of 2 or 4 channels is alpha, by which the
    colours are weighted.

    A float32 array or a tensor of floats is not rounded, and its channels are independent of each other. The function
    of tensors has a gradient.

    size: (height, width); or one number of pixels for the shorter side, and the ratio of the sides is kept.
    interpolation: "bilinear" or "bicubic".
    """
    bicubic = _is_bicubic("resize", interpolation)
    if isinstance(size, (int, numpy.integer)):
        return Function(_core.image_resize(int(size), None, bicubic), f"resize({size}, {interpolation})")
    height, width = _size("resize", size)
    return Function(_core.image_resize(height, width, bicubic), f"resize({height}, {width}, {interpolation})")


@recorded
def random_resized_crop(
    size: Size,
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (3 / 4, 4 / 3),
    interpolation: str = "bilinear",
) -> Function:
    """A random part of the image, resized.

    scale: the least and the largest share of the image's area.
    ratio: the least and the largest ratio of width to height.
    """
    height, width = _size("random_resized_crop", size)
    function = _core.image_random_resized_crop(
        height, width, _range(scale), _range(ratio), _is_bicubic("random_resized_crop", interpolation)
    )
    return Function(function, f"random_resized_crop({height}, {width})")


@recorded
def normalize(mean: Union[float, Sequence[float]], std: Union[float, Sequence[float]], layout: str = "CHW") -> Function:
    """float32 (x - mean) / std for each channel, where x is uint8 / 255, or float32.

    layout: "CHW", which gives [channels, height, width], or "HWC", which keeps the order.
    """
    if layout not in ("CHW", "HWC"):
        raise UserError(f"normalize: layout must be 'CHW' or 'HWC', got {layout!r}")
    means, deviations = (numpy.atleast_1d(numpy.asarray(numbers, numpy.float32)) for numbers in (mean, std))

    function = _core.image_normalize(means.tolist(), deviations.tolist(), layout == "CHW")
    return Function(function, f"normalize({layout})")


@recorded
def transpose(axes: Sequence[int] = (2, 0, 1)) -> Function:
    """The dimensions of an array of any dtype in another order, as numpy.transpose; by default [channels, height,
    width]. Dimensions of a tensor before these keep their places."""
    order = tuple(int(axis) for axis in axes)
    return Function(_core.image_transpose(list(order)), f"transpose{order}")


@recorded
def one_hot(classes: int, field: int = -1) -> Function:
    """Labels as float32 [..., classes]: 1 at the place of the label, and 0 elsewhere.

    field: the item of the element that contains the labels, by default the last.
    """

    function = _core.image_one_hot(classes, field)

    def of_tensors(*items: Any) -> Any:
        if not -len(items) <= field < len(items):
            raise UserError(f"one_hot: the element has {len(items)} fields, but the labels must be in field {field}")
        changed = list(items)
        changed[field] = function.of_tensor(items[field])
        return _element(changed[0], tuple(changed[1:]))

    return Function(function, f"one_hot({classes})", of_tensors)


@recorded
def adjust_brightness(factor: float) -> Function:
    """Multiplies the brightness, as PIL's ImageEnhance.Brightness; 0 gives black."""
    return Function(_core.image_adjust_brightness(factor), f"adjust_brightness({factor})")


@recorded
def adjust_contrast(factor: float) -> Function:
    """Multiplies the contrast, as PIL's ImageEnhance.Contrast; 0 gives the mean grey."""
    return Function(_core.image_adjust_contrast(factor), f"adjust_contrast({factor})")


@recorded
def adjust_saturation(factor: float) -> Function:
    """Multiplies the saturation, as PIL's ImageEnhance.Color; 0 gives a grey image."""
    return Function(_core.image_adjust_saturation(factor), f"adjust_saturation({factor})")


@recorded
def color_jitter(brightness: float = 0.0, contrast: float = 0.0, saturation: float = 0.0) -> Function:
    """Changes brightness, contrast and saturation in random order, each by a factor between max(0, 1 - x) and 1 + x."""
    return Function(
        _core.image_color_jitter(brightness, contrast, saturation),
        f"color_jitter({brightness}, {contrast}, {saturation})",
    )


@recorded
def mix_up(alpha: float = 0.2) -> Function:
    """Of batches (images, labels), both float32: x * r + (1 - r) * roll(x, 1), with one random number r of the
    distribution Beta(alpha, alpha) for each batch (Zhang et al., 2018).

    Of tensors, r may be a third item: mix_up()(images, labels, r).
    """

    def of_tensors(*items: Any) -> Any:
        if len(items) not in (2, 3):
            raise UserError(f"mix_up: expected images, labels and optionally a ratio, got {len(items)} items")
        return _core.image_mix_up_of_tensors(items[0], items[1], alpha, items[2] if len(items) == 3 else None)

    return Function(_core.image_mix_up(alpha), f"mix_up({alpha})", of_tensors)


def encode_jpeg(image: Any, quality: int = 90) -> bytes:
    """A JPEG file of an image with 1 or 3 channels."""
    return bytes(_core.encode_jpeg(_pixels("encode_jpeg", image), quality))


def encode_png(image: Any) -> bytes:
    """A PNG file of an image with 1 to 4 channels."""
    return bytes(_core.encode_png(_pixels("encode_png", image)))


def _pixels(function: str, image: Any) -> Any:
    array = numpy.asarray(image)
    if array.dtype != numpy.uint8:
        raise UserError(f"{function}: expected a uint8 image, got {array.dtype}")
    return array[..., None] if array.ndim == 2 else array


def _element(image: Any, others: tuple[Any, ...]) -> Any:
    return (image, *others) if others else image


def _size(function: str, size: Size) -> tuple[int, int]:
    numbers = (size, size) if isinstance(size, (int, numpy.integer)) else tuple(size)
    if len(numbers) != 2:
        raise UserError(f"{function}: a size must be a number or (height, width), got {size!r}")
    return int(numbers[0]), int(numbers[1])


def _range(bounds: Sequence[float]) -> tuple[float, float]:
    low, high = bounds
    return float(low), float(high)


def _is_bicubic(function: str, interpolation: str) -> bool:
    if interpolation not in ("bilinear", "bicubic"):
        raise UserError(f"{function}: interpolation must be 'bilinear' or 'bicubic', got {interpolation!r}")
    return interpolation == "bicubic"


@recorded
def _decode_with(*options: Any) -> Decode:
    arguments = (*options, functools.partial(report_skipped, "decode"))
    return Decode(_core.image_decode(*arguments), "decode")


decode = _decode_with(*decode_options("decode"))


explain_types(globals(), __all__)
