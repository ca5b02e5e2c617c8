"""DICOM pictures and the few header facts that sources use.

How stored values become what a viewer shows stands in `dicom_display`. A frame whose compressed data is cut short is
refused; the decoders would show the missing part in grey.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydicom import Dataset, dcmread, uid
from pydicom.encaps import get_frame
from pydicom.pixels import get_decoder, pixel_array

from medvl.errors import DataError
from medvl.imaging.ages import age_in_years
from medvl.imaging.dicom_display import scale_to_8_bits, show_grey, show_palette
from medvl.imaging.formats import Kind, check_frame, check_size, kind_of, not_whole, open_file
from medvl.imaging.grey import grey_to_rgb
from medvl.imaging.notes import Note
from medvl.imaging.wholeness import find_damage

PALETTE = "PALETTE COLOR"
COLOUR = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_RCT", "YBR_ICT")
MEANINGS = ("MONOCHROME1", "MONOCHROME2", PALETTE, *COLOUR)
"""Photometric interpretations that are read."""

JPEG_LS = (uid.JPEGLSLossless, uid.JPEGLSNearLossless)
DECODERS = {
    **dict.fromkeys((*uid.JPEGTransferSyntaxes, *JPEG_LS), ("pylibjpeg", "pylibjpeg-libjpeg")),
    **dict.fromkeys(uid.JPEG2000TransferSyntaxes, ("pylibjpeg", "pylibjpeg-openjpeg")),
    uid.JPEGBaseline8Bit: ("pillow", "pillow"),
    uid.RLELossless: ("pydicom", "pydicom"),
}
"""Transfer syntax -> (decoder, its package). One each: others that happen to be installed would give other pixels."""

_FACTS = ["PatientSex", "PatientAge", "ViewPosition", "Manufacturer", "ManufacturerModelName"]


def dicom_facts(path: Path) -> dict[str, str]:
    """Facts about the patient and the device, read without the pixels.

    Returns:
        `sex` (M, F, O), `age` (completed years), `view` (PA, AP, LL, ...) and `device` (maker and model); "" for what
        the header does not say, and for an age that is none.

    Raises:
        DataError: The file is absent, damaged or no DICOM file.
    """
    with open_file(path) as file:
        if kind_of(file, path) is not Kind.DICOM:
            raise DataError(f"{path}: expected a DICOM file, found another kind. Check the file.")
        try:
            tags = [*_FACTS, "SpecificCharacterSet"]
            header = dcmread(file, force=True, stop_before_pixels=True, specific_tags=tags)
            sex, age, view, maker, model = (_text(header, name) for name in _FACTS)
        except Exception as error:
            raise _damaged(path, error) from error
    named_twice = model.casefold().startswith(maker.casefold())
    return {
        "sex": sex.upper() if sex.upper() in ("M", "F", "O") else "",
        "age": age_in_years(age) or "",
        "view": view.upper(),
        "device": model if named_twice else f"{maker} {model}".strip(),
    }


def dicom_size(path: Path) -> tuple[int, int]:
    """(width, height) from the header."""
    header = _header(path)
    return int(header.Columns), int(header.Rows)


def dicom_frames(path: Path) -> int:
    """Number of frames from the header."""
    return _frames(_header(path))


def read_dicom(path: Path, frame: int | None) -> tuple[npt.NDArray[np.uint8], set[Note]]:
    """Read one picture as a viewer shows it.

    Args:
        path: DICOM file.
        frame: Frame of a multi-frame file; None is the first.

    Returns:
        (uint8 [H, W, 3] RGB, what was done to it).

    Raises:
        DataError: The file is damaged, holds no picture, lacks the frame or needs a decoder that is not installed.
    """
    header, values = _decode(path, frame)
    several = {Note.FRAME} if _frames(header) > 1 else set()
    meaning = header.PhotometricInterpretation
    try:
        if meaning == PALETTE:
            return show_palette(header, values), several | {Note.PALETTE}
        if meaning in COLOUR:
            deep = {Note.DEEP} if header.BitsStored > 8 else set()
            # The other two are part of JPEG 2000, whose decoder gives RGB.
            converted = {Note.YBR} if meaning.startswith("YBR_FULL") else set()
            return scale_to_8_bits(values, header.BitsStored), several | deep | converted
        grey, notes = show_grey(header, values, frame or 0, path)
    except DataError:
        raise
    except Exception as error:
        raise _damaged(path, error) from error
    return grey_to_rgb(grey), several | notes


def read_dicom_values(path: Path, frame: int | None) -> npt.NDArray[Any]:
    """Stored values without window or inversion, for masks: [H, W], or RGB [H, W, 3] of a coloured picture."""
    return _decode(path, frame)[1]


def _header(path: Path) -> Dataset:
    """All elements before the pixels, checked to describe a picture that can be read."""
    with open_file(path) as file:
        try:
            header = dcmread(file, force=True, stop_before_pixels=True)
            _settle_syntax(header)
            has_picture = "Rows" in header and "Columns" in header
            content = header.SOPClassUID.name if "SOPClassUID" in header else "of unknown content"
            width, height = int(header.get("Columns") or 0), int(header.get("Rows") or 0)
            meaning = str(header.get("PhotometricInterpretation", ""))
            frames = _frames(header)
        except Exception as error:  # pydicom raises almost any type on damaged bytes
            raise _damaged(path, error) from error
    if not has_picture:
        raise DataError(
            f"{path}: expected a DICOM file with a picture, found a DICOM file without one ({content}). "
            "Leave it out, or download or copy it again."
        )
    if min(width, height, frames) < 1:
        raise _damaged(path, f"{width} x {height} px, {frames} frame(s)")
    check_size(width, height, path)
    if meaning not in MEANINGS:
        raise DataError(
            f"{path}: expected a photometric interpretation of {', '.join(MEANINGS)}, found {meaning or 'none'}. "
            "Convert the file with a DICOM tool."
        )
    return header


def _settle_syntax(header: Dataset) -> None:
    """A file without meta information says its encoding only by being readable in it."""
    if "TransferSyntaxUID" not in header.file_meta:
        implicit, little = header.original_encoding
        explicit = uid.ExplicitVRLittleEndian if little else uid.ExplicitVRBigEndian
        header.file_meta.TransferSyntaxUID = uid.ImplicitVRLittleEndian if implicit else explicit


def _frames(header: Dataset) -> int:
    return int(header.get("NumberOfFrames") or 1)


def _decode(path: Path, frame: int | None) -> tuple[Dataset, npt.NDArray[Any]]:
    header = _header(path)
    index, frames = frame or 0, _frames(header)
    check_frame(index, frames, path)
    syntax = header.file_meta.TransferSyntaxUID
    decoder = _decoder(path, syntax)
    try:
        if syntax in (*uid.JPEGTransferSyntaxes, *JPEG_LS):
            _check_whole(path, index, header)
        if syntax == uid.DeflatedExplicitVRLittleEndian:
            return header, pixel_array(dcmread(path, force=True), index=index)
        return header, pixel_array(path, index=index, decoding_plugin=decoder, transfer_syntax_uid=syntax)
    except DataError:
        raise
    except Exception as error:
        raise _damaged(path, error) from error


def _decoder(path: Path, syntax: uid.UID) -> str:
    """Name of the decoder, "" for pixels that are not compressed."""
    try:
        found = get_decoder(syntax).available_plugins
    except NotImplementedError:
        raise DataError(
            f"{path}: expected an encoding of still pictures, found {syntax.name}. Convert the file with a DICOM tool."
        ) from None
    decoder, package = DECODERS.get(syntax, ("", ""))
    if decoder and decoder not in found:
        also = "pylibjpeg " if decoder == "pylibjpeg" else ""
        raise DataError(
            f"{path}: its encoding, {syntax.name}, needs the package {package}, which is not installed. "
            f"Install it: pip install {also}{package}"
        )
    return decoder


def _check_whole(path: Path, index: int, header: Dataset) -> None:
    offsets = None
    if "ExtendedOffsetTable" in header and "ExtendedOffsetTableLengths" in header:
        offsets = (header.ExtendedOffsetTable, header.ExtendedOffsetTableLengths)
    with open_file(path) as file:
        dcmread(file, force=True, stop_before_pixels=True, specific_tags=["Rows"])
        file.seek(12, 1)  # tag, type and length of the pixel data: compressed files are explicit little endian
        content = get_frame(file, index, number_of_frames=_frames(header), extended_offsets=offsets)
    if header.file_meta.TransferSyntaxUID in JPEG_LS:
        # Its bit stuffing is not JPEG's, so only the end is looked at.
        damage = "" if content.rstrip(b"\0").endswith(b"\xff\xd9") else "a JPEG-LS picture without its end mark"
    else:
        damage = find_damage(content)
    if damage:
        raise not_whole(path, f"a DICOM file with {damage} in frame {index}")


def _text(header: Dataset, name: str) -> str:
    raw = header.get_item(name)
    if raw is not None and isinstance(raw.value, bytes) and name == "PatientAge":
        # Read unparsed: `62` is written though it is no valid age, and pydicom would warn of each.
        return raw.value.decode("ascii", "replace").strip(" \0")
    value = header.get(name)
    return str((value if isinstance(value, str) else next(iter(value or ()), "")) or "").strip(" \0")


def _damaged(path: Path, reason: object) -> DataError:
    told = " ".join(str(reason).split())[:200] or type(reason).__name__
    return DataError(
        f"{path}: expected a DICOM file whose picture can be read, found a damaged or incomplete DICOM file ({told}). "
        "Download or copy this file again."
    )
