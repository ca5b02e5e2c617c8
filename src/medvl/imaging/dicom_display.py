"""From stored DICOM values to what a viewer shows.

Grey values go through the modality rescale or lookup table, then through the first VOI lookup table or, without one,
the first window (PS3.3, C.11.1 and C.11.2). Without either they are scaled by the rule for deep grey, pixel padding
shown as the darkest other pixel. MONOCHROME1 is inverted last. Overlays, ICC profiles and presentation states are not
applied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydicom import Dataset
from pydicom.pixels import apply_color_lut

from medvl.imaging.grey import depth_of, grey_notes, grey_to_8_bits
from medvl.imaging.notes import Note

COLOURS = ("Red", "Green", "Blue")


def show_grey(
    header: Dataset, values: npt.NDArray[Any], index: int, path: Path
) -> tuple[npt.NDArray[np.uint8], set[Note]]:
    """Grey as a viewer shows it when the file is opened.

    Args:
        header: Elements of the file; settings kept per file or per frame are lifted to its top level.
        values: [H, W], as stored.
        index: Frame that `values` are of.
        path: Named in messages.

    Returns:
        (uint8 [H, W], what was done to it).
    """
    _lift_frame_settings(header, index)
    grey, notes = _through_voi(header, values, path)
    if header.PhotometricInterpretation == "MONOCHROME1":
        return np.asarray(255 - grey, dtype=np.uint8), notes | {Note.MONOCHROME1}
    return grey, notes


def show_palette(header: Dataset, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Colours of palette indices, [H, W] to uint8 [H, W, 3]."""
    if "RedPaletteColorLookupTableData" in header:
        little = _is_little_endian(header)
        tables = [_table(header, f"{name}PaletteColorLookupTable", little) for name in COLOURS]
        first = tables[0][1]
        colours = np.stack([_look_up(values, table, first) for table, _ in tables], axis=-1)
        brightest = max(int(table.max()) for table, _ in tables)
    else:
        colours = apply_color_lut(values, header)[..., :3]
        brightest = int(np.iinfo(colours.dtype).max)
    # 16-bit tables that hold 8-bit colours occur; the table decides, not the colours that the picture happens to use.
    return np.ascontiguousarray(colours >> 8 if brightest > 255 else colours, dtype=np.uint8)


def scale_to_8_bits(values: npt.NDArray[Any], bits: int) -> npt.NDArray[np.uint8]:
    """Scale 0..2**bits-1 to 0..255."""
    if bits == 8:
        return np.asarray(values, dtype=np.uint8)
    return np.asarray(np.rint(values * (255.0 / (2**bits - 1))), dtype=np.uint8)


def _lift_frame_settings(header: Dataset, index: int) -> None:
    """Enhanced files keep rescale and window in functional groups, for the file or for each frame."""
    shared = header.get("SharedFunctionalGroupsSequence") or []
    own = header.get("PerFrameFunctionalGroupsSequence") or []
    for group in (*shared[:1], *own[index : index + 1]):
        for name in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
            for macro in group.get(name) or []:
                header.update(macro)


def _through_voi(header: Dataset, values: npt.NDArray[Any], path: Path) -> tuple[npt.NDArray[np.uint8], set[Note]]:
    if header.get("VOILUTSequence"):
        return _by_value(values, lambda ramp: _voi_table(header, _modality(header, ramp))), {Note.GREY, Note.VOI_LUT}
    function = str(header.get("VOILUTFunction") or "LINEAR").upper()
    window = _window(header, function)
    if window is not None:
        curve = _by_value(values, lambda ramp: _windowed(_modality(header, ramp), *window, function))
        return curve, {Note.GREY, Note.WINDOW}
    if header.BitsStored < 8:
        return scale_to_8_bits(values, header.BitsStored), {Note.GREY}
    padding = header.get("PixelPaddingValue")
    if header.BitsStored > 8 and isinstance(padding, int) and (values != padding).any():
        values = np.where(values == padding, values[values != padding].min(), values)
    values = _modality(header, values)
    return grey_to_8_bits(values, path), grey_notes(values)


def _by_value(
    values: npt.NDArray[Any], curve: Callable[[npt.NDArray[Any]], npt.NDArray[np.uint8]]
) -> npt.NDArray[np.uint8]:
    """Apply a curve that is worked out once for each possible value, not once a pixel."""
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest > 0xFFFF:
        return curve(values)
    return np.asarray(curve(np.arange(lowest, highest + 1))[values.astype(np.int64) - lowest])


def _modality(header: Dataset, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if header.get("ModalityLUTSequence"):
        return _look_up(values, *_table(header.ModalityLUTSequence[0], "LUT", _is_little_endian(header)))
    slope, intercept = (_first_number(header, name) for name in ("RescaleSlope", "RescaleIntercept"))
    if slope is None or intercept is None or (slope, intercept) == (1, 0):
        return values  # whole numbers stay whole
    return np.asarray(values * slope + intercept, dtype=np.float64)


def _voi_table(header: Dataset, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    table, first = _table(header.VOILUTSequence[0], "LUT", _is_little_endian(header))
    return scale_to_8_bits(_look_up(np.rint(values), table, first), depth_of(int(table.max())))


def _is_little_endian(header: Dataset) -> bool:
    return bool(header.file_meta.TransferSyntaxUID.is_little_endian)


def _table(item: Dataset, name: str, little: bool) -> tuple[npt.NDArray[np.uint16], int]:
    """(entries of a lookup table, value that the first entry is for)."""
    count, first, _ = item[f"{name}Descriptor"].value
    count = count or 65536
    data = item[f"{name}Data"].value
    if isinstance(data, bytes):
        wide = "<u2" if little else ">u2"
        data = np.frombuffer(data, dtype=wide if len(data) >= 2 * count else np.uint8)
    return np.atleast_1d(np.asarray(data, dtype=np.uint16))[:count], int(first)


def _look_up(values: npt.NDArray[Any], table: npt.NDArray[np.uint16], first: int) -> npt.NDArray[np.uint16]:
    """Values outside the table take its first or last entry."""
    return np.asarray(table[np.clip(values.astype(np.int64) - first, 0, len(table) - 1)])


def _window(header: Dataset, function: str) -> tuple[float, float] | None:
    """(centre, width) of the first window, None without a usable one."""
    centre, width = (_first_number(header, name) for name in ("WindowCenter", "WindowWidth"))
    if centre is None or width is None or not math.isfinite(centre + width):
        return None
    return (centre, width) if width > 0 and (function != "LINEAR" or width >= 1) else None


def _first_number(header: Dataset, name: str) -> float | None:
    value = header.get(name)
    if value is None or value == "":
        return None
    return float(value if isinstance(value, (int, float, str)) else value[0])


def _windowed(values: npt.NDArray[Any], centre: float, width: float, function: str) -> npt.NDArray[np.uint8]:
    """The three VOI functions of PS3.3, C.11.2.1, with an output of 0 to 255."""
    x = values.astype(np.float64)
    if function == "SIGMOID":
        shares = 1 / (1 + np.exp(np.clip(-4 * (x - centre) / width, -700, 700)))
    elif function == "LINEAR_EXACT":
        shares = (x - centre) / width + 0.5
    elif width == 1:
        shares = (x > centre - 0.5).astype(np.float64)
    else:
        shares = (x - (centre - 0.5)) / (width - 1) + 0.5
    return np.asarray(np.rint(np.clip(shares, 0, 1) * 255), dtype=np.uint8)
