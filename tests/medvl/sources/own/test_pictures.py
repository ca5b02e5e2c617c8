import os

from own_data import write_picture

from medvl.sources.own.pictures import list_tree


def test_pictures_and_texts_are_told_by_their_endings_in_the_order_of_their_paths(tmp_path):
    for name in ("b/2.PNG", "b/1.jpg", "A/x.dcm"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "Notes.TXT").touch()
    (tmp_path / "b" / "table.csv").touch()
    pictures, texts = list_tree(tmp_path, warnings := [])
    assert list(pictures) == ["A/x.dcm", "b/1.jpg", "b/2.PNG"]
    assert texts == {"b/Notes.TXT": tmp_path / "b" / "Notes.TXT"}
    assert warnings == []


def test_links_are_followed_inside_the_folder_only(tmp_path):
    inside = write_picture(tmp_path / "lab" / "a.png")
    outside = write_picture(tmp_path / "secret" / "b.png")
    os.symlink(inside, tmp_path / "lab" / "again.png")
    os.symlink(outside, tmp_path / "lab" / "b.png")
    os.symlink(outside.parent, tmp_path / "lab" / "more")
    pictures, _ = list_tree(tmp_path / "lab", warnings := [])
    assert list(pictures) == ["a.png", "again.png"]
    assert ["2 links" in warning for warning in warnings] == [True]
