"""Functions of sound: decoding and encoding of WAV files."""

from __future__ import annotations

from typing import Any

import numpy

from .. import _core
from . import images
from .argument_types import explain_types

__all__ = ["decode", "encode_wav"]


@images.recorded
def _make_decode() -> images.Function:
    return images.Function(_core.sound_decode(), "decode")


decode = _make_decode()
decode.__doc__ = """Decodes the bytes of a WAV file, also in `map`.

decode(file) returns (samples, rate), decode(file, label) returns (samples, rate, label). The samples are float32
[frames, channels], those of integers between -1 and 1; the rate is the number of frames in a second.
"""


def encode_wav(samples: Any, rate: int) -> bytes:
    """A WAV file, with samples of 16 bits, of float32 samples [frames, channels] between -1 and 1."""
    return bytes(_core.encode_wav(numpy.asarray(samples, numpy.float32), rate))


explain_types(globals(), __all__)
