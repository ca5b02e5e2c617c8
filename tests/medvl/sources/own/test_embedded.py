import os

import pytest
from own_data import picture_bytes

from medvl.errors import StorageError
from medvl.sources.own.embedded import store_picture


def test_equal_content_has_one_file_that_is_written_once(tmp_path):
    folder = tmp_path / "a" / "cache"
    first = store_picture(picture_bytes(80), folder)
    os.utime(first, (1, 1))
    assert store_picture(picture_bytes(80), folder) == first
    assert first.stat().st_mtime == 1
    assert store_picture(picture_bytes(90), folder) != first
    assert first.read_bytes() == picture_bytes(80)
    assert len(os.listdir(folder)) == 2


@pytest.mark.parametrize(
    ("start", "ending"), [(b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"MM\x00*", ".tif"), (b"????", "")]
)
def test_the_ending_is_that_of_the_content(tmp_path, start, ending):
    assert store_picture(start + b"rest", tmp_path).suffix == ending


def test_a_part_of_a_picture_is_written_anew(tmp_path):
    path = store_picture(picture_bytes(80), tmp_path)
    path.write_bytes(b"\x89PNG")
    assert store_picture(picture_bytes(80), tmp_path).read_bytes() == picture_bytes(80)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="choose another cache folder"):
        store_picture(picture_bytes(80), tmp_path / "file" / "cache")
