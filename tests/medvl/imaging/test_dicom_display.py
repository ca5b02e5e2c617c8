import warnings
from pathlib import Path

import numpy as np
import pytest
from pydicom import Dataset, dcmread
from pydicom.data import get_testdata_file
from pydicom.dataset import FileMetaDataset
from pydicom.pixels import apply_modality_lut, apply_voi_lut, pixel_array
from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian

from medvl.imaging.dicom_display import scale_to_8_bits, show_grey, show_palette
from medvl.imaging.notes import Note

PATH = Path("x.dcm")
RAMP = np.arange(4096, dtype=np.uint16).reshape(64, 64)


def header(**elements: object) -> Dataset:
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made.PhotometricInterpretation, made.BitsStored, made.PixelRepresentation = "MONOCHROME2", 12, 0
    for name, value in elements.items():
        setattr(made, name, value)
    return made


def table(entries: list[int], first: int = 0, bits: int = 8) -> Dataset:
    item = Dataset()
    item.LUTDescriptor = [len(entries), first, bits]
    item["LUTDescriptor"].VR = "US"
    item.LUTData = entries
    item["LUTData"].VR = "US"
    return item


def shown(values: np.ndarray, index: int = 0, **elements: object) -> tuple[np.ndarray, set[Note]]:
    return show_grey(header(**elements), values, index, PATH)


def linear(x: float, centre: float, width: float) -> float:
    """The pseudo code of PS3.3, C.11.2.1.2.1, for an output of 0 to 255."""
    if x <= centre - 0.5 - (width - 1) / 2:
        return 0
    if x > centre - 0.5 + (width - 1) / 2:
        return 255
    return ((x - (centre - 0.5)) / (width - 1) + 0.5) * 255


@pytest.mark.parametrize(("centre", "width"), [(2048, 4096), (1000, 400), (100.5, 33.3), (2000, 2), (2000, 1)])
def test_a_window_follows_the_standard(centre, width):
    grey, notes = shown(RAMP, WindowCenter=centre, WindowWidth=width)
    expected = [round(linear(x, centre, width)) for x in range(4096)]
    assert np.abs(grey.ravel().astype(int) - expected).max() <= (1 if width % 1 else 0)
    assert grey.dtype == np.uint8
    assert notes == {Note.GREY, Note.WINDOW}


def test_the_exact_and_the_sigmoid_window_follow_the_standard():
    exact, _ = shown(RAMP, WindowCenter=1000, WindowWidth=500, VOILUTFunction="LINEAR_EXACT")
    assert exact.ravel()[[749, 750, 1000, 1250, 1251]].tolist() == [0, 0, 128, 255, 255]
    sigmoid, _ = shown(RAMP, WindowCenter=1000, WindowWidth=500, VOILUTFunction="SIGMOID")
    expected = 255 / (1 + np.exp(-4 * (np.arange(4096) - 1000) / 500))
    assert np.abs(sigmoid.ravel() - expected).max() <= 0.5


def test_of_several_windows_the_first_is_used():
    several, _ = shown(RAMP, WindowCenter=[1000, 300], WindowWidth=[400, 100])
    assert np.array_equal(several, shown(RAMP, WindowCenter=1000, WindowWidth=400)[0])


def test_the_window_is_in_rescaled_units():
    plain, _ = shown(RAMP, WindowCenter=1000, WindowWidth=400)
    rescaled, _ = shown(RAMP, WindowCenter=976, WindowWidth=800, RescaleSlope=2, RescaleIntercept=-1024)
    assert np.abs(plain.astype(int) - rescaled).max() <= 1


@pytest.mark.parametrize(("centre", "width"), [(100, 0), (100, -5), (100, 0.5), (None, 100), (100, None), ("", "")])
def test_a_window_that_cannot_be_one_is_passed_over(centre, width):
    grey, notes = shown(RAMP, WindowCenter=centre, WindowWidth=width)
    assert np.array_equal(grey, shown(RAMP)[0])
    assert notes == {Note.GREY, Note.DEEP}


@pytest.mark.parametrize(
    "settings", [{}, {"WindowCenter": 1000, "WindowWidth": 400}, {"VOILUTSequence": [table([0, 9, 30])]}]
)
def test_monochrome1_is_the_inverse_of_monochrome2(settings):
    grey, notes = shown(RAMP, **settings)
    inverse, more_notes = shown(RAMP, PhotometricInterpretation="MONOCHROME1", **settings)
    assert np.array_equal(inverse, 255 - grey)
    assert more_notes == notes | {Note.MONOCHROME1}


@pytest.mark.parametrize("bits", [8, 9, 10, 11, 12, 13, 14, 15, 16])
def test_without_a_window_every_depth_follows_the_rule_for_grey(bits):
    ramp = np.linspace(0, 2**bits - 1, 4096).round().astype(np.uint8 if bits == 8 else np.uint16).reshape(64, 64)
    grey, _ = shown(ramp, BitsStored=bits)
    assert grey.min() == 0
    assert grey.max() >= 127
    assert (np.diff(grey.ravel().astype(int)) >= 0).all()
    if bits == 8:
        assert np.array_equal(grey, ramp)


def test_one_bit_is_black_and_white():
    bits = np.eye(5, dtype=np.uint8)
    assert np.array_equal(shown(bits, BitsStored=1)[0], bits * 255)


def test_signed_and_rescaled_values_without_a_window_are_stretched():
    grey, notes = shown(RAMP, RescaleSlope=1, RescaleIntercept=-1024)
    assert (grey.min(), grey.max()) == (0, 255)
    assert notes == {Note.GREY, Note.STRETCHED}
    assert np.array_equal(shown(RAMP.astype(np.int16) - 1024)[0], grey)
    assert np.array_equal(shown(RAMP, RescaleSlope=1, RescaleIntercept=0)[0], shown(RAMP)[0])


def test_padding_is_shown_as_the_darkest_pixel_and_does_not_change_the_rest():
    padded = RAMP.astype(np.int16)
    padded[:8] = -2000
    grey, _ = shown(padded, PixelPaddingValue=-2000, PixelRepresentation=1, BitsStored=16)
    assert (grey[:8] == grey[8, 0]).all()
    assert np.array_equal(grey[8:], shown(RAMP)[0][8:])
    untouched, _ = shown(RAMP.astype(np.uint8), PixelPaddingValue=255, BitsStored=8)
    assert untouched.max() == 255


def test_a_lookup_table_comes_before_a_window():
    entries = list(range(0, 4096, 2))
    grey, notes = shown(RAMP, VOILUTSequence=[table(entries, first=100, bits=12)], WindowCenter=9, WindowWidth=9)
    stored = np.clip(np.arange(4096) - 100, 0, 2047) * 2
    assert np.array_equal(grey.ravel(), np.rint(stored * (255 / 4095)).astype(np.uint8))
    assert notes == {Note.GREY, Note.VOI_LUT}


@pytest.mark.parametrize("bits", [8, 16])
def test_a_lookup_table_of_8_bit_entries_may_be_longer_than_256(bits):
    grey, _ = shown(RAMP, VOILUTSequence=[table([x // 16 for x in range(4096)], bits=bits)])
    assert np.array_equal(grey, RAMP // 16)


def test_lookup_tables_stored_as_bytes_follow_the_byte_order_of_the_file():
    for syntax, order in ((ExplicitVRLittleEndian, "<u2"), (ExplicitVRBigEndian, ">u2")):
        item = table([0])
        item.LUTDescriptor[0], item.LUTDescriptor[2] = 4096, 12
        item["LUTData"].VR = "OW"
        item.LUTData = np.arange(4095, -1, -1).astype(order).tobytes()
        made = header(VOILUTSequence=[item])
        made.file_meta.TransferSyntaxUID = syntax
        grey, _ = show_grey(made, RAMP, 0, PATH)
        assert np.array_equal(grey, np.rint((4095 - RAMP) * (255 / 4095)).astype(np.uint8))


def test_a_modality_table_comes_before_the_window():
    entries = [4095 - x for x in range(4096)]
    grey, _ = shown(RAMP, ModalityLUTSequence=[table(entries, bits=12)], WindowCenter=1000, WindowWidth=400)
    assert np.array_equal(grey.ravel()[::-1], shown(RAMP, WindowCenter=1000, WindowWidth=400)[0].ravel())


def macro(centre: int, width: int) -> Dataset:
    window, group = Dataset(), Dataset()
    window.WindowCenter, window.WindowWidth = centre, width
    group.FrameVOILUTSequence = [window]
    return group


def test_settings_of_enhanced_files_are_found_for_the_file_and_for_the_frame():
    expected = shown(RAMP, WindowCenter=1000, WindowWidth=400)[0]
    assert np.array_equal(shown(RAMP, SharedFunctionalGroupsSequence=[macro(1000, 400)])[0], expected)
    frames = [macro(9, 9), macro(1000, 400)]
    assert np.array_equal(shown(RAMP, index=1, PerFrameFunctionalGroupsSequence=frames)[0], expected)


@pytest.mark.parametrize("name", ["693_J2KI.dcm", "J2K_pixelrep_mismatch.dcm", "MR_small.dcm", "examples_overlay.dcm"])
def test_windowed_files_look_as_pydicom_shows_them(name):
    path = get_testdata_file(name, download=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made, values = dcmread(path), pixel_array(path)
        voi = apply_voi_lut(apply_modality_lut(values, made), made, index=0)
    # pydicom's windows end at the least and greatest value that can be stored.
    lowest = -(2 ** (made.BitsStored - 1)) if made.PixelRepresentation else 0
    white = (2**made.BitsStored - 1) * float(made.get("RescaleSlope", 1))
    expected = (voi - (lowest * float(made.get("RescaleSlope", 1)) + float(made.get("RescaleIntercept", 0)))) / white
    grey, _ = show_grey(made, values, 0, PATH)
    assert np.abs(grey - expected * 255).max() <= 1


def palette(bits: int, tables: list[np.ndarray], first: int = 0) -> Dataset:
    made = header(PhotometricInterpretation="PALETTE COLOR")
    for name, entries in zip(("Red", "Green", "Blue"), tables, strict=True):
        setattr(made, f"{name}PaletteColorLookupTableDescriptor", [len(entries), first, bits])
        setattr(made, f"{name}PaletteColorLookupTableData", entries.tobytes())
    return made


INDICES = np.arange(12, dtype=np.uint8).reshape(3, 4)
COLOURS = [np.arange(12) * step for step in (20, 3, 7)]


def test_palettes_of_8_and_16_bits_give_their_colours():
    expected = np.stack(COLOURS, axis=-1).reshape(3, 4, 3)
    narrow = palette(8, [colour.astype(np.uint8) for colour in COLOURS])
    wide = palette(16, [(colour * 257).astype("<u2") for colour in COLOURS])
    mislabelled = palette(16, [colour.astype("<u2") for colour in COLOURS])
    for made in (narrow, wide, mislabelled):
        assert np.array_equal(show_palette(made, INDICES), expected)


def test_indices_outside_a_palette_take_its_ends():
    made = palette(8, [np.array([10, 20, 30, 40], np.uint8)] * 3, first=100)
    values = np.array([[0, 100, 101, 103, 104, 65535]], dtype=np.uint16)
    assert show_palette(made, values)[0, :, 0].tolist() == [10, 10, 20, 40, 40, 40]


def test_segmented_palettes_are_resolved():
    made = header(PhotometricInterpretation="PALETTE COLOR")
    for name in ("Red", "Green", "Blue"):
        setattr(made, f"{name}PaletteColorLookupTableDescriptor", [6, 0, 16])
        # A discrete segment of two values, then a linear one of four that ends at 60000.
        segments = np.array([0, 2, 0, 20000, 1, 4, 60000], dtype="<u2")
        setattr(made, f"Segmented{name}PaletteColorLookupTableData", segments.tobytes())
    colours = show_palette(made, np.arange(6, dtype=np.uint8)[None])
    assert colours[0, :, 1].tolist() == [0, 20000 >> 8, 30000 >> 8, 40000 >> 8, 50000 >> 8, 60000 >> 8]


@pytest.mark.parametrize("bits", [1, 8, 12, 16, 32])
def test_the_full_scale_becomes_0_to_255(bits):
    values = np.array([0, 2**bits - 1], dtype=np.uint32)
    assert scale_to_8_bits(values, bits).tolist() == [0, 255]
