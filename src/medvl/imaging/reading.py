"""The one rule by which picture files become pixels.

Every picture ends as 8-bit RGB, whatever its file holds: EXIF orientation applied, palettes resolved, transparent parts
over black, deeper grey scaled to 8 bits, DICOM as a viewer shows it, one frame of a stack or a video. A file that is
not whole is refused, never half shown. The content decides what a file is, not its extension.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps

from medvl.errors import DataError
from medvl.imaging.formats import (
    MAX_PICTURE_PX,
    PICTURE_FORMATS,
    Kind,
    check_frame,
    check_size,
    find_kind,
    kind_of,
    no_picture,
    not_whole,
    open_file,
)
from medvl.imaging.grey import grey_notes, grey_to_8_bits, grey_to_rgb
from medvl.imaging.notes import Note
from medvl.imaging.wholeness import PNG_START, find_damage

# pydicom and SimpleITK take half a second to import, which nobody should wait for who reads PNGs: each reader is
# imported when the first file of its kind is met.

_EXIF_TURNED = range(2, 9)
_EXIF_TURNED_SIDEWAYS = range(5, 9)
_PNG_META_CHUNKS = (b"eXIf", b"tEXt", b"zTXt", b"iTXt")
_MAY_HOLD_FRAMES = ("GIF", "TIFF", "WEBP", "PNG")


def read_picture(path: Path, frame: int | None = None) -> npt.NDArray[np.uint8]:
    """Read one picture as 8-bit RGB.

    Args:
        path: PNG, JPEG, TIFF, BMP, GIF, WebP, JPEG 2000, PPM, DICOM, MetaImage (.mha, .mhd), AVI or MP4 file.
        frame: Frame of a multi-frame file; None is the first (of a MetaImage see `volumes`).

    Returns:
        uint8 [H, W, 3], RGB, values in 0..255.

    Raises:
        DataError: The file is absent, empty, cut short, damaged, not a picture, too large, lacks the frame, or needs a
            decoder that is not installed.
    """
    return read_picture_noted(path, frame)[0]


def read_picture_noted(path: Path, frame: int | None = None) -> tuple[npt.NDArray[np.uint8], frozenset[Note]]:
    """Read one picture as `read_picture` does, and say what the rule did to it.

    Returns:
        (uint8 [H, W, 3], the notes; none for plain 8-bit RGB).

    Raises:
        DataError: As for `read_picture`.
    """
    with open_file(path) as file:
        kind = kind_of(file, path)
        content = file.read() if kind is Kind.PICTURE else b""
    if kind is Kind.PICTURE:
        pixels, notes = _read_still(content, path, frame)
    elif kind is Kind.DICOM:
        from medvl.imaging.dicom import read_dicom

        pixels, notes = read_dicom(path, frame)
    elif kind is Kind.VOLUME:
        from medvl.imaging.volumes import read_volume

        values, notes = read_volume(path, frame)
        if values.ndim == 2:
            notes |= grey_notes(values)
            pixels = grey_to_rgb(grey_to_8_bits(values, path))
        else:
            pixels = np.array(values, dtype=np.uint8)  # a copy that may be written to
    else:
        from medvl.imaging.video import read_video

        pixels, notes = read_video(path, frame), {Note.VIDEO, Note.FRAME}
    return pixels, frozenset(notes)


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height in pixels as `read_picture` would give them, from the header.

    Returns:
        (width, height) after EXIF orientation.

    Raises:
        DataError: The file is absent, empty, not a picture or too large. Damage behind the header is not seen.
    """
    kind = find_kind(path)
    if kind is not Kind.PICTURE:
        return _header_readers(kind)[0](path)
    try:
        with open_file(path) as file, Image.open(file, formats=PICTURE_FORMATS) as image:
            check_size(image.width, image.height, path)
            is_turned = _read_exif(image, path).get(ExifTags.Base.Orientation) in _EXIF_TURNED_SIDEWAYS
            return (image.height, image.width) if is_turned else (image.width, image.height)
    except DataError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def frame_count(path: Path) -> int:
    """Number of frames that `read_picture` can be asked for, from the header.

    Returns:
        1 for a single picture. A MetaImage of three planes has 3, though it is one picture when no frame is asked for.
        Of a video, what its header states.

    Raises:
        DataError: As for `picture_size`.
    """
    kind = find_kind(path)
    if kind is not Kind.PICTURE:
        return _header_readers(kind)[1](path)
    try:
        with open_file(path) as file, Image.open(file, formats=PICTURE_FORMATS) as image:
            return int(getattr(image, "n_frames", 1))
    except Exception as error:
        raise _unreadable(path, error) from error


def pixel_hash(pixels: npt.NDArray[np.uint8]) -> str:
    """SHA-256 over shape and pixel bytes.

    Args:
        pixels: uint8 [H, W, C], row-major in the hash whatever its memory order.

    Returns:
        64 hex digits, equal for equal pixels of equal shape only.
    """
    digest = hashlib.sha256("x".join(map(str, pixels.shape)).encode() + b":")
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def decode_image(path: Path, frame: int | None = None) -> Image.Image:
    """Decode a whole still picture (no DICOM, MetaImage or video) in the mode it has, EXIF orientation applied.

    Raises:
        DataError: As for `read_picture`.
    """
    with open_file(path) as file:
        content = file.read()
    return _decode(content, path, frame)[0]


def over_black(image: Image.Image) -> Image.Image:
    """Turn any 8-bit mode into RGB, transparent parts composited over black."""
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, (0, 0, 0, 255)), rgba).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")  # which would copy


def _header_readers(kind: Kind) -> tuple[Callable[[Path], tuple[int, int]], Callable[[Path], int]]:
    """(reader of the size, reader of the number of frames) for a kind that Pillow does not read."""
    if kind is Kind.DICOM:
        from medvl.imaging.dicom import dicom_frames, dicom_size

        return dicom_size, dicom_frames
    if kind is Kind.VOLUME:
        from medvl.imaging.volumes import volume_frames, volume_size

        return volume_size, volume_frames
    from medvl.imaging.video import video_frames, video_size

    return video_size, video_frames


def _read_still(content: bytes, path: Path, frame: int | None) -> tuple[npt.NDArray[np.uint8], set[Note]]:
    image, notes = _decode(content, path, frame)
    is_deep = image.mode.startswith(("I", "F"))
    # Pillow shortens deep colour and deep grey with transparency itself, so the header is asked.
    if content.startswith(PNG_START) and content[24] == 16 and not is_deep:
        notes.add(Note.DEEP)
    if is_deep:
        values = np.asarray(image)
        return grey_to_rgb(grey_to_8_bits(values, path)), notes | grey_notes(values)
    if image.has_transparency_data:
        notes.add(Note.ALPHA)
    if image.mode in ("P", "PA"):
        notes.add(Note.PALETTE)
    elif image.mode in ("1", "L", "LA", "La"):
        notes.add(Note.GREY)
    elif image.mode == "CMYK":
        notes.add(Note.CMYK)
    if image.mode == "L" and not image.has_transparency_data:
        return grey_to_rgb(np.asarray(image)), notes
    try:
        return np.array(over_black(image), dtype=np.uint8), notes
    except Exception as error:  # LAB in a Pillow built without colour management
        raise _unreadable(path, error) from error


def _decode(content: bytes, path: Path, frame: int | None) -> tuple[Image.Image, set[Note]]:
    damage = find_damage(content)
    if damage:
        raise not_whole(path, damage)
    notes = set()
    try:
        # Not closed: the picture holds nothing but the bytes, and a copy that outlives the file would cost time.
        image: Image.Image = Image.open(BytesIO(content), formats=PICTURE_FORMATS)
        check_size(image.width, image.height, path)
        if frame is not None:
            check_frame(frame, getattr(image, "n_frames", 1), path)
            image.seek(frame)
        if image.format in _MAY_HOLD_FRAMES and getattr(image, "is_animated", False):
            notes.add(Note.FRAME)
        image.load()
        # exif_transpose copies what it does not turn.
        if image.getexif().get(ExifTags.Base.Orientation) in _EXIF_TURNED:
            image = ImageOps.exif_transpose(image)
            notes.add(Note.EXIF_TURNED)
        return image, notes
    except DataError:
        raise
    except Exception as error:  # decoders raise almost any type on damaged bytes
        raise _unreadable(path, error) from error


def _read_exif(image: Image.Image, path: Path) -> Image.Exif:
    """EXIF, without decoding unless it may stand behind the pixels."""
    # Pillow decodes every PNG in full before it answers; its base class answers from what was read so far.
    is_read = image.format == "PNG" and not _has_late_meta(path)
    return Image.Image.getexif(image) if is_read else image.getexif()


def _has_late_meta(path: Path) -> bool:
    """Whether a PNG has chunks behind its pixels that may hold EXIF."""
    with open_file(path) as file:
        file.seek(len(PNG_START))
        is_behind = False
        while len(head := file.read(8)) == 8:
            is_behind |= head[4:] == b"IDAT"
            if is_behind and head[4:] in _PNG_META_CHUNKS:
                return True
            file.seek(int.from_bytes(head[:4], "big") + 4, 1)
    return False


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return DataError(
            f"{path}: expected at most {MAX_PICTURE_PX:,} pixels, found more. "
            "Scale the picture down or remove the file if it is not a picture of the dataset."
        )
    return no_picture(path)
