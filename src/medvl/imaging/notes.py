"""What the reading rule had to do to a file, so that a build can count it."""

from __future__ import annotations

from enum import StrEnum


class Note(StrEnum):
    """One thing that the reading rule did to a picture. Plain 8-bit RGB has none."""

    EXIF_TURNED = "exif turned"
    """Turned upright as its EXIF orientation says."""
    GREY = "grey"
    """One channel shown as three equal ones."""
    DEEP = "deep scaled"
    """More than 8 bits a channel scaled to 8."""
    STRETCHED = "stretched"
    """Floats, signed or very large numbers stretched from their minimum to their maximum."""
    PALETTE = "palette"
    """Palette indices replaced by their colours."""
    ALPHA = "alpha over black"
    """Transparent parts shown over black."""
    CMYK = "cmyk"
    """Printing inks turned into RGB."""
    FRAME = "frame of several"
    """One frame of a file that holds several."""
    CHANNELS_FIRST = "channels first"
    """A 3 x H x W volume read as one RGB picture."""
    VIDEO = "video"
    """A frame decoded from a video."""
    MONOCHROME1 = "dicom monochrome1"
    """Inverted, because low values mean white."""
    WINDOW = "dicom window"
    """Shown through the file's first window."""
    VOI_LUT = "dicom voi lut"
    """Shown through the file's first lookup table."""
    YBR = "dicom ybr"
    """Luminance and chrominance turned into RGB."""
