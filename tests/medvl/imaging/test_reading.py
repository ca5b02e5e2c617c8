import hashlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image, ImageFile

from medvl.errors import DataError
from medvl.imaging import reading
from medvl.imaging.reading import frame_count, grey_to_8_bits, picture_size, pixel_hash, read_picture

FRAME = np.random.default_rng(0).integers(0, 180, (40, 60), dtype=np.uint8)
"""An 8-bit frame that does not reach white, like most ultrasound."""


def save(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


def variants(folder: Path) -> dict[str, Path]:
    grey = Image.fromarray(FRAME)
    alpha = Image.merge("RGBA", [grey, grey, grey, Image.new("L", grey.size, 255)])
    return {
        "grey": save(folder / "grey.png", grey),
        "16-bit": save(folder / "deep.png", Image.fromarray(FRAME.astype(np.uint16) * 257)),
        "16-bit shifted": save(folder / "shifted.png", Image.fromarray(FRAME.astype(np.uint16) << 8)),
        "16-bit unscaled": save(folder / "unscaled.png", Image.fromarray(FRAME.astype(np.uint16))),
        "16-bit tiff": save(folder / "deep.tif", Image.fromarray(FRAME.astype(np.uint16) * 257)),
        "palette": save(folder / "palette.png", grey.convert("P")),
        "rgba": save(folder / "rgba.png", alpha),
        "rgb": save(folder / "rgb.png", grey.convert("RGB")),
        "grey alpha": save(folder / "la.png", grey.convert("LA")),
        "bmp": save(folder / "grey.bmp", grey),
        "webp": save(folder / "grey.webp", grey.convert("RGB"), lossless=True),
        "cmyk": save(folder / "cmyk.tif", grey.convert("RGB").convert("CMYK")),
        "upper-case extension": save(folder / "GREY.PNG", grey),
        "wrong extension": save(folder / "really_png.jpg", grey, format="PNG"),
    }


def test_the_same_frame_reads_the_same_from_every_container(tmp_path):
    for name, path in variants(tmp_path).items():
        pixels = read_picture(path)
        assert pixels.shape == (40, 60, 3), name
        assert pixels.dtype == np.uint8, name
        assert pixels.flags.writeable, name
        difference = np.abs(pixels.astype(int) - FRAME[:, :, None])
        assert difference.max() <= 1, name


def test_a_dark_frame_written_wider_keeps_its_brightness(tmp_path):
    dark = FRAME // 20
    path = save(tmp_path / "dark.png", Image.fromarray(dark.astype(np.uint16) * 257))
    assert np.array_equal(read_picture(path)[:, :, 0], dark)


@pytest.mark.parametrize("bits", [9, 10, 11, 12, 13, 14, 15, 16])
def test_deep_data_in_a_16_bit_container_is_not_black(tmp_path, bits):
    ramp = np.linspace(0, 2**bits - 1, 2400).round().astype(np.uint16).reshape(40, 60)
    pixels = read_picture(save(tmp_path / "deep.png", Image.fromarray(ramp)))
    assert pixels.max() >= 64
    assert pixels.min() == 0
    assert (np.diff(pixels[:, :, 0].ravel().astype(int)) >= 0).all()


def test_12_bit_white_is_white(tmp_path):
    ramp = np.linspace(0, 4095, 2400).round().astype(np.uint16).reshape(40, 60)
    assert read_picture(save(tmp_path / "deep.png", Image.fromarray(ramp))).max() == 255


def test_floats_are_stretched_and_a_flat_float_picture_is_black(tmp_path):
    ramp = np.linspace(-3, 7, 2400, dtype=np.float32).reshape(40, 60)
    pixels = read_picture(save(tmp_path / "f.tif", Image.fromarray(ramp)))
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert not read_picture(save(tmp_path / "flat.tif", Image.fromarray(ramp * 0 + 5))).any()


def test_floats_that_are_not_finite_are_refused(tmp_path):
    path = save(tmp_path / "nan.tif", Image.fromarray(np.full((4, 4), np.nan, np.float32)))
    with pytest.raises(DataError, match=r"nan\.tif.*finite"):
        read_picture(path)


@given(hnp.arrays(np.uint16, (5, 7)))
def test_grey_scaling_never_reverses_two_pixels(grey):
    scaled = grey_to_8_bits(grey, Path("x")).ravel().astype(int)
    order = np.argsort(grey.ravel(), kind="stable")
    assert (np.diff(scaled[order]) >= 0).all()


def test_transparent_parts_are_black(tmp_path):
    white = Image.new("RGBA", (4, 4), (255, 255, 255, 0))
    white.putpixel((1, 2), (255, 255, 255, 255))
    pixels = read_picture(save(tmp_path / "a.png", white))
    assert pixels[2, 1].tolist() == [255, 255, 255]
    assert pixels.sum() == 3 * 255


def test_one_bit_pictures_are_black_and_white(tmp_path):
    bits = FRAME > 90
    pixels = read_picture(save(tmp_path / "bits.png", Image.fromarray(bits)))
    assert np.array_equal(pixels[:, :, 1], np.where(bits, 255, 0))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_and_known_to_picture_size(tmp_path, orientation):
    upright = Image.fromarray(np.arange(24, dtype=np.uint8).reshape(4, 6) * 10)
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # Pillow transposes that store `upright` for each tag
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose(undo[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "turned.png", stored, exif=exif)
    assert np.array_equal(read_picture(path)[:, :, 0], np.asarray(upright))
    assert picture_size(path) == (6, 4)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_exif_of_a_png_is_known_to_picture_size_wherever_it_stands(tmp_path, place):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(tmp_path / "turned.png", Image.fromarray(FRAME), exif=exif)
    content = path.read_bytes()
    start = content.index(b"eXIf") - 4
    chunk = content[start : start + 12 + int.from_bytes(content[start : start + 4], "big")]
    if place == "behind":
        end = content.index(b"IEND") - 4
        path.write_bytes(content[:start] + content[start + len(chunk) : end] + chunk + content[end:])
    assert picture_size(path) == (40, 60)
    assert read_picture(path).shape == (60, 40, 3)


@pytest.mark.parametrize("orientation", [0, 9])
def test_an_orientation_that_is_none_is_passed_over(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "odd.jpg", Image.fromarray(FRAME), exif=exif)
    assert picture_size(path) == (60, 40)
    assert read_picture(path).shape == (40, 60, 3)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.bmp", "a.gif"])
def test_the_size_and_the_frames_are_read_without_decoding(tmp_path, name, monkeypatch):
    path = save(tmp_path / name, Image.fromarray(FRAME))

    def refuse(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(Image.Image, "load", refuse)
    monkeypatch.setattr(ImageFile.ImageFile, "load", refuse)
    with pytest.raises((AssertionError, DataError)):
        read_picture(path)
    assert picture_size(path) == (60, 40)
    assert frame_count(path) == 1


def coloured(colours: list[tuple[int, int, int]]) -> Image.Image:
    """Broad stripes, whose colours JPEG keeps."""
    return Image.fromarray(np.repeat(np.array([colours], np.uint8), 16, axis=1).repeat(32, axis=0))


@pytest.mark.parametrize("options", [{"format": "JPEG", "quality": 100}, {"format": "TIFF"}])
def test_cmyk_shows_the_colours_that_were_printed(tmp_path, options):
    colours = [(255, 255, 255), (0, 0, 0), (250, 30, 30), (30, 240, 30), (20, 20, 220), (128, 128, 128)]
    path = save(tmp_path / "cmyk", coloured(colours).convert("CMYK"), **options)
    assert Image.open(path).mode == "CMYK"
    assert np.abs(read_picture(path)[16, 8::16].astype(int) - colours).max() <= 6


def test_a_frame_of_a_multi_frame_file_is_chosen(tmp_path):
    frames = [Image.new("L", (6, 4), shade) for shade in (10, 20, 30)]
    path = save(tmp_path / "stack.tif", frames[0], save_all=True, append_images=frames[1:])
    assert frame_count(path) == 3
    assert [read_picture(path, i)[0, 0, 0] for i in (None, 0, 1, 2)] == [10, 10, 20, 30]
    with pytest.raises(DataError, match=r"stack\.tif.*frame 3.*3 frame"):
        read_picture(path, 3)


def test_a_frame_of_a_single_picture_other_than_the_first_is_refused(tmp_path):
    path = save(tmp_path / "one.png", Image.fromarray(FRAME))
    assert read_picture(path, 0).shape == (40, 60, 3)
    with pytest.raises(DataError, match="frame 1"):
        read_picture(path, 1)


@pytest.fixture(params=[False, True], ids=["strict Pillow", "tolerant Pillow"])
def tolerance(request, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", request.param)


@pytest.mark.usefixtures("tolerance")
@pytest.mark.parametrize("kind", ["png", "jpg", "progressive jpg"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused(tmp_path, kind, share):
    path = tmp_path / f"whole.{kind[-3:]}"
    save(path, Image.fromarray(FRAME), **({"progressive": True} if "prog" in kind else {}))
    content = path.read_bytes()
    cut = tmp_path / f"cut.{kind[-3:]}"
    cut.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(DataError, match=rf"cut\.{kind[-3:]}.*cut after \d+ bytes.*again"):
        read_picture(cut)


@pytest.mark.usefixtures("tolerance")
def test_a_png_cut_between_two_parts_is_refused(tmp_path):
    path = save(tmp_path / "whole.png", Image.fromarray(FRAME))
    content = path.read_bytes()
    (tmp_path / "cut.png").write_bytes(content[: content.index(b"IDAT") - 4])
    with pytest.raises(DataError, match="cut after"):
        read_picture(tmp_path / "cut.png")


@pytest.mark.usefixtures("tolerance")
def test_a_png_with_a_flipped_bit_is_refused(tmp_path):
    path = save(tmp_path / "bit.png", Image.fromarray(FRAME))
    content = bytearray(path.read_bytes())
    content[content.index(b"IDAT") + 100] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"bit\.png.*wrong checksum"):
        read_picture(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty file"),
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "HTML page"),
        (b"\xef\xbb\xbf\n <html>", "HTML page"),
        (b"filename;plane\na;b\n", "text"),
        (b"PK\x03\x04" + b"\0" * 40, "ZIP archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS pointer"),
        (b"\0" * 128 + b"DICM" + b"\0" * 40, "DICOM"),
        (bytes(range(256)), "unknown or damaged"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "text"),
    ],
)
def test_what_is_no_picture_is_named(tmp_path, content, found):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.png: expected .*found .*{found}.* again"):
        read_picture(path)
    for read in (picture_size, frame_count):
        with pytest.raises(DataError, match=r"x\.png"):
            read(path)


def test_absent_files_and_folders_are_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.png.*no file"):
        read_picture(tmp_path / "none.png")
    (tmp_path / "folder.png").mkdir()
    for read in (read_picture, picture_size, frame_count):
        with pytest.raises(DataError, match=r"folder\.png.*cannot be opened"):
            read(tmp_path / "folder.png")


def test_a_mode_without_a_way_to_rgb_is_refused(tmp_path, monkeypatch):
    path = save(tmp_path / "lab.tif", Image.merge("LAB", [Image.fromarray(FRAME)] * 3))

    def refuse(*_: object) -> None:
        raise ValueError("conversion from LAB to RGB not supported")  # a Pillow built without colour management

    monkeypatch.setattr(Image.Image, "convert", refuse)
    with pytest.raises(DataError, match=r"lab\.tif: expected a picture"):
        read_picture(path)


@pytest.mark.parametrize("side", [9_000, 60_000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path, side):
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 999)), chunk(b"IEND", b"")]
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    with pytest.raises(DataError, match=r"bomb\.png.*at most 80,000,000 pixels"):
        read_picture(path)
    with pytest.raises(DataError, match=r"bomb\.png.*at most 80,000,000 pixels"):
        picture_size(path)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@given(
    st.binary(max_size=300),
    st.sampled_from(
        [
            b"",
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff\xe0",
            b"II*\0",
            b"GIF89a",
            b"BM",
            b"\0" * 128 + b"DICM",
            b"ObjectType = Image\n",
            b"RIFF\xff\0\0\0AVI ",
            b"\0\0\0\x18ftypisom",
        ]
    ),
)
def test_any_bytes_are_read_or_refused_with_a_data_error(tmp_path_factory, content, start):
    path = tmp_path_factory.mktemp("fuzz") / "x.png"
    path.write_bytes(start + content)
    refusal = ""
    try:
        assert read_picture(path).dtype == np.uint8
    except DataError as error:
        refusal = str(error)
    assert not refusal or str(path) in refusal


def test_reading_never_changes_pillows_switches(tmp_path):
    switches = (ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS)
    read_picture(save(tmp_path / "a.png", Image.fromarray(FRAME)))
    after = (ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS)
    assert after == switches
    assert "LOAD_TRUNCATED" not in Path(reading.__file__).read_text()


def test_the_hash_covers_shape_and_bytes():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert pixel_hash(pixels) == hashlib.sha256(b"2x4x3:" + bytes(range(24))).hexdigest()
    assert pixel_hash(pixels) != pixel_hash(pixels.reshape(4, 2, 3))
    assert pixel_hash(np.asfortranarray(pixels)) == pixel_hash(pixels)
    assert pixel_hash(np.repeat(pixels, 2, axis=1)[:, ::2]) == pixel_hash(pixels)


def test_a_real_jpeg_sample_and_real_pngs_are_whole(shared_data):
    paths = [
        *sorted((shared_data / "hc18" / "training_set").glob("*.png")),
        *sorted((shared_data / "fetal_planes_db").glob("*/*.png")),
        *sorted((shared_data / "fpus23" / "img").glob("*.JPG")),
        *sorted((shared_data / "nih_chestxray14" / "images").glob("*.png")),
    ]
    assert len(paths) >= 40
    for path in paths:
        height, width = read_picture(path).shape[:2]
        assert picture_size(path) == (width, height)
