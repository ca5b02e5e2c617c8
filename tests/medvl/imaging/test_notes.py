from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813 - how everybody writes it
from PIL import Image
from pydicom import Dataset, uid
from pydicom.dataset import FileMetaDataset

from medvl.imaging.notes import Note
from medvl.imaging.reading import read_picture, read_picture_noted

GREY = np.random.default_rng(0).integers(0, 255, (40, 60), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 255, (40, 60, 3), dtype=np.uint8)


def by_pillow(name: str, image: Image.Image, **options: object) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        image.save(folder / name, **options)
        return folder / name

    return write


def by_simpleitk(array: np.ndarray, *, vectors: bool = False) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        sitk.WriteImage(sitk.GetImageFromArray(array, isVector=vectors), str(folder / "a.mha"))
        return folder / "a.mha"

    return write


def by_opencv(*frames: np.ndarray) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        video = cv2.VideoWriter(str(folder / "a.avi"), cv2.CAP_FFMPEG, cv2.VideoWriter_fourcc(*"FFV1"), 25, (60, 40))
        for frame in frames:
            video.write(frame)
        video.release()
        return folder / "a.avi"

    return write


def deep_colour(folder: Path) -> Path:
    cv2.imwrite(str(folder / "a.png"), COLOUR.astype(np.uint16) * 257)
    return folder / "a.png"


def by_pydicom(array: np.ndarray, meaning: str = "MONOCHROME2", **elements: object) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        ds = Dataset()
        ds.file_meta = FileMetaDataset()
        ds.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
        ds.SOPClassUID, ds.SOPInstanceUID = uid.SecondaryCaptureImageStorage, "1.2.3"
        ds.Rows, ds.Columns, ds.SamplesPerPixel = 40, 60, array.shape[2] if array.ndim == 3 else 1
        ds.BitsAllocated = ds.BitsStored = 8 * array.dtype.itemsize
        ds.HighBit, ds.PixelRepresentation, ds.PlanarConfiguration = ds.BitsStored - 1, 0, 0
        ds.PhotometricInterpretation = meaning
        for name, value in elements.items():
            setattr(ds, name, value)
        ds.PixelData = array.tobytes()
        ds["PixelData"].VR = "OW"
        ds.save_as(folder / "a.dcm", enforce_file_format=True)
        return folder / "a.dcm"

    return write


def lookup_table() -> Dataset:
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [256, 0, 8])
    item.add_new("LUTData", "US", list(range(255, -1, -1)))
    return item


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


COLOURS = Image.fromarray(COLOUR)
SHADES = Image.fromarray(GREY)
CLEAR = Image.merge("RGBA", [*COLOURS.split(), SHADES])
TABLE = {
    f"{name}PaletteColorLookupTable{part}": value
    for name in ("Red", "Green", "Blue")
    for part, value in (("Descriptor", [256, 0, 8]), ("Data", bytes(range(256))))
}

FILES = {
    "png": (by_pillow("a.png", COLOURS), set()),
    "jpeg": (by_pillow("a.jpg", COLOURS), set()),
    "bmp": (by_pillow("a.bmp", COLOURS), set()),
    "grey png": (by_pillow("a.png", SHADES), {Note.GREY}),
    "1-bit png": (by_pillow("a.png", SHADES.convert("1")), {Note.GREY}),
    "grey with alpha": (by_pillow("a.png", Image.merge("LA", [SHADES, SHADES])), {Note.GREY, Note.ALPHA}),
    "16-bit grey png": (by_pillow("a.png", Image.fromarray(GREY.astype(np.uint16) * 257)), {Note.GREY, Note.DEEP}),
    "16-bit colour png": (deep_colour, {Note.DEEP}),
    "float tiff": (by_pillow("a.tif", Image.fromarray(GREY.astype(np.float32))), {Note.GREY, Note.STRETCHED}),
    "palette": (by_pillow("a.png", COLOURS.quantize(16)), {Note.PALETTE}),
    "palette with a clear colour": (
        by_pillow("a.png", COLOURS.quantize(16), transparency=0),
        {Note.PALETTE, Note.ALPHA},
    ),
    "alpha": (by_pillow("a.png", CLEAR), {Note.ALPHA}),
    "cmyk": (by_pillow("a.jpg", COLOURS.convert("CMYK")), {Note.CMYK}),
    "turned": (by_pillow("a.jpg", SHADES, exif=turned()), {Note.GREY, Note.EXIF_TURNED}),
    "tiff stack": (by_pillow("a.tif", COLOURS, save_all=True, append_images=[COLOURS]), {Note.FRAME}),
    "gif film": (by_pillow("a.gif", COLOURS, save_all=True, append_images=[SHADES]), {Note.PALETTE, Note.FRAME}),
    "mha": (by_simpleitk(GREY), {Note.GREY}),
    "mha colour": (by_simpleitk(COLOUR, vectors=True), set()),
    "mha stack": (by_simpleitk(np.stack([GREY] * 4)), {Note.GREY, Note.FRAME}),
    "mha planes": (by_simpleitk(np.stack([GREY] * 3)), {Note.CHANNELS_FIRST}),
    "video": (by_opencv(COLOUR, COLOUR), {Note.VIDEO, Note.FRAME}),
    "dicom": (by_pydicom(COLOUR, "RGB"), set()),
    "dicom ybr": (by_pydicom(COLOUR, "YBR_FULL"), {Note.YBR}),
    "dicom palette": (by_pydicom(GREY, "PALETTE COLOR", **TABLE), {Note.PALETTE}),
    "dicom grey": (by_pydicom(GREY), {Note.GREY}),
    "dicom deep": (by_pydicom(GREY.astype(np.uint16) * 257), {Note.GREY, Note.DEEP}),
    "dicom inverted": (by_pydicom(GREY, "MONOCHROME1"), {Note.GREY, Note.MONOCHROME1}),
    "dicom window": (by_pydicom(GREY, WindowCenter=90, WindowWidth=40), {Note.GREY, Note.WINDOW}),
    "dicom table": (by_pydicom(GREY, VOILUTSequence=[lookup_table()]), {Note.GREY, Note.VOI_LUT}),
}


@pytest.mark.parametrize("name", list(FILES))
def test_a_reading_notes_what_the_rule_did_and_nothing_else(tmp_path, name):
    write, expected = FILES[name]
    path = write(tmp_path)
    pixels, notes = read_picture_noted(path)
    assert notes == expected
    assert isinstance(notes, frozenset)
    assert pixels.dtype == np.uint8
    assert pixels.shape in ((40, 60, 3), (60, 40, 3))
    assert pixels.flags.writeable
    assert np.array_equal(pixels, read_picture(path))


def test_every_note_is_given_to_some_file():
    assert set().union(*(notes for _, notes in FILES.values())) == set(Note)


def test_notes_are_plain_words():
    assert all(isinstance(note, str) and note == note.lower() and note.isprintable() for note in Note)
