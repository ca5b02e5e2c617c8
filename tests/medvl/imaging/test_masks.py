from pathlib import Path

import cv2
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813 - how everybody writes it
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from scipy import ndimage

from medvl.errors import DataError
from medvl.imaging.masks import check_mask, fill_outline, mask_boxes, read_mask
from medvl.imaging.reading import read_picture


def extent(mask: np.ndarray) -> tuple[int, int, int, int]:
    """The enclosing box by plain counting, independent of the code under test."""
    ys, xs = np.where(mask)
    return int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1


def ellipse(shape, centre, axes, angle, *, thickness=1) -> np.ndarray:
    return cv2.ellipse(np.zeros(shape, np.uint8), centre, axes, angle, 0, 360, 255, thickness) > 0


def cut_ellipse(shape, centre, axes, angle) -> tuple[np.ndarray, np.ndarray]:
    """Outline and filled shape of an ellipse that may leave the picture: drawn on a larger sheet, filled, then cut."""
    room = 100
    sheet = ellipse(tuple(n + 2 * room for n in shape), tuple(n + room for n in centre), axes, angle)
    window = (slice(room, -room), slice(room, -room))
    return sheet[window], ndimage.binary_fill_holes(sheet)[window]


@st.composite
def ellipses(draw, *, inside: bool):
    height, width = draw(st.integers(50, 90)), draw(st.integers(50, 90))
    axes = draw(st.integers(6, 18)), draw(st.integers(6, 18))
    margin = 22 if inside else 0
    centre = draw(st.integers(margin, width - 1 - margin)), draw(st.integers(margin, height - 1 - margin))
    return (height, width), centre, axes, draw(st.integers(0, 179))


BLOBS = hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))


class TestBoxes:
    @given(ellipses(inside=True), st.sampled_from([1, 2, 3]))
    def test_the_box_of_an_outline_is_the_extent_of_the_filled_outline(self, shape, thickness):
        outline = ellipse(*shape, thickness=thickness)
        assert mask_boxes(outline, is_outline=True) == [extent(ndimage.binary_fill_holes(outline))]

    @given(ellipses(inside=True))
    def test_a_filled_mask_filled_again_is_itself(self, shape):
        filled = ellipse(*shape, thickness=cv2.FILLED)
        assert np.array_equal(fill_outline(filled), filled)
        assert mask_boxes(filled, is_outline=True) == mask_boxes(filled, is_outline=False) == [extent(filled)]

    @given(ellipses(inside=False))
    @example(((60, 60), (0, 30), (15, 15), 0))
    @example(((60, 60), (59, 30), (15, 15), 0))
    @example(((60, 60), (30, 0), (15, 15), 0))
    @example(((60, 60), (0, 0), (15, 15), 0))
    @example(((60, 60), (30, 59), (18, 10), 30))
    @example(((50, 50), (0, 0), (6, 13), 42))
    def test_an_outline_cut_by_the_border_is_filled_on_its_hollow_side(self, shape):
        outline, filled = cut_ellipse(*shape)
        assert mask_boxes(outline, is_outline=True) == [extent(filled)]
        (height, width), (x, y), *_ = shape
        if min(x, y, width - 1 - x, height - 1 - y) >= 4:  # nearer than this the arc left may be a straight line
            assert np.array_equal(fill_outline(outline), filled)

    def test_a_head_cut_at_two_corners_is_filled_to_the_border(self):
        outline, filled = cut_ellipse((60, 80), (0, 30), (60, 45), 0)
        assert not outline[:, :20].any()
        assert filled.mean() > 0.5
        assert np.array_equal(fill_outline(outline), filled)
        assert mask_boxes(outline, is_outline=True) == [extent(filled)]

    def test_a_line_along_the_border_does_not_fill_the_picture(self):
        line = np.zeros((40, 60), bool)
        line[0, 10:30] = True
        assert mask_boxes(line, is_outline=True) == [(10, 0, 30, 1)]

    @given(BLOBS)
    def test_the_structure_box_is_the_extent_of_what_is_marked(self, mask):
        expected = [extent(mask)] if mask.any() else []
        assert mask_boxes(mask, is_outline=False) == expected

    @given(BLOBS)
    def test_component_boxes_are_the_extents_of_the_parts_without_holes(self, mask):
        parts, count = ndimage.label(ndimage.binary_fill_holes(mask), np.ones((3, 3)))
        expected = sorted((extent(parts == i) for i in range(1, count + 1)), key=lambda b: (b[1], b[0], b[3], b[2]))
        assert mask_boxes(mask, is_outline=False, per="component", min_area_share=0) == expected

    @given(BLOBS, st.integers(1, 40))
    def test_only_parts_of_at_least_the_area_are_kept_holes_counted(self, mask, least_px):
        parts, count = ndimage.label(ndimage.binary_fill_holes(mask), np.ones((3, 3)))
        kept = [extent(parts == i) for i in range(1, count + 1) if (parts == i).sum() >= least_px]
        share = (least_px - 0.5) / mask.size
        boxes = mask_boxes(mask, is_outline=False, per="component", min_area_share=share)
        assert boxes == sorted(kept, key=lambda b: (b[1], b[0], b[3], b[2]))

    @given(BLOBS, st.sampled_from(["structure", "component"]))
    def test_boxes_of_outlines_are_those_of_the_filled_outline(self, mask, per):
        filled = fill_outline(mask)
        expected = mask_boxes(filled, is_outline=False, per=per, min_area_share=0)
        assert mask_boxes(mask, is_outline=True, per=per, min_area_share=0) == expected

    @given(BLOBS)
    def test_an_outline_that_no_border_cuts_encloses_what_the_outside_cannot_reach(self, mask):
        inside = np.pad(mask, 1)
        assert np.array_equal(fill_outline(inside), ndimage.binary_fill_holes(inside))

    def test_parts_below_the_least_area_are_dropped_and_parts_at_it_kept(self):
        mask = np.zeros((100, 100), bool)
        mask[50:52, 10:15] = True  # 10 pixels = 0.1 %
        mask[10:13, 60:63] = True  # 9 pixels
        assert mask_boxes(mask, is_outline=False, per="component") == [(10, 50, 15, 52)]
        assert mask_boxes(mask, is_outline=False) == [(10, 10, 63, 52)]

    def test_the_area_of_an_outline_counts_what_it_encloses(self):
        outline = ellipse((200, 200), (100, 100), (12, 12), 0)
        assert mask_boxes(outline, is_outline=True, per="component", min_area_share=0.01) == [extent(outline)]

    def test_two_outlines_give_two_boxes_in_reading_order(self):
        mask = ellipse((100, 100), (75, 30), (10, 12), 0) | ellipse((100, 100), (20, 70), (10, 10), 0)
        boxes = mask_boxes(mask, is_outline=True, per="component")
        assert boxes == [(65, 18, 86, 43), (10, 60, 31, 81)]
        assert mask_boxes(mask, is_outline=True) == [(10, 18, 86, 81)]

    def test_nothing_marked_gives_no_box(self):
        empty = np.zeros((9, 9), bool)
        assert mask_boxes(empty, is_outline=True) == []
        assert mask_boxes(empty, is_outline=False, per="component") == []


SHAPE = ellipse((40, 60), (30, 20), (14, 9), 20, thickness=cv2.FILLED)


def encodings() -> dict[str, Image.Image]:
    white = Image.fromarray(np.where(SHAPE, 255, 0).astype(np.uint8))
    two_levels = white.convert("RGB").quantize(2)
    stray = np.where(SHAPE, 255, 0).astype(np.uint8)
    stray[0, :] = 1
    on_clear = Image.merge("RGBA", [Image.new("L", white.size, 255)] * 3 + [white])
    colours = np.zeros((40, 60, 3), np.uint8)
    colours[SHAPE] = (0, 0, 255)
    return {
        "L 0/255": white,
        "L 0/1": Image.fromarray(SHAPE.astype(np.uint8)),
        "L 0/1/255": Image.fromarray(stray),
        "1": Image.fromarray(SHAPE),
        "P grey": white.convert("P"),
        "P two entries": two_levels,
        "RGB": white.convert("RGB"),
        "RGB blue": Image.fromarray(colours),
        "RGBA opaque": white.convert("RGBA"),
        "RGBA white on clear": on_clear,
        "16-bit 0/65535": Image.fromarray(np.where(SHAPE, 65535, 0).astype(np.uint16)),
        "16-bit 0/255": Image.fromarray(np.where(SHAPE, 255, 0).astype(np.uint16)),
    }


class TestReading:
    def save(self, folder: Path, image: Image.Image) -> Path:
        image.save(folder / "mask.png")
        return folder / "mask.png"

    @pytest.mark.parametrize("name", list(encodings()))
    def test_one_structure_reads_the_same_from_every_encoding(self, tmp_path, name):
        mask = read_mask(self.save(tmp_path, encodings()[name]))
        assert mask.dtype == np.bool_
        assert np.array_equal(mask, SHAPE)

    def test_class_numbers_are_all_marked_without_a_value_and_one_by_one_with_it(self, tmp_path):
        labels = np.zeros((10, 12), np.uint8)
        labels[2:4, 3:5], labels[6:9, 1:7] = 1, 7
        path = self.save(tmp_path, Image.fromarray(labels))
        assert np.array_equal(read_mask(path), labels > 0)
        assert np.array_equal(read_mask(path, 1), labels == 1)
        assert np.array_equal(read_mask(path, 7), labels == 7)
        assert not read_mask(path, 2).any()

    def test_a_value_in_a_coloured_palette_is_the_index(self, tmp_path):
        labels = np.zeros((10, 12), np.uint8)
        labels[2:4, 3:5], labels[6:9, 1:7] = 1, 2
        image = Image.new("P", (12, 10))
        image.putdata(labels.ravel().tolist())
        image.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0])
        path = self.save(tmp_path, image)
        assert np.array_equal(read_mask(path, 1), labels == 1)
        assert np.array_equal(read_mask(path, 2), labels == 2)

    def test_the_soft_rim_of_an_anti_aliased_mask_does_not_widen_the_box(self, tmp_path):
        big = ellipse((320, 480), (240, 160), (112, 72), 0, thickness=cv2.FILLED)
        soft = Image.fromarray(np.where(big, 255, 0).astype(np.uint8)).resize((60, 40), Image.Resampling.LANCZOS)
        hard = extent(ellipse((40, 60), (30, 20), (14, 9), 0, thickness=cv2.FILLED))
        box = mask_boxes(read_mask(self.save(tmp_path, soft)), is_outline=False)[0]
        assert np.abs(np.subtract(box, hard)).max() <= 1
        assert box != extent(np.asarray(soft) > 0)

    def test_half_grey_beside_white_is_still_marked(self, tmp_path):
        levels = np.zeros((4, 9), np.uint8)
        levels[1, 1:3], levels[2, 5:8] = 127, 255
        assert np.array_equal(read_mask(self.save(tmp_path, Image.fromarray(levels))), levels > 0)

    def test_a_colour_marks_the_pixels_of_exactly_that_colour(self, tmp_path):
        colours = np.zeros((10, 12, 3), np.uint8)
        colours[2:4, 3:5], colours[6:9, 1:7], colours[9, 9] = (255, 0, 0), (0, 255, 0), (254, 0, 0)
        for image in (
            Image.fromarray(colours),
            Image.fromarray(colours).quantize(8),
            Image.fromarray(colours).convert("RGBA"),
        ):
            path = self.save(tmp_path, image)
            assert np.array_equal(read_mask(path, colour=(255, 0, 0)), (colours == (255, 0, 0)).all(axis=2))
            assert read_mask(path, colour=(0, 255, 0)).sum() == 18
            assert not read_mask(path, colour=(0, 0, 255)).any()
            assert read_mask(path, colour=(0, 0, 0)).sum() == 120 - 4 - 18 - 1

    def test_a_frame_of_a_stack_is_chosen(self, tmp_path):
        stack = np.zeros((4, 10, 12), np.uint8)
        stack[2, 3:5, 3:8], stack[2, 7, 7] = 1, 2
        sitk.WriteImage(sitk.GetImageFromArray(stack), str(tmp_path / "mask.mha"), True)
        assert not read_mask(tmp_path / "mask.mha").any()
        assert np.array_equal(read_mask(tmp_path / "mask.mha", frame=2), stack[2] > 0)
        assert np.array_equal(read_mask(tmp_path / "mask.mha", 2, frame=2), stack[2] == 2)
        frames = [Image.fromarray(frame * 100) for frame in stack]
        frames[0].save(tmp_path / "mask.tif", save_all=True, append_images=frames[1:])
        assert np.array_equal(read_mask(tmp_path / "mask.tif", 200, frame=2), stack[2] == 2)
        with pytest.raises(DataError, match="expected frame 4"):
            read_mask(tmp_path / "mask.mha", frame=4)

    @pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.float32])
    def test_metaimage_labels_of_every_type_are_the_stored_numbers(self, tmp_path, dtype):
        labels = np.zeros((10, 12), dtype)
        labels[2:4, 3:5], labels[6:9, 1:7] = 1, 2
        sitk.WriteImage(sitk.GetImageFromArray(labels), str(tmp_path / "mask.mha"))
        assert np.array_equal(read_mask(tmp_path / "mask.mha"), labels > 0)
        assert np.array_equal(read_mask(tmp_path / "mask.mha", 1), labels == 1)

    @pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float64])
    def test_a_named_array_is_read_like_a_mask_file(self, tmp_path, dtype):
        liver = SHAPE.astype(dtype)
        colours = np.where(SHAPE[:, :, None], (9, 8, 7), 0).astype(np.uint8)
        np.save(tmp_path / "a.npy", {"image": colours, "structures": {"liver": liver, "vein": SHAPE * np.uint8(255)}})
        for name in ("structures/liver", "structures/vein"):
            assert np.array_equal(read_mask(tmp_path / "a.npy", array=name), SHAPE)
        assert np.array_equal(read_mask(tmp_path / "a.npy", 255, array="structures/vein"), SHAPE)
        assert np.array_equal(read_mask(tmp_path / "a.npy", colour=(9, 8, 7), array="image"), SHAPE)
        np.save(tmp_path / "b.npy", {"liver": liver[:, :, None]})
        assert np.array_equal(read_mask(tmp_path / "b.npy", array="liver"), SHAPE)
        with pytest.raises(DataError, match="RGB colours under 'structures/liver'"):
            read_mask(tmp_path / "a.npy", colour=(9, 8, 7), array="structures/liver")
        with pytest.raises(DataError, match="'structures/spleen'"):
            read_mask(tmp_path / "a.npy", array="structures/spleen")

    def test_parameters_that_exclude_each_other_are_a_mistake_of_the_caller(self, tmp_path):
        path = self.save(tmp_path, Image.fromarray(SHAPE))
        with pytest.raises(ValueError, match="value or colour"):
            read_mask(path, 1, colour=(1, 1, 1))
        with pytest.raises(ValueError, match="frame or array"):
            read_mask(path, frame=0, array="x")

    @pytest.mark.parametrize("brightest", [32, 33, 127, 128, 254, 255])
    def test_levels_of_at_least_half_the_brightest_are_marked(self, tmp_path, brightest):
        levels = np.arange(brightest + 1, dtype=np.uint8)[None]
        marked = read_mask(self.save(tmp_path, Image.fromarray(levels)))
        assert np.array_equal(marked, levels >= brightest / 2 - 0.5)

    def test_a_broken_mask_is_named(self, tmp_path):
        (tmp_path / "m.png").write_bytes(b"")
        with pytest.raises(DataError, match=r"m\.png.*empty"):
            read_mask(tmp_path / "m.png")


class TestChecking:
    def test_a_mask_of_another_size_is_refused_naming_both_sizes(self):
        with pytest.raises(DataError, match=r"010_HC.*60 x 40.*30 x 20"):
            check_mask(np.ones((20, 30), bool), (40, 60, 3), "010_HC")

    def test_an_empty_mask_is_refused(self):
        with pytest.raises(DataError, match=r"010_HC: .*no marked pixel"):
            check_mask(np.zeros((40, 60), bool), (40, 60, 3), "010_HC")

    def test_a_fitting_mask_passes(self):
        check_mask(np.eye(40, 60, dtype=bool), (40, 60), "x")


class TestRealHC18:
    def test_boxes_equal_the_extent_of_the_filled_outline(self, shared_data):
        paths = sorted((shared_data / "hc18" / "training_set").glob("*_Annotation.png"))
        assert len(paths) == 16
        for path in paths:
            mask = read_mask(path)
            check_mask(mask, read_picture(path.with_name(path.name.replace("_Annotation", ""))).shape, path.name)
            expected = extent(ndimage.binary_fill_holes(np.asarray(Image.open(path)) > 0))
            assert mask_boxes(mask, is_outline=True) == [expected]
            assert mask_boxes(mask, is_outline=True, per="component") == [expected]
            assert np.array_equal(fill_outline(mask), ndimage.binary_fill_holes(mask))

    @pytest.mark.parametrize("name", ["010_HC", "014_3HC"])
    def test_filled_copies_give_the_box_of_their_outline_within_the_pixel_they_were_redrawn_by(self, shared_data, name):
        outline = read_mask(shared_data / "hc18" / "training_set" / f"{name}_Annotation.png")
        filled = read_mask(shared_data / "hc18" / "variant_filled_annotations" / f"{name}_Annotation.png")
        box, expected = mask_boxes(filled, is_outline=True)[0], mask_boxes(outline, is_outline=True)[0]
        assert box == extent(filled)
        assert np.abs(np.subtract(box, expected)).max() <= 1
        assert (filled & ~fill_outline(outline)).sum() < 0.01 * filled.sum()
