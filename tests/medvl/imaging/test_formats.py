import io
from pathlib import Path

import pytest

from medvl.errors import DataError
from medvl.imaging.formats import MAX_PICTURE_PX, Kind, check_frame, check_size, find_kind, kind_of, no_picture

DICOM = b"\0" * 128 + b"DICM" + b"\x02\0\0\0UL"
BARE_DICOM = b"\x08\0\x05\0\x0a\0\0\0ISO_IR 100"


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 200, "a.dcm", Kind.PICTURE),
        (b"\xff\xd8\xff\xe0" + b"\0" * 200, "a.mha", Kind.PICTURE),
        (DICOM, "a.png", Kind.DICOM),
        (DICOM, "a", Kind.DICOM),
        (b"II*\0" + DICOM[4:], "a.tif", Kind.DICOM),
        (BARE_DICOM, "a.dcm", Kind.DICOM),
        (BARE_DICOM, "A.DCM", Kind.DICOM),
        (b"\0\x08\0\x05CS\0\x0aISO_IR 100", "big_endian.dcm", Kind.DICOM),
        (BARE_DICOM, "a.bin", Kind.PICTURE),
        (b"<html>", "a.dcm", Kind.PICTURE),
        (b"ObjectType = Image\nNDims = 2\n", "a.mha", Kind.VOLUME),
        (b"ObjectType=Image\r\nNDims=2\r\n", "a.png", Kind.VOLUME),
        (b"NDims = 3\nDimSize = 1 1 1\n", "a.mhd", Kind.VOLUME),
        (b"<html>", "a.mha", Kind.PICTURE),
        (b"RIFF\0\0\0\0AVI LIST", "a.avi", Kind.VIDEO),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a.webp", Kind.PICTURE),
        (b"\0\0\0\x18ftypisom", "a.mp4", Kind.VIDEO),
        (b"\0\0\0\x18ftypqt  ", "a.mov", Kind.VIDEO),
        (b"\0\0\0\x18ftypavif", "a.avif", Kind.PICTURE),
        (b"", "a.mp4", Kind.PICTURE),
    ],
)
def test_the_content_decides_what_a_file_is(tmp_path, content, name, kind):
    path = tmp_path / name
    path.write_bytes(content)
    assert find_kind(path) is kind


def test_an_open_file_is_left_at_its_start():
    file = io.BytesIO(DICOM)
    assert kind_of(file, Path("x")) is Kind.DICOM
    assert file.tell() == 0


def test_the_largest_picture_passes_and_one_pixel_more_is_refused():
    check_size(MAX_PICTURE_PX, 1, Path("x.dcm"))
    with pytest.raises(DataError, match=r"x\.dcm: expected at most 80,000,000 pixels"):
        check_size(MAX_PICTURE_PX + 1, 1, Path("x.dcm"))


@pytest.mark.parametrize("frame", [-1, 3])
def test_a_frame_outside_the_file_is_refused(frame):
    check_frame(2, 3, Path("x.mha"))
    with pytest.raises(DataError, match=rf"x\.mha: expected frame {frame}, found 3 frame\(s\) \(0 to 2\)"):
        check_frame(frame, 3, Path("x.mha"))


def test_a_file_of_no_known_kind_is_described(tmp_path):
    (tmp_path / "x.png").write_bytes(b"%PDF-1.7")
    assert "found a PDF document. Download" in str(no_picture(tmp_path / "x.png"))
