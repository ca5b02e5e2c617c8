import numpy as np
import pytest

from medvl.imaging.sheet import BACKGROUND, contact_sheet


def shade(value: int, height: int, width: int) -> np.ndarray:
    return np.full((height, width, 3), value, np.uint8)


def test_pictures_stand_in_rows_at_the_centre_of_their_cells():
    sheet = contact_sheet([shade(100, 20, 20), shade(150, 10, 40), shade(200, 40, 10)], ["a", "b", "c"], 2, 100)
    assert sheet.dtype == np.uint8
    assert sheet.shape == (2 * 112, 200, 3)
    assert sheet[50, 50].tolist() == [100] * 3
    assert sheet[50, 150].tolist() == [150] * 3
    assert sheet[10, 150].tolist() == list(BACKGROUND)
    assert sheet[112 + 50, 50].tolist() == [200] * 3
    assert sheet[112 + 50, 10].tolist() == list(BACKGROUND)


def test_captions_are_written_below_their_picture_and_end_at_the_cell():
    blank = contact_sheet([shade(0, 9, 9)] * 2, ["", ""], 2, 80)
    written = contact_sheet([shade(0, 9, 9)] * 2, ["a caption much wider than its cell", ""], 2, 80)
    rows, columns = np.nonzero((blank != written).any(axis=2))
    assert rows.size
    assert rows.min() >= 80
    assert columns.max() < 80


@pytest.mark.parametrize(("captions", "columns"), [(["a"], 1), (["a", "b"], 0)])
def test_a_caption_too_few_or_no_columns_is_refused(captions, columns):
    with pytest.raises(ValueError, match="one caption each"):
        contact_sheet([shade(0, 9, 9)] * 2, captions, columns, 80)
