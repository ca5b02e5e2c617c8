import io

import numpy as np
import pytest
from PIL import Image

from medvl.imaging.wholeness import describe_content, find_damage


def encoded(kind: str, **options: object) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 1}, {"quality": 100}])
def test_every_cut_of_a_jpeg_is_seen_and_the_whole_is_not(options):
    content = encoded("JPEG", **options)
    assert find_damage(content) == ""
    assert all("cut" in find_damage(content[:length]) for length in range(3, len(content)))


def test_every_cut_of_a_png_is_seen_and_the_whole_is_not():
    content = encoded("PNG")
    assert find_damage(content) == ""
    assert all("cut" in find_damage(content[:length]) for length in range(8, len(content)))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_bytes_behind_the_end_mark_are_no_damage(kind):
    assert find_damage(encoded(kind) + b"\0" * 100) == ""


def test_the_end_mark_of_an_embedded_thumbnail_does_not_count():
    thumbnail = encoded("JPEG")
    exif = b"Exif\0\0" + thumbnail
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    content = encoded("JPEG")
    with_thumbnail = content[:2] + segment + content[2:]
    assert find_damage(with_thumbnail) == ""
    assert "cut" in find_damage(with_thumbnail[: len(segment) + 200])


def test_other_formats_are_left_to_their_decoder():
    assert find_damage(encoded("BMP")[:50]) == ""


def test_a_damaged_png_is_called_so():
    assert describe_content(encoded("PNG")) == "a damaged PNG"
