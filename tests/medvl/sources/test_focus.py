import cv2
import numpy as np
import pytest
from mini_focus import ELLIPSES, SETS, SIZE, corners, write_mini_focus

from medvl.benchmark.groups import normalise_group
from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.focus import FOCUS
from medvl.sources.record import Domain, MaskFile, Split

LABELS = ("cardiac", "thorax")


@pytest.fixture
def mini_focus(tmp_path):
    return write_mini_focus(tmp_path / "root" / "FOCUS-dataset")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def first(scan):
    return by_id(scan)["training/images/001.png"]


def keep(folder, *parts):
    """Leave the first training picture only these copies of its annotation."""
    for path in folder.glob("training/annfiles_*/001*"):
        if path.parent.name not in parts:
            path.unlink()


def rewrite(folder, line, part="annfiles_rectangle"):
    """Leave it one copy, of this line."""
    keep(folder, part)
    (folder / f"training/{part}/001.txt").write_text(f"{line}\n")


def ellipse_box(label):
    """Extremes of many points on the published ellipse."""
    x, y, a, b, degrees = ELLIPSES[label]
    angles = np.linspace(0, 2 * np.pi, 100_000)
    points = x + 1j * y + np.exp(1j * np.radians(degrees)) * (a * np.cos(angles) + 1j * b * np.sin(angles))
    return points.real.min(), points.imag.min(), points.real.max(), points.imag.max()


def test_every_picture_of_every_set_gives_a_record(mini_focus):
    scan = FOCUS.scan(mini_focus)
    expected = [f"{name}/images/{i:03d}.png" for name, count in SETS.items() for i in range(1, count + 1)]
    assert [record.record_id for record in scan.records] == expected
    assert scan.warnings == []
    assert all(r.source == "focus" and r.domain is Domain.CLINICAL and r.is_present for r in scan.records)
    assert all([s.label for s in r.structures] == list(LABELS) for r in scan.records)
    assert all(read_picture(r.picture).shape == (SIZE[1], SIZE[0], 3) for r in scan.records)


def test_the_published_validation_set_stands_on_the_training_side(mini_focus):
    sides = {r.record_id.partition("/")[0]: r.official_split for r in FOCUS.scan(mini_focus).records}
    assert sides == {"training": Split.TRAIN, "validation": Split.TRAIN, "testing": Split.TEST}


def test_equal_numbers_of_two_sets_are_different_groups(mini_focus):
    records = FOCUS.scan(mini_focus).records
    assert len({normalise_group("focus", r.group, r.where) for r in records}) == len(records) == sum(SETS.values())


@pytest.mark.parametrize("others", [(), ("annfiles_mask",), ("annfiles_mask", "annfiles_rectangle")])
def test_ellipses_come_first_and_become_the_boxes_around_them(mini_focus, others):
    keep(mini_focus, "annfiles_ellipse", *others)
    for label, structure in zip(LABELS, first(FOCUS.scan(mini_focus)).structures, strict=True):
        assert structure.label == label
        assert structure.bbox_xyxy_px == pytest.approx(ellipse_box(label), abs=1e-3)


def test_an_ellipse_that_leaves_the_picture_is_cut_at_its_border(mini_focus):
    rewrite(mini_focus, "5 75 20 12 90 cardiac", "annfiles_ellipse")
    (cardiac,) = first(FOCUS.scan(mini_focus)).structures
    assert cardiac.bbox_xyxy_px == pytest.approx((0, 55, 17, SIZE[1]))


@pytest.mark.parametrize("label", LABELS)
def test_the_box_of_an_ellipse_is_that_of_its_mask_and_narrower_than_that_of_its_turned_rectangle(mini_focus, label):
    x0, y0, x1, y1 = first(FOCUS.scan(mini_focus)).structures[LABELS.index(label)].bbox_xyxy_px
    mask = cv2.imread(str(mini_focus / f"training/annfiles_mask/001-{label}.png"), cv2.IMREAD_GRAYSCALE)
    x, y, width, height = cv2.boundingRect(mask)
    assert (x0, y0, x1, y1) == pytest.approx((x, y, x + width, y + height), abs=2)
    xs, ys = zip(*corners(ELLIPSES[label]), strict=True)
    assert x1 - x0 < 0.95 * (max(xs) - min(xs))
    assert y1 - y0 < 0.95 * (max(ys) - min(ys))


def test_without_ellipses_the_masks_are_named(mini_focus):
    keep(mini_focus, "annfiles_mask", "annfiles_rectangle")
    found = [(s.label, s.mask) for s in first(FOCUS.scan(mini_focus)).structures]
    folder = mini_focus / "training/annfiles_mask"
    assert found == [(label, MaskFile(folder / f"001-{label}.png")) for label in LABELS]


def test_rectangles_alone_become_the_boxes_around_their_corners_inside_the_picture(mini_focus):
    keep(mini_focus, "annfiles_rectangle")
    cardiac, thorax = first(FOCUS.scan(mini_focus)).structures
    xs, ys = zip(*corners(ELLIPSES["cardiac"]), strict=True)
    assert cardiac.bbox_xyxy_px == (min(xs), min(ys), max(xs), max(ys))
    xs, ys = zip(*corners(ELLIPSES["thorax"]), strict=True)
    assert max(min(xs), min(ys)) < 0  # it leaves the picture on all sides
    assert max(xs) > SIZE[0]
    assert max(ys) > SIZE[1]
    assert thorax.bbox_xyxy_px == (0, 0, *SIZE)


def test_the_published_example_line_is_read(mini_focus):
    cv2.imwrite(str(mini_focus / "training/images/001.png"), np.zeros((663, 961), np.uint8))
    rewrite(mini_focus, "483.0 759.0 895.0 382.8 518.5 -29.5 106.5 346.6 thorax 0")
    (thorax,) = first(FOCUS.scan(mini_focus)).structures
    assert (thorax.label, thorax.bbox_xyxy_px) == ("thorax", (106.5, 0, 895, 663))


def test_a_picture_without_any_annotation_is_named(mini_focus):
    for path in mini_focus.glob("testing/annfiles_*/002*"):
        path.unlink()
    scan = FOCUS.scan(mini_focus)
    assert by_id(scan)["testing/images/002.png"].structures == ()
    assert "1 picture (testing/images/002.png) without an annotation" in scan.warnings[0]


def test_an_annotation_without_a_picture_is_an_absent_picture_of_its_set(mini_focus):
    (mini_focus / "testing/images/002.png").unlink()
    record = by_id(FOCUS.scan(mini_focus))["testing/images/002.png"]
    assert not record.is_present
    assert record.official_split is Split.TEST
    assert [s.label for s in record.structures] == list(LABELS)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3 4 5 6 7 cardiac 0", "expected 8 corner numbers, class and difficulty"),
        ("1 2 3 4 5 6 7 8 cardiac", "expected 8 corner numbers, class and difficulty"),
        ("1 2 3 4 5 6 7 x cardiac 0", "expected 8 corner numbers, class and difficulty"),
        ("1 2 3 4 5 6 7 nan cardiac 0", "expected 8 corner numbers, class and difficulty"),
        ("1 2 30 2 30 20 1 20 heart 0", "expected the class cardiac or thorax, found 'heart'"),
        ("5 5 30 5 30 5 5 5 cardiac 0", "expected a box that lies in the picture"),
        ("200 5 230 5 230 50 200 50 cardiac 0", r"picture \(110 x 80 px\), found \(200, 5, 230, 50\)"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_with_its_place(mini_focus, line, message):
    rewrite(mini_focus, line)
    with pytest.raises(DataError, match=rf"training/annfiles_rectangle/001\.txt line 1: .*{message}"):
        FOCUS.scan(mini_focus)


def test_an_annotation_that_cannot_be_opened_is_named(mini_focus):
    path = mini_focus / "training/annfiles_ellipse/001.txt"
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=r"annfiles_ellipse/001\.txt: the annotation cannot be opened"):
        FOCUS.scan(mini_focus)


def test_a_broken_picture_is_kept_for_the_build_to_refuse(mini_focus):
    (mini_focus / "training/images/001.png").write_text("<!DOCTYPE html>")
    scan = FOCUS.scan(mini_focus)
    assert first(scan).is_present
    assert len(first(scan).structures) == 2
    assert scan.warnings == []


def test_pictures_named_otherwise_are_left_out_and_named(mini_focus):
    (mini_focus / "training/images/copy.png").touch()
    scan = FOCUS.scan(mini_focus)
    assert len(scan.records) == sum(SETS.values())
    assert "1 picture (copy.png) not named as the dataset names them" in scan.warnings[0]


def test_a_broken_ellipse_is_refused_too(mini_focus):
    rewrite(mini_focus, "52 40 20 12 cardiac", "annfiles_ellipse")
    with pytest.raises(DataError, match=r"annfiles_ellipse/001\.txt line 1: expected centre, half axes, degrees"):
        FOCUS.scan(mini_focus)


def test_blank_lines_and_a_byte_order_mark_are_passed_over(mini_focus):
    rewrite(mini_focus, "\ufeff1 2 30 2 30 20 1 20 cardiac 0\n\n")
    (cardiac,) = first(FOCUS.scan(mini_focus)).structures
    assert cardiac.bbox_xyxy_px == (1, 2, 30, 20)


def test_an_archive_that_was_not_unpacked_is_named(mini_focus):
    (mini_focus / "testing").rename(mini_focus.parents[1] / "elsewhere")
    (mini_focus / "testing.zip").touch()
    scan = FOCUS.scan(mini_focus)
    assert [w for w in scan.warnings if "testing.zip is not unpacked" in w] == scan.warnings
    assert not any(r.official_split is Split.TEST for r in scan.records)


def test_the_archive_alone_is_found_and_named(tmp_path):
    (tmp_path / "FOCUS-dataset.zip").touch()
    assert FOCUS.find(tmp_path) == tmp_path
    scan = FOCUS.scan(tmp_path)
    assert scan.records == []
    assert scan.warnings[0].startswith(f"{tmp_path / 'FOCUS-dataset.zip'} is not unpacked")


def test_a_missing_set_is_named(mini_focus):
    (mini_focus / "validation").rename(mini_focus.parents[1] / "elsewhere")
    (warning,) = FOCUS.scan(mini_focus).warnings
    assert "no folder validation" in warning


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(mini_focus, tmp_path_factory):
    assert FOCUS.find(mini_focus.parent) == FOCUS.find(mini_focus) == mini_focus
    assert FOCUS.find(tmp_path_factory.mktemp("empty")) is None
