import resource
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813 - how everybody writes it

from medvl.errors import DataError
from medvl.imaging.notes import Note
from medvl.imaging.reading import frame_count, picture_size, read_picture, read_picture_noted
from medvl.imaging.volumes import iter_frames, read_volume

RANDOM = np.random.default_rng(0)
STACK = RANDOM.integers(0, 200, (5, 40, 60), dtype=np.uint8)
PLANES = RANDOM.integers(0, 255, (3, 40, 60), dtype=np.uint8)


def save(path: Path, array: np.ndarray, *, packed: bool = False, vectors: bool = False) -> Path:
    sitk.WriteImage(sitk.GetImageFromArray(array, isVector=vectors), str(path), packed)
    return path


def facts(path: Path) -> tuple[tuple[int, int], int]:
    return picture_size(path), frame_count(path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("ending", ["mha", "mhd", "MHA"])
def test_a_frame_is_a_slice_along_the_first_axis(tmp_path, packed, ending):
    path = save(tmp_path / "stack.mha", STACK, packed=packed)
    if ending != "mha":
        path = (
            save(tmp_path / f"stack.{ending}", STACK, packed=packed)
            if ending == "mhd"
            else path.rename(path.with_suffix(".MHA"))
        )
    for frame in (0, 2, 4):
        assert np.array_equal(read_picture(path, frame), np.repeat(STACK[frame][:, :, None], 3, axis=2))
    assert np.array_equal(read_picture(path), read_picture(path, 0))
    assert facts(path) == ((60, 40), 5)
    with pytest.raises(DataError, match=r"expected frame 5, found 5 frame\(s\)"):
        read_picture(path, 5)


def test_a_picture_of_two_dimensions_is_one_frame(tmp_path):
    path = save(tmp_path / "two.mha", STACK[1])
    assert np.array_equal(read_picture(path, 0)[:, :, 0], STACK[1])
    assert facts(path) == ((60, 40), 1)
    with pytest.raises(DataError, match="expected frame 1"):
        read_picture(path, 1)


@pytest.mark.parametrize("packed", [False, True])
def test_three_8_bit_planes_are_one_colour_picture_unless_a_frame_is_asked_for(tmp_path, packed):
    path = save(tmp_path / "03744.mha", PLANES, packed=packed)
    pixels, notes = read_picture_noted(path)
    assert np.array_equal(pixels, np.moveaxis(PLANES, 0, 2))
    assert notes == {Note.CHANNELS_FIRST}
    assert picture_size(path) == (60, 40)
    pixels, notes = read_picture_noted(path, 1)
    assert np.array_equal(pixels[:, :, 2], PLANES[1])
    assert notes == {Note.GREY, Note.FRAME}


@pytest.mark.parametrize(
    "array", [PLANES.astype(np.uint16), PLANES.astype(np.float32), np.concatenate([PLANES, PLANES])]
)
def test_other_stacks_show_their_first_frame_when_none_is_asked_for(tmp_path, array):
    path = save(tmp_path / "stack.mha", array)
    assert np.array_equal(read_picture(path), read_picture(path, 0))
    assert Note.FRAME in read_picture_noted(path)[1]


def test_interleaved_colour_is_read(tmp_path):
    path = save(tmp_path / "rgb.mha", np.moveaxis(PLANES, 0, 2), vectors=True)
    pixels, notes = read_picture_noted(path)
    assert np.array_equal(pixels, np.moveaxis(PLANES, 0, 2))
    assert notes == frozenset()
    assert facts(path) == ((60, 40), 1)


def test_a_colour_frame_of_a_stack_is_read(tmp_path):
    frames = RANDOM.integers(0, 255, (4, 40, 60, 3), dtype=np.uint8)
    path = save(tmp_path / "rgb.mha", frames, vectors=True)
    assert np.array_equal(read_picture(path, 2), frames[2])
    assert facts(path) == ((60, 40), 4)


def test_floats_are_stretched_and_deep_grey_is_scaled(tmp_path):
    ramp = np.linspace(-3, 7, 2400, dtype=np.float32).reshape(40, 60)
    pixels, notes = read_picture_noted(save(tmp_path / "f.mha", ramp))
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert notes == {Note.GREY, Note.STRETCHED}
    pixels, notes = read_picture_noted(save(tmp_path / "d.mha", STACK[0].astype(np.uint16) * 257))
    assert np.array_equal(pixels[:, :, 0], STACK[0])
    assert notes == {Note.GREY, Note.DEEP}


def test_the_values_are_those_stored(tmp_path):
    values, _ = read_volume(save(tmp_path / "v.mha", STACK.astype(np.int16) - 100), 3)
    assert np.array_equal(values, STACK[3].astype(np.int16) - 100)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_the_frames_of_every_type_are_those_that_simpleitk_reads(tmp_path, dtype, packed):
    path = save(tmp_path / "v.mha", (STACK.astype("f8") * 50 - 40).astype(dtype), packed=packed)
    expected = sitk.GetArrayFromImage(sitk.ReadImage(str(path)))
    frames = list(iter_frames(path))
    assert np.array_equal(frames, expected)
    assert frames[0].dtype == expected.dtype
    assert np.array_equal(read_volume(path, 4)[0], expected[4])


def test_big_endian_values_are_read(tmp_path):
    values = (STACK[0].astype("u2") * 100).astype(">u2")
    path = tmp_path / "big.mha"
    header = (
        "ObjectType = Image\r\nNDims = 2\r\nBinaryData = True\r\nBinaryDataByteOrderMSB = True\r\nDimSize = 60 40\r\n"
    )
    path.write_bytes(f"{header}ElementType = MET_USHORT\r\nElementDataFile = LOCAL\r\n".encode() + values.tobytes())
    assert np.array_equal(read_volume(path, None)[0], values)
    assert np.array_equal(sitk.GetArrayFromImage(sitk.ReadImage(str(path))), values)


@pytest.mark.parametrize("skipped", [0, 7, -1])
def test_a_foreign_header_before_the_pixels_is_skipped(tmp_path, skipped):
    path = save(tmp_path / "a.mhd", STACK)
    data = tmp_path / "a.raw"
    data.write_bytes(b"\xff" * (7 if skipped else 0) + data.read_bytes())
    path.write_text(path.read_text().replace("ElementDataFile", f"HeaderSize = {skipped}\nElementDataFile"))
    assert np.array_equal(read_volume(path, 1)[0], STACK[1])


def test_one_frame_of_a_large_stack_is_read_without_the_others(tmp_path):
    header = "ObjectType = Image\nNDims = 3\nBinaryData = True\nDimSize = 1000 1000 2000\nElementType = MET_UCHAR\n"
    path = tmp_path / "large.mha"
    with path.open("wb") as file:
        file.write(header.encode() + b"ElementDataFile = LOCAL\n")
        start = file.tell()
        file.seek(start + 1_500_000_000)
        file.write(b"\x64" * 1_000_000)
        file.truncate(start + 2_000_000_000)  # a hole: takes no room on the disk
    assert facts(path) == ((1000, 1000), 2000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (read_picture(path, 1500) == 100).all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_file_cut_short_is_refused_for_every_frame(tmp_path, packed, share, capfd):
    path = save(tmp_path / "cut.mha", STACK, packed=packed)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(DataError, match=r"cut\.mha: expected a whole picture, found a MetaImage cut short.*again"):
        read_picture(path, 0)
    assert capfd.readouterr() == ("", "")


def test_a_cut_data_file_and_an_absent_one_are_named(tmp_path):
    path = save(tmp_path / "a.mhd", STACK)
    data = tmp_path / "a.raw"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"a\.mhd: .*cut short \(11999 of 12000"):
        read_picture(path)
    data.unlink()
    with pytest.raises(DataError, match=r"a\.raw: .*no file"):
        read_picture(path)


@pytest.mark.parametrize("place", [-4, -2000])
def test_damaged_bytes_of_a_packed_picture_are_refused(tmp_path, place, capfd):
    path = save(tmp_path / "bad.mha", PLANES, packed=True)
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.mha: .*a MetaImage with damaged pixels"):
        read_picture(path)
    with pytest.raises(DataError, match="damaged pixels"):
        list(iter_frames(path))
    assert capfd.readouterr() == ("", "")


def test_packed_pixels_without_their_checksum_are_refused(tmp_path):
    path = save(tmp_path / "cut.mha", PLANES, packed=True)
    content = path.read_bytes()
    size = content.index(b"CompressedDataSize")
    path.write_bytes(content[:size] + content[content.index(b"\n", size) + 1 : -2])
    with pytest.raises(DataError, match="damaged pixels"):
        read_picture(path)


def test_packed_pixels_that_end_before_the_header_says_are_refused(tmp_path):
    path = save(tmp_path / "short.mha", PLANES, packed=True)
    path.write_bytes(path.read_bytes().replace(b"DimSize = 60 40 3", b"DimSize = 60 40 9"))
    assert np.array_equal(read_volume(path, 1)[0], PLANES[1])
    with pytest.raises(DataError, match="damaged pixels"):
        read_picture(path, 5)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret.raw", "sub\\secret.raw", "C:secret.raw", "LIST", "a%03d.raw 1 9 1"]
)
def test_a_header_that_points_elsewhere_is_refused(tmp_path, name):
    (tmp_path / "secret.raw").write_bytes(b"\0" * 4)
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "a.mhd"
    path.write_text(
        f"ObjectType = Image\nNDims = 2\nDimSize = 2 2\nElementType = MET_UCHAR\nElementDataFile = {name}\n"
    )
    with pytest.raises(DataError, match=r"a\.mhd: expected pixels in this file or in one file beside it"):
        read_picture(path)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("DimSize = 60 40", "DimSize = 60"), "2 or 3 dimensions"),
        (("DimSize = 60 40", "DimSize = 60 40 2 2"), "2 or 3 dimensions"),
        (("DimSize = 60 40", "DimSize = 0 40"), "2 or 3 dimensions"),
        (("DimSize = 60 40", "DimSize = -60 40"), "2 or 3 dimensions"),
        (("DimSize = 60 40", "DimSize = x y"), "header that cannot be read"),
        (("DimSize = 60 40", "DimSize = 60000 40000"), "at most 80,000,000 pixels"),
        (("ElementType = MET_UCHAR", "ElementType = MET_OTHER"), "header that cannot be read"),
        (
            ("ElementType = MET_UCHAR", "ElementNumberOfChannels = 4\nElementType = MET_UCHAR"),
            "one channel or 8-bit RGB",
        ),
        (("ElementDataFile", "Elsewhere"), "header that cannot be read"),
        (("BinaryData = True", "BinaryData = False"), "expected a binary MetaImage.*as text"),
    ],
)
def test_headers_of_other_layouts_are_refused(tmp_path, change, found):
    path = save(tmp_path / "a.mha", STACK[0])
    content = path.read_bytes()
    assert change[0].encode() in content
    path.write_bytes(content.replace(change[0].encode(), change[1].encode()))
    for read in (read_picture, picture_size, frame_count):
        with pytest.raises(DataError, match=rf"a\.mha: .*{found}"):
            read(path)


def test_a_real_field_of_view_mask_is_read(shared_data):
    path = shared_data / "acouslic_ai" / "data" / "fov_mask.mha"
    pixels, notes = read_picture_noted(path)
    assert pixels.shape == (562, 744, 3)
    assert facts(path) == ((744, 562), 1)
    assert set(np.unique(pixels)) == {0, 255}
    assert notes == {Note.GREY, Note.STRETCHED}
