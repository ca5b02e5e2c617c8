import pytest

from medvl.errors import DataError
from medvl.sources.cvat import CvatBox, CvatImage, CvatTag, read_cvat

BOX = '<box label="head" occluded="0" xtl="1.50" ytl="2" xbr="30.25" ybr="20" z_order="0"></box>'
POSE = '<tag label="Orientation"><attribute name="Pose"> hdvb </attribute></tag>'
PLACE = r"stream/annotations\.xml"


@pytest.fixture
def write(tmp_path):
    """Writes a file with the given elements inside `<annotations>` and returns its path."""

    def write_file(body: str, head: str = "", encoding: str = "utf-8"):
        path = tmp_path / "stream" / "annotations.xml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(f"{head}<annotations><version>1.1</version>{body}</annotations>".encode(encoding))
        return path

    return write_file


def image(body: str = "", name: str = "a.png", size: str = 'width="40" height="30"') -> str:
    return f'<image id="0" name="{name}" {size}>{body}</image>'


def test_images_come_in_file_order_with_their_boxes_and_tags(write):
    images = read_cvat(write(image(BOX + POSE, "b.png") + image()))
    assert images == [
        CvatImage(
            "b.png", 40, 30, (CvatBox("head", (1.5, 2, 30.25, 20)),), (CvatTag("Orientation", {"Pose": "hdvb"}),)
        ),
        CvatImage("a.png", 40, 30, (), ()),
    ]


def test_a_tag_there_twice_gives_its_value_once_and_other_values_beside_it(write):
    (same,) = read_cvat(write(image(POSE + POSE)))
    assert same.tag_values("Orientation", "Pose") == ["hdvb"]
    (other,) = read_cvat(write(image(POSE + POSE.replace("hdvb", "huvf"))))
    assert other.tag_values("Orientation", "Pose") == ["hdvb", "huvf"]
    assert other.tag_values("Orientation", "View") == other.tag_values("Probe", "Pose") == []


def test_a_box_may_fill_its_image(write):
    (whole,) = read_cvat(write(image('<box label="a" xtl="0" ytl="0" xbr="40" ybr="30"/>')))
    assert whole.boxes[0].bbox_xyxy_px == (0, 0, 40, 30)


@pytest.mark.parametrize(
    ("edge", "value"),
    [("xtl", "-0.1"), ("ytl", "-1"), ("xbr", "40.01"), ("ybr", "31"), ("xbr", "1.5"), ("ybr", "1")],
)
def test_a_box_outside_its_image_or_without_area_is_refused(write, edge, value):
    old = {"xtl": "1.50", "ytl": "2", "xbr": "30.25", "ybr": "20"}[edge]
    box = BOX.replace(f'{edge}="{old}"', f'{edge}="{value}"')
    with pytest.raises(DataError, match=rf"{PLACE}, a\.png: expected a box 'head' with an area inside 40 x 30 px"):
        read_cvat(write(image(box)))


@pytest.mark.parametrize("value", ["", "left", "nan", "inf"])
def test_an_edge_that_is_no_number_is_refused(write, value):
    with pytest.raises(DataError, match=rf"{PLACE}, a\.png, box 'head': expected a number as xtl, found '{value}'"):
        read_cvat(write(image(BOX.replace('"1.50"', f'"{value}"'))))


@pytest.mark.parametrize("size", ['width="0" height="30"', 'width="40.5" height="30"'])
def test_an_image_without_a_size_in_whole_pixels_is_refused(write, size):
    with pytest.raises(DataError, match=rf"{PLACE}, a\.png: expected width and height in whole pixels"):
        read_cvat(write(image(size=size)))


def test_an_image_without_a_name_or_there_twice_is_refused(write):
    with pytest.raises(DataError, match=rf"{PLACE}: expected a name for each image, found none in image '0'"):
        read_cvat(write(image(name=" ")))
    with pytest.raises(DataError, match=rf"{PLACE}: expected each image once, found a\.png again"):
        read_cvat(write(image() + image()))


@pytest.mark.parametrize(
    "head",
    [
        '<!DOCTYPE annotations [<!ENTITY secret SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE annotations [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE annotations SYSTEM "http://localhost/x.dtd">',
    ],
)
def test_entities_and_document_types_are_refused(write, head):
    with pytest.raises(DataError, match=r"annotations\.xml: expected plain XML, found a document type or entities"):
        read_cvat(write(image(), head=head))


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"", "no element"), (b"<annotations><image", "unclosed"), (b"\x89PNG\r\n", "not well-formed|invalid token")],
)
def test_a_file_that_is_no_whole_xml_is_refused(tmp_path, content, found):
    path = tmp_path / "annotations.xml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"annotations\.xml: expected a whole XML file, found .*({found})"):
        read_cvat(path)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"annotations\.xml: the file cannot be opened \(No such file"):
        read_cvat(tmp_path / "annotations.xml")


def test_other_formats_are_refused(tmp_path, write):
    with pytest.raises(DataError, match=r"expected CVAT for images 1\.1 .*found tracks of a video"):
        read_cvat(write('<track id="0" label="head"></track>'))
    path = tmp_path / "voc.xml"
    path.write_text("<annotation><object/></annotation>")
    with pytest.raises(DataError, match=r"expected CVAT for images 1\.1 .*found <annotation>"):
        read_cvat(path)


def test_other_encodings_and_a_byte_order_mark_are_read(write):
    declared = '<?xml version="1.0" encoding="iso-8859-1"?>'
    (latin,) = read_cvat(write(image(name="Kopf_ü.png"), head=declared, encoding="latin-1"))
    (marked,) = read_cvat(write(image(name="Kopf_ü.png"), encoding="utf-8-sig"))
    assert latin.name == marked.name == "Kopf_ü.png"
