from PIL import Image

from medvl.sources.sizes import size_if_readable


def test_a_whole_picture_has_its_size_and_others_have_none(tmp_path):
    Image.new("L", (7, 5)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_text("<html>")
    assert size_if_readable(tmp_path / "a.png") == (7, 5)
    assert size_if_readable(tmp_path / "b.png") is None
    assert size_if_readable(tmp_path / "none.png") is None
