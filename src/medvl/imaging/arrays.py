"""Named arrays in .npy files that hold a pickled dictionary.

Unpickling can run any code. Here it cannot: the few globals that a pickle of arrays names are answered by stand-ins
that only collect shape, type and bytes, everything else is refused, and numpy sees the parts after they were checked.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from medvl.errors import DataError
from medvl.imaging.formats import MAX_PICTURE_PX, open_file

NUMBER_TYPE = re.compile(r"b1|[iu][1248]|f[248]")
"""Types that are read: truth values, whole numbers, floats."""


def read_named_array(path: Path, name: str) -> npt.NDArray[Any]:
    """Read one array of a .npy file.

    Args:
        path: .npy file with a pickled dictionary of arrays, which may hold dictionaries again.
        name: Keys from the outside in, joined by `/`: `structures/liver`.

    Returns:
        [H, W] or [H, W, C] of truth values or numbers.

    Raises:
        DataError: The file is absent, damaged, lacks the array, or its pickle names anything but arrays and containers.
    """
    held = _load(path)
    for place, key in enumerate(name.split("/")):
        if not isinstance(held, dict) or key not in held:
            found = ", ".join(map(str, held)) if isinstance(held, dict) else "no dictionary"
            there = "/".join(name.split("/")[:place]) or "the file"
            raise DataError(
                f"{path}: expected the array {name!r}, found {found or 'nothing'} in {there}. "
                "Use the file as the dataset publishes it."
            )
        held = held[key]
    try:
        return _built(held)
    except Exception as error:
        raise DataError(
            f"{path}: expected a picture's array under {name!r}, found something else ({error}). "
            "Use the file as the dataset publishes it."
        ) from error


def _load(path: Path) -> Any:
    with open_file(path) as file:
        content = file.read()
    try:
        stream = io.BytesIO(content)
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        if not dtype.hasobject or math.prod(shape) != 1:
            raise ValueError(f"an array of shape {shape} and type {dtype}")
        held: Any = _Reader(stream).load()
        # The file's one object lies in an array that is pickled too.
        return held.data[0] if isinstance(held, _Array) and isinstance(held.data, list) else held
    except Exception as error:  # a pickle of rubbish raises almost any type
        raise DataError(
            f"{path}: expected a .npy file with a dictionary of arrays, found {error or type(error).__name__}. "
            "Nothing in it was run. Use the file as the dataset publishes it."
        ) from error


class _Type:
    """Stands in for numpy.dtype."""

    __slots__ = ("code", "order")

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.order = code, "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.order, *_ = state


class _Array:
    """Stands in for numpy.ndarray, and for numpy's function that makes an empty one."""

    __slots__ = ("data", "kind", "order", "shape")

    # A pickle puts anything here; `_built` judges it.
    kind: Any
    shape: Any
    order: Any
    data: Any

    def __init__(self, *_: object) -> None:
        self.kind, self.shape, self.order, self.data = None, (), "C", b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.kind, is_column_major, self.data = state
        self.order = "F" if is_column_major else "C"


class _ArrayOfBuffer(_Array):
    """Stands in for the function that pickle protocol 5 rebuilds arrays by."""

    __slots__ = ()

    def __init__(self, buffer: object, kind: object, shape: object, order: object, *_: object) -> None:
        self.data, self.kind, self.shape, self.order = buffer, kind, shape, order


class _Scalar(_Array):
    """Stands in for the function that numpy's numbers are rebuilt by."""

    __slots__ = ()

    def __init__(self, kind: object, raw: object) -> None:
        self.data, self.kind, self.shape, self.order = raw, kind, (), "C"


class _Bytes(bytes):
    """Stands in for _codecs.encode, by which old pickle protocols write bytes."""

    __slots__ = ()

    def __new__(cls, text: str, encoding: str = "latin1") -> _Bytes:
        if encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"bytes in {encoding}")
        return super().__new__(cls, text.encode("latin-1"))

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("bytes with a state")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _Bytes,
    **{
        (f"numpy.{core}.{module}", function): stand_in
        for core in ("core", "_core")
        for module, function, stand_in in (
            ("multiarray", "_reconstruct", _Array),
            ("multiarray", "scalar", _Scalar),
            ("numeric", "_frombuffer", _ArrayOfBuffer),
        )
    },
}


class _Reader(pickle.Unpickler):
    """An unpickler that knows the stand-ins and nothing else."""

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"a pickle that asks for {module}.{name}") from None

    def persistent_load(self, pid: Any, /) -> Any:
        raise pickle.UnpicklingError("a pickle that asks for outside objects")


def _built(held: Any) -> npt.NDArray[Any]:
    """The array that a stand-in describes."""
    if not isinstance(held, _Array) or not isinstance(held.kind, _Type) or not isinstance(held.data, bytes | bytearray):
        raise TypeError(f"a {type(held).__name__.strip('_').lower()} without pixels")
    code, order = str(held.kind.code), str(held.kind.order)
    if not NUMBER_TYPE.fullmatch(code) or order not in ("<", ">", "|"):
        raise TypeError(f"type {order}{code}")
    dtype, shape = np.dtype(order + code), tuple(int(size) for size in held.shape)
    if len(shape) not in (2, 3) or min(shape) < 1 or math.prod(shape[:2]) > MAX_PICTURE_PX:
        raise ValueError(f"shape {shape}")
    if len(held.data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(held.data)} bytes for shape {shape}, type {dtype}")
    return np.frombuffer(held.data, dtype=dtype).reshape(shape, order="F" if held.order == "F" else "C")
