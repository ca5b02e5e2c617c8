import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydicom import Dataset, dcmread, uid
from pydicom.data import get_testdata_file
from pydicom.dataset import FileMetaDataset
from pydicom.encaps import encapsulate, encapsulate_extended
from pydicom.pixels import get_decoder, pixel_array

from medvl.errors import DataError
from medvl.imaging.dicom import dicom_facts, read_dicom_values
from medvl.imaging.notes import Note
from medvl.imaging.reading import frame_count, picture_size, read_picture, read_picture_noted

pytestmark = pytest.mark.filterwarnings("ignore:Invalid value for VR", "ignore:Expected explicit VR")

FRAME = np.random.default_rng(0).integers(0, 255, (40, 60), dtype=np.uint8)


def shipped(name: str) -> Path:
    """A file that comes with pydicom."""
    found = get_testdata_file(name, download=False)
    assert found is not None
    return Path(found)


def made(values: np.ndarray, syntax: uid.UID = uid.ExplicitVRLittleEndian, **elements: object) -> Dataset:
    """A data set around one grey or RGB frame."""
    ds = Dataset()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = syntax
    ds.SOPClassUID, ds.SOPInstanceUID = uid.SecondaryCaptureImageStorage, "1.2.3"
    ds.Rows, ds.Columns = values.shape[:2]
    ds.SamplesPerPixel = values.shape[2] if values.ndim == 3 else 1
    ds.PhotometricInterpretation = "RGB" if values.ndim == 3 else "MONOCHROME2"
    if values.ndim == 3:
        ds.PlanarConfiguration = 0
    ds.BitsAllocated = ds.BitsStored = 8 * values.dtype.itemsize
    ds.HighBit, ds.PixelRepresentation = ds.BitsStored - 1, int(values.dtype.kind == "i")
    for name, value in elements.items():
        setattr(ds, name, value)
    ds.PixelData = values.tobytes()
    ds["PixelData"].VR = "OB" if ds.BitsAllocated == 8 else "OW"
    return ds


def save(path: Path, ds: Dataset) -> Path:
    ds.save_as(path, enforce_file_format=True)
    return path


def jpeg(quality: int = 95) -> bytes:
    stream = io.BytesIO()
    smooth = Image.fromarray(FRAME).resize((15, 10)).resize((60, 40))
    smooth.save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def save_jpeg(path: Path, *frames: bytes, extended: bool = False) -> Path:
    ds = made(FRAME, uid.JPEGBaseline8Bit, NumberOfFrames=len(frames))
    if extended:
        ds.PixelData, ds.ExtendedOffsetTable, ds.ExtendedOffsetTableLengths = encapsulate_extended(list(frames))
    else:
        ds.PixelData = encapsulate(list(frames))
    return save(path, ds)


class TestColour:
    """Files that show the same colour bars in different encodings."""

    BARS = read_picture(shipped("SC_rgb_rle.dcm"))

    def test_the_bars_have_the_colours_they_should(self):
        assert self.BARS[5::10, 50].tolist()[:5] == [
            [255, 0, 0],
            [255, 128, 128],
            [0, 255, 0],
            [128, 255, 128],
            [0, 0, 255],
        ]

    @pytest.mark.parametrize(
        ("name", "notes", "tolerance"),
        [
            ("SC_rgb_rle_2frame.dcm", {Note.FRAME}, 0),
            ("SC_rgb_rle_16bit.dcm", {Note.DEEP}, 0),
            ("SC_rgb_gdcm_KY.dcm", set(), 0),
            ("SC_rgb_jpeg_gdcm.dcm", set(), 0),
            ("SC_rgb_jls_lossy_line.dcm", set(), 2),
            ("SC_rgb_dcmtk_+eb+cr.dcm", set(), 2),
            ("SC_rgb_jpeg_dcmtk.dcm", {Note.YBR}, 6),
            ("SC_rgb_dcmtk_+eb+cy+s2.dcm", {Note.YBR}, 6),
            ("SC_rgb_dcmtk_+eb+cy+s4.dcm", {Note.YBR}, 6),
            ("SC_ybr_full_422_uncompressed.dcm", {Note.YBR}, 6),
        ],
    )
    def test_every_encoding_shows_them(self, name, notes, tolerance):
        pixels, found = read_picture_noted(shipped(name))
        assert np.abs(pixels.astype(int) - self.BARS).max() <= tolerance
        assert found == notes

    @pytest.mark.parametrize(
        "name", ["SC_rgb_dcmtk_+eb+cy+n1.dcm", "SC_rgb_dcmtk_+eb+cy+np.dcm", "SC_rgb_jpeg_lossy_gdcm.dcm"]
    )
    def test_subsampled_colour_differs_only_where_bars_meet(self, name):
        pixels = read_picture(shipped(name))
        assert np.abs(pixels[5::10].astype(int) - self.BARS[5::10]).max() <= 6

    def test_palette_colour_is_resolved(self):
        path = shipped("examples_palette.dcm")
        pixels, notes = read_picture_noted(path)
        ds, indices = dcmread(path), pixel_array(path)
        for channel, name in enumerate(("Red", "Green", "Blue")):
            entries = np.frombuffer(ds[f"{name}PaletteColorLookupTableData"].value, dtype="<u2")
            assert np.array_equal(pixels[:, :, channel], entries[indices] >> 8)
        assert notes == {Note.PALETTE}

    @pytest.mark.parametrize("name", ["SC_rgb_small_odd.dcm", "SC_rgb_small_odd_big_endian.dcm", "ExplVR_BigEnd.dcm"])
    def test_uncompressed_rgb_is_shown_as_it_is(self, name):
        assert np.array_equal(read_picture(shipped(name)), pixel_array(shipped(name)))


@pytest.mark.parametrize(
    "name",
    [
        "MR_small_RLE.dcm",
        "MR_small_bigendian.dcm",
        "MR_small_expb.dcm",
        "MR_small_implicit.dcm",
        "MR_small_jp2klossless.dcm",
        "MR_small_jpeg_ls_lossless.dcm",
        "MR_small_padded.dcm",
    ],
)
def test_one_grey_picture_reads_the_same_from_every_encoding(name):
    expected, notes = read_picture_noted(shipped("MR_small.dcm"))
    assert notes == {Note.GREY, Note.WINDOW}
    assert expected.std() > 20
    assert np.array_equal(read_picture(shipped(name)), expected)


def test_a_deflated_file_is_read():
    assert read_picture(shipped("image_dfl.dcm")).shape == (512, 512, 3)


@pytest.mark.parametrize("name", ["liver_1frame.dcm", "liver_expb_1frame.dcm"])
def test_one_bit_segmentations_are_black_and_white(name):
    pixels = read_picture(shipped(name))
    assert np.unique(pixels).tolist() == [0, 255]
    assert np.array_equal(read_dicom_values(shipped(name), None) * 255, pixels[:, :, 0])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16])
def test_8_to_16_bits_are_read(tmp_path, dtype):
    values = FRAME.astype(dtype) * (257 if dtype == np.uint16 else 1)
    pixels = read_picture(save(tmp_path / "a.dcm", made(values)))
    assert np.array_equal(pixels, np.repeat(FRAME[:, :, None], 3, axis=2))


def test_monochrome1_is_inverted_but_not_for_masks(tmp_path):
    path = save(tmp_path / "a.dcm", made(FRAME, PhotometricInterpretation="MONOCHROME1"))
    pixels, notes = read_picture_noted(path)
    assert np.array_equal(pixels[:, :, 0], 255 - FRAME)
    assert notes == {Note.GREY, Note.MONOCHROME1}
    assert np.array_equal(read_dicom_values(path, None), FRAME)


class TestFrames:
    def test_each_frame_is_read_by_its_index(self):
        path = shipped("examples_ybr_color.dcm")
        whole = pixel_array(path, decoding_plugin="pillow")
        assert frame_count(path) == len(whole) == 30
        for frame in (0, 13, 29):
            assert np.array_equal(read_picture(path, frame), whole[frame])
        assert not np.array_equal(whole[0], whole[13])
        assert np.array_equal(read_picture(path), whole[0])
        assert read_picture_noted(path, 13)[1] == {Note.FRAME, Note.YBR}

    @pytest.mark.parametrize("extended", [False, True])
    def test_frames_are_found_with_either_kind_of_offset_table(self, tmp_path, extended):
        path = save_jpeg(tmp_path / "a.dcm", jpeg(95), jpeg(20), jpeg(50), extended=extended)
        for frame, quality in enumerate((95, 20, 50)):
            assert np.array_equal(read_picture(path, frame)[:, :, 0], np.asarray(Image.open(io.BytesIO(jpeg(quality)))))

    @pytest.mark.parametrize("frame", [-1, 30])
    def test_a_frame_that_the_file_lacks_is_refused(self, frame):
        with pytest.raises(DataError, match=rf"expected frame {frame}, found 30 frame"):
            read_picture(shipped("examples_ybr_color.dcm"), frame)


class TestWithoutPreamble:
    @pytest.mark.parametrize(("implicit", "little"), [(True, True), (False, True), (False, False)])
    def test_it_is_read_under_its_ending(self, tmp_path, implicit, little):
        ds = made(FRAME)
        del ds.file_meta
        ds.save_as(tmp_path / "bare.DCM", implicit_vr=implicit, little_endian=little)
        assert (tmp_path / "bare.DCM").read_bytes()[128:132] != b"DICM"
        assert np.array_equal(read_picture(tmp_path / "bare.DCM")[:, :, 0], FRAME)
        assert picture_size(tmp_path / "bare.DCM") == (60, 40)

    def test_it_is_refused_under_another(self, tmp_path):
        ds = made(FRAME)
        del ds.file_meta
        ds.save_as(tmp_path / "bare.png", implicit_vr=True, little_endian=True)
        with pytest.raises(DataError, match=r"bare\.png: expected a picture"):
            read_picture(tmp_path / "bare.png")


class TestDamage:
    @pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
    @pytest.mark.parametrize(
        "name", ["SC_rgb_jpeg_gdcm.dcm", "JPEG2000.dcm", "JPEGLSNearLossless_16.dcm", "SC_rgb_rle.dcm", "CT_small.dcm"]
    )
    def test_a_file_cut_within_its_pixels_is_refused(self, tmp_path, name, share):
        content = shipped(name).read_bytes()
        start = content.rindex(b"\xe0\x7f\x10\x00")
        (tmp_path / "cut.dcm").write_bytes(content[: start + int((len(content) - start) * share) - 140])
        with pytest.raises(DataError, match=r"cut\.dcm: expected .*found .*again"):
            read_picture(tmp_path / "cut.dcm")

    @pytest.mark.parametrize("share", [0.4, 0.9])
    def test_a_frame_cut_within_a_whole_file_is_refused_and_the_others_are_read(self, tmp_path, share):
        cut = jpeg()[: int(len(jpeg()) * share)]
        path = save_jpeg(tmp_path / "a.dcm", jpeg(), cut, jpeg())
        with pytest.raises(DataError, match=r"a\.dcm: expected a whole picture, found .*JPEG cut.*in frame 1"):
            read_picture(path, 1)
        assert read_picture(path, 2).std() > 10

    @pytest.mark.parametrize("name", ["MR_truncated.dcm", "SC_rgb_jpeg.dcm", "badVR.dcm", "JPEG-lossy.dcm"])
    def test_damaged_files_are_refused(self, name):
        with pytest.raises(
            DataError, match=rf"{name}: expected a DICOM file whose picture can be read, found a damaged"
        ):
            read_picture(shipped(name))

    @pytest.mark.parametrize("read", [read_picture, picture_size, frame_count])
    def test_a_file_without_a_picture_is_named(self, read):
        with pytest.raises(DataError, match=r"found a DICOM file without one \(Basic Text SR Storage\)"):
            read(shipped("reportsi.dcm"))

    @pytest.mark.parametrize("changes", [{"Rows": 0}, {"NumberOfFrames": -1}])
    def test_sizes_that_cannot_be_are_refused(self, tmp_path, changes):
        with pytest.raises(DataError, match=r"a\.dcm"):
            read_picture(save(tmp_path / "a.dcm", made(FRAME, **changes)))

    def test_a_picture_too_large_is_refused_before_it_is_decoded(self, tmp_path):
        path = save(tmp_path / "a.dcm", made(FRAME, Rows=60_000, Columns=60_000))
        for read in (read_picture, picture_size):
            with pytest.raises(DataError, match="at most 80,000,000 pixels"):
                read(path)

    def test_a_meaning_that_is_not_read_is_named(self, tmp_path):
        path = save(tmp_path / "a.dcm", made(np.dstack([FRAME] * 3), PhotometricInterpretation="HSV"))
        with pytest.raises(DataError, match=r"a\.dcm: expected a photometric interpretation of MONOCHROME1.*found HSV"):
            read_picture(path)

    def test_any_cut_of_the_header_is_refused_with_a_data_error(self, tmp_path):
        content = shipped("MR_small.dcm").read_bytes()
        path = tmp_path / "cut.dcm"
        for length in range(132, 1400, 17):
            path.write_bytes(content[:length])
            with pytest.raises(DataError, match=r"cut\.dcm"):
                read_picture(path)


class TestDecoders:
    @pytest.mark.parametrize(
        ("name", "package"),
        [
            ("SC_rgb_jpeg_gdcm.dcm", "pylibjpeg-libjpeg"),
            ("JPEGLSNearLossless_16.dcm", "pylibjpeg-libjpeg"),
            ("JPEG2000.dcm", "pylibjpeg-openjpeg"),
        ],
    )
    def test_a_missing_decoder_is_named(self, monkeypatch, name, package):
        path = shipped(name)
        decoder = get_decoder(dcmread(path, stop_before_pixels=True).file_meta.TransferSyntaxUID)
        monkeypatch.setattr(decoder, "_available", {})
        with pytest.raises(DataError, match=rf"needs the package {package}, .*pip install pylibjpeg {package}$"):
            read_picture(path)
        assert picture_size(path)

    def test_a_video_within_dicom_is_refused(self, tmp_path):
        ds = made(FRAME, uid.MPEG4HP41)
        ds.PixelData = encapsulate([b"\0" * 64])
        with pytest.raises(DataError, match=r"a\.dcm: expected an encoding of still pictures, found MPEG-4"):
            read_picture(save(tmp_path / "a.dcm", ds))


class TestHeader:
    def test_size_frames_and_facts_are_read_without_the_pixels(self, tmp_path):
        content = shipped("examples_ybr_color.dcm").read_bytes()
        path = tmp_path / "header.dcm"
        path.write_bytes(content[: content.index(struct.pack("<HH", 0x7FE0, 0x0010) + b"OB") + 12])
        assert picture_size(path) == (320, 240)
        assert frame_count(path) == 30
        assert dicom_facts(path) == {"sex": "", "age": "", "view": "", "device": "SonoSite, Inc. Turbo"}

    def test_facts_are_those_of_the_header(self, tmp_path):
        ds = made(
            FRAME, PatientSex="F", PatientAge="062Y", ViewPosition="pa", Manufacturer="Maker", PatientName="Doe^Jane"
        )
        assert dicom_facts(save(tmp_path / "a.dcm", ds)) == {"sex": "F", "age": "62", "view": "PA", "device": "Maker"}

    @pytest.mark.parametrize(
        ("written", "years"),
        [
            ("062Y", "62"),
            ("62", "62"),
            ("000Y", "0"),
            ("018M", "1"),
            ("011M", "0"),
            ("060W", "1"),
            ("400D", "1"),
            ("62y ", "62"),
            ("148Y", ""),
            ("unknown", ""),
            ("", ""),
        ],
    )
    @pytest.mark.filterwarnings("error")
    def test_ages_are_completed_years(self, tmp_path, written, years):
        ds = made(FRAME)
        ds.add_new("PatientAge", "LO", written)  # unchecked, as scanners write it
        ds["PatientAge"].VR = "AS"
        assert dicom_facts(save(tmp_path / "a.dcm", ds))["age"] == years

    @pytest.mark.parametrize(
        ("maker", "model", "device"),
        [
            ("GE", "LOGIQ 700", "GE LOGIQ 700"),
            ("GE", "GE LOGIQ", "GE LOGIQ"),
            ("", "CX50", "CX50"),
            ("GE", "", "GE"),
            ("", "", ""),
        ],
    )
    def test_the_device_is_maker_and_model(self, tmp_path, maker, model, device):
        ds = made(FRAME, Manufacturer=maker, ManufacturerModelName=model)
        assert dicom_facts(save(tmp_path / "a.dcm", ds))["device"] == device

    def test_an_unknown_sex_is_none(self, tmp_path):
        assert dicom_facts(save(tmp_path / "a.dcm", made(FRAME, PatientSex="U")))["sex"] == ""

    def test_what_is_no_dicom_file_is_refused(self, tmp_path):
        Image.fromarray(FRAME).save(tmp_path / "a.png")
        with pytest.raises(DataError, match=r"a\.png: expected a DICOM file"):
            dicom_facts(tmp_path / "a.png")
        with pytest.raises(DataError, match=r"none\.dcm.*no file"):
            dicom_facts(tmp_path / "none.dcm")


def test_a_real_chest_film_is_read(shared_data):
    (path,) = (shared_data / "siim_acr" / "dicom-images-train").rglob("*.dcm")
    pixels, notes = read_picture_noted(path)
    assert pixels.shape == (1024, 1024, 3)
    assert picture_size(path) == (1024, 1024)
    assert notes == {Note.GREY}
    assert 50 < pixels.mean() < 200
    assert dicom_facts(path) == {"sex": "M", "age": "62", "view": "PA", "device": ""}
