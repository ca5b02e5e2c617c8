"""Frames of videos (.avi, .mp4), by index.

Frame i is the i-th that the decoder gives. Seeking would be faster in a long video, but lands beside the frame in files
with a variable frame rate, so frames before it are decoded and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np
import numpy.typing as npt

from medvl.errors import DataError
from medvl.imaging.formats import check_frame, check_size, not_whole, open_file


def video_size(path: Path) -> tuple[int, int]:
    """(width, height) of a frame, from the header."""
    with _opened(path) as (video, _):
        return _size(video)


def video_frames(path: Path) -> int:
    """Number of frames that the header states."""
    with _opened(path) as (_, frames):
        return frames


def read_video(path: Path, frame: int | None) -> npt.NDArray[np.uint8]:
    """Decode one frame.

    Args:
        path: AVI or MP4 file.
        frame: Index; None is the first.

    Returns:
        uint8 [H, W, 3], RGB.

    Raises:
        DataError: The file is cut short, cannot be decoded, or lacks the frame.
    """
    index = frame or 0
    with _opened(path) as (video, frames):
        check_frame(index, frames, path)
        for _ in range(index):
            if not video.grab():
                break
        is_read, pixels = video.read()
    if not is_read:
        raise not_whole(path, f"a video whose frame {index} of {frames} cannot be decoded")
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), dtype=np.uint8)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[cv2.VideoCapture, int]]:
    """The opened video and the number of its frames."""
    with open_file(path) as file:
        damage = _damage(file)
    if damage:
        raise not_whole(path, damage)
    video = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    try:
        frames = int(video.get(cv2.CAP_PROP_FRAME_COUNT))
        width, height = _size(video)
        if not video.isOpened() or min(frames, width, height) < 1:
            raise DataError(
                f"{path}: expected a video that OpenCV can decode, found one that it cannot open (damaged, or of a "
                "codec that it lacks). Download or copy this file again, or convert it to H.264 in MP4."
            )
        check_size(width, height, path)
        yield video, frames
    finally:
        video.release()


def _size(video: cv2.VideoCapture) -> tuple[int, int]:
    return int(video.get(cv2.CAP_PROP_FRAME_WIDTH)), int(video.get(cv2.CAP_PROP_FRAME_HEIGHT))


def _damage(file: BinaryIO) -> str:
    """Walk the outermost parts; "" when all are complete. A decoder would guess the pixels of a frame that is cut."""
    is_avi = file.read(4) == b"RIFF"
    total = file.seek(0, 2)
    position, length = 0, 8
    while position < total and length >= 8:  # a part without a length reaches to the end of the file
        file.seek(position)
        head = file.read(16)
        if head[:4] == b"RIFF":
            length = int.from_bytes(head[4:8], "little") + 8
        elif is_avi:
            return ""  # bytes behind the end
        elif int.from_bytes(head[:4], "big") == 1:
            length = int.from_bytes(head[8:16], "big")
        else:
            length = int.from_bytes(head[:4], "big")
        position += length
    return f"a video cut after {total} bytes" if position > total else ""
