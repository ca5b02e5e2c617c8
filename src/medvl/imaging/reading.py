"""The one rule by which picture files become pixels.

Every picture ends as 8-bit RGB, whatever its file holds: EXIF orientation applied, palettes resolved, transparent parts
over black, deeper grey scaled to 8 bits. A file that is not whole is refused, never half shown.
"""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from medvl.errors import DataError
from medvl.imaging.wholeness import describe_content, find_damage

FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "JPEG2000", "PPM")
"""Formats that are tried. A closed list: Pillow knows others that start outside programs."""

MAX_PICTURE_PX = 80_000_000
"""Largest picture that is decoded, in pixels (width x height). A chest film has about 12 million."""

GREY_DEPTHS_BITS = (8, 10, 12, 14, 16)
"""Depths that grey data in a 16-bit container is taken to have."""


def read_picture(path: Path, frame: int | None = None) -> npt.NDArray[np.uint8]:
    """Read one picture as 8-bit RGB.

    Args:
        path: PNG, JPEG, TIFF, BMP, GIF, WebP, JPEG 2000 or PPM file; the content decides, not the extension.
        frame: Frame of a multi-frame file; None is the first.

    Returns:
        uint8 [H, W, 3], RGB, values in 0..255.

    Raises:
        DataError: The file is absent, empty, cut short, damaged, not a picture, too large, or lacks the frame.
    """
    image = decode_image(path, frame)
    if image.mode.startswith(("I", "F")):
        grey = grey_to_8_bits(np.asarray(image), path)
        return np.repeat(grey[:, :, None], 3, axis=2)
    return np.array(over_black(image), dtype=np.uint8)


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height in pixels as `read_picture` would give them, without decoding.

    Returns:
        (width, height) after EXIF orientation.

    Raises:
        DataError: The file is absent, empty, not a picture or too large. Damage behind the header is not seen.
    """
    try:
        with Image.open(BytesIO(_read_bytes(path)), formats=FORMATS) as image:
            _check_size(image, path)
            turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
            return (image.height, image.width) if turned else (image.width, image.height)
    except DataError:
        raise
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
    digest.update(np.ascontiguousarray(pixels).tobytes())
    return digest.hexdigest()


def decode_image(path: Path, frame: int | None = None) -> Image.Image:
    """Decode a whole picture file in the mode it has, EXIF orientation applied.

    Raises:
        DataError: As for `read_picture`.
    """
    content = _read_bytes(path)
    damage = find_damage(content)
    if damage:
        raise DataError(f"{path}: expected a whole picture, found {damage}. Download or copy this file again.")
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            _check_size(image, path)
            _seek(image, frame, path)
            image.load()
            upright = ImageOps.exif_transpose(image)
            # exif_transpose hands back the file-bound object where nothing is turned; the copy outlives the file.
            return upright if upright is not image else image.copy()
    except DataError:
        raise
    except Exception as error:  # decoders raise almost any type on damaged bytes
        raise _unreadable(path, error) from error


def over_black(image: Image.Image) -> Image.Image:
    """Turn any 8-bit mode into RGB, transparent parts composited over black."""
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, (0, 0, 0, 255)), rgba).convert("RGB")
    return image.convert("RGB")


def grey_to_8_bits(grey: npt.NDArray[np.generic], path: Path) -> npt.NDArray[np.uint8]:
    """Scale deep grey to 8 bits.

    Whole numbers in 0..65535: data that is 8-bit grey written wider (every value a multiple of 257, or of 256) gets its
    8-bit values back; else the full scale is the smallest depth of `GREY_DEPTHS_BITS` that holds the brightest pixel,
    so 12-bit data in a 16-bit container is not black and the brightest pixel is at least a quarter of white. Other
    data (floats, signed or 32-bit numbers beyond that range) is stretched from its minimum to its maximum.

    Args:
        grey: [H, W], any integer or float type.
        path: Named in messages.

    Returns:
        uint8 [H, W].

    Raises:
        DataError: Values that are not finite.
    """
    values = grey.astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"{path}: expected finite grey values, found NaN or infinite ones. Export the picture again.")
    low, high = float(values.min()), float(values.max())
    if grey.dtype.kind == "f" or low < 0 or high > 65535:
        span = high - low
        values = (values - low) * (255.0 / span if span else 0.0)
        return np.asarray(np.rint(values), dtype=np.uint8)
    whole = grey.astype(np.int64)
    for step in (257, 256):
        if not (whole % step).any():
            return np.asarray(whole // step, dtype=np.uint8)
    depth = next(bits for bits in GREY_DEPTHS_BITS if high < 2**bits)
    return np.asarray(np.rint(values * (255.0 / (2**depth - 1))), dtype=np.uint8)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: expected a picture, found no file of this name. Complete the copy.") from None
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path}: the picture cannot be opened ({reason}). Check the path and its rights.") from error


def _check_size(image: Image.Image, path: Path) -> None:
    if image.width * image.height > MAX_PICTURE_PX:
        raise DataError(
            f"{path}: expected at most {MAX_PICTURE_PX:,} pixels, found {image.width} x {image.height}. "
            "Scale the picture down or remove the file if it is not a picture of the dataset."
        )


def _seek(image: Image.Image, frame: int | None, path: Path) -> None:
    frames = getattr(image, "n_frames", 1)
    if frame is None:
        return
    if not 0 <= frame < frames:
        raise DataError(f"{path}: expected frame {frame}, found {frames} frame(s) (0 to {frames - 1}).")
    image.seek(frame)


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return DataError(
            f"{path}: expected at most {MAX_PICTURE_PX:,} pixels, found more. "
            "Scale the picture down or remove the file if it is not a picture of the dataset."
        )
    found = describe_content(_read_bytes(path))
    return DataError(
        f"{path}: expected a picture ({', '.join(FORMATS)}), found {found}. Download or copy this file again."
    )
