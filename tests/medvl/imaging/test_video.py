from pathlib import Path

import cv2
import numpy as np
import pytest

from medvl.errors import DataError
from medvl.imaging.notes import Note
from medvl.imaging.reading import frame_count, picture_size, read_picture, read_picture_noted

FRAMES = [np.full((48, 64, 3), (10 * i, 250 - 8 * i, 30), np.uint8) for i in range(20)]
for _place, _frame in enumerate(FRAMES):
    _frame[:, : 3 * _place] = (255, 0, 0)


def write(path: Path, codec: str) -> Path:
    video = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter_fourcc(*codec), 25, (64, 48))
    assert video.isOpened()
    for frame in FRAMES:
        video.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    video.release()
    return path


@pytest.fixture
def mp4(tmp_path):
    return write(tmp_path / "a.mp4", "mp4v")


@pytest.mark.parametrize(
    ("name", "codec", "tolerance"), [("a.avi", "FFV1", 0), ("a.avi", "XVID", 10), ("a.MP4", "mp4v", 10)]
)
def test_each_frame_is_read_by_its_index_as_rgb(tmp_path, name, codec, tolerance):
    path = write(tmp_path / name.lower(), codec).rename(tmp_path / name)
    for frame in (0, 1, 7, 19):
        difference = np.abs(read_picture(path, frame).astype(int) - FRAMES[frame])
        assert difference.mean() <= tolerance
        others = [np.abs(FRAMES[frame].astype(int) - other).mean() for other in FRAMES[frame + 1 :]]
        assert difference.mean() < min(others, default=99)
    assert np.array_equal(read_picture(path), read_picture(path, 0))


def test_size_and_number_of_frames_come_from_the_header(mp4):
    assert picture_size(mp4) == (64, 48)
    assert frame_count(mp4) == 20
    assert read_picture_noted(mp4)[1] == {Note.VIDEO, Note.FRAME}


@pytest.mark.parametrize("frame", [-1, 20])
def test_a_frame_that_the_video_lacks_is_refused(mp4, frame):
    with pytest.raises(DataError, match=rf"a\.mp4: expected frame {frame}, found 20 frame\(s\) \(0 to 19\)"):
        read_picture(mp4, frame)


@pytest.mark.parametrize(("name", "codec"), [("a.avi", "FFV1"), ("a.mp4", "mp4v")])
@pytest.mark.parametrize("share", [0.4, 0.9, 0.99])
def test_a_video_cut_short_is_refused(tmp_path, name, codec, share):
    path = write(tmp_path / name, codec)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(DataError, match=rf"{name}: expected a whole picture, found a video cut after \d+ bytes.*again"):
        read_picture(path)


def test_bytes_behind_the_end_of_an_avi_are_no_damage(tmp_path):
    path = write(tmp_path / "a.avi", "FFV1")
    path.write_bytes(path.read_bytes() + b"\xff" * 64)
    assert np.array_equal(read_picture(path, 3), FRAMES[3])


@pytest.mark.parametrize(
    ("name", "content"), [("a.mp4", b"\0\0\0\x18ftypisom" + b"\0" * 12), ("a.avi", b"RIFF\x04\0\0\0AVI ")]
)
def test_a_video_that_cannot_be_opened_is_refused(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    for read in (read_picture, picture_size, frame_count):
        with pytest.raises(DataError, match=rf"{name}: expected a video that OpenCV can decode.*convert it"):
            read(path)


def test_a_frame_that_cannot_be_decoded_is_refused(mp4):
    content = bytearray(mp4.read_bytes())
    start = content.index(b"mdat") + 4
    content[start : start + 600] = b"\xa5" * 600
    mp4.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.mp4: .*frame 19 of 20 cannot be decoded"):
        read_picture(mp4, 19)
