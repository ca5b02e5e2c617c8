import numpy as np
import pytest
import SimpleITK
from mini_acouslic_ai import BOX, FRAMES, HEIGHT, STACKS, SUBJECTS, WIDTH, write_mini_acouslic_ai, write_stack

from medvl.benchmark.groups import normalise_group
from medvl.errors import DataError
from medvl.sources.acouslic_ai import ACOUSLIC_AI
from medvl.sources.record import Domain, Task

BUSY, LATE, PLAIN, GONE = SUBJECTS
TABLE = "fetal_abdominal_circumferences_per_sweep.csv"


@pytest.fixture
def mini(tmp_path):
    return write_mini_acouslic_ai(tmp_path / "root" / "acouslic")


def mask_path(mini, uuid):
    return mini / f"masks/stacked_fetal_abdomen/{uuid}.mha"


def image_path(mini, uuid):
    return mini / f"images/stacked_fetal_ultrasound/{uuid}.mha"


def of(scan, uuid):
    return [record for record in scan.records if record.picture.stem == uuid]


def edit(mini, old, new):
    table = mini / "circumferences" / TABLE
    table.write_text(table.read_text().replace(old, new))


def test_marked_frames_alone_give_records_in_table_order(mini):
    scan = ACOUSLIC_AI.scan(mini)
    marked = [(r.picture.stem, r.frame) for r in scan.records if r.frame is not None]
    assert marked == [(uuid, frame) for uuid, frames in STACKS.items() for frame in frames]
    assert len({r.record_id for r in scan.records}) == len(scan.records)
    assert scan.warnings == []
    assert all(r.source == "acouslic_ai" and r.domain is Domain.CLINICAL for r in scan.records)
    assert scan.records[0].where == f"{TABLE} row 2, {BUSY}.mha frame 1"


def test_the_level_of_a_mark_is_the_conformity_of_its_frame(mini):
    labels = {r.frame: r.labels for r in of(ACOUSLIC_AI.scan(mini), BUSY)}
    assert labels == {
        1: {Task.VC: "suboptimal"},
        2: {Task.VC: "optimal"},
        3: {Task.VC: "optimal"},
        4: {Task.VC: "suboptimal"},
    }


def test_the_mask_of_a_frame_marks_the_abdomen(mini):
    for record in of(ACOUSLIC_AI.scan(mini), BUSY) + of(ACOUSLIC_AI.scan(mini), LATE):
        (structure,) = record.structures
        assert structure.label == "fetal abdomen"
        assert structure.mask.path == mask_path(mini, record.picture.stem)
        assert structure.mask.frame == record.frame
        stack = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(structure.mask.path)))
        ys, xs = np.nonzero(stack[record.frame] == structure.mask.value)
        assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == BOX


def test_a_stack_without_a_mark_is_one_record_without_a_question(mini):
    (record,) = of(ACOUSLIC_AI.scan(mini), PLAIN)
    assert record.is_present
    assert (record.frame, record.labels, record.structures) == (None, {}, ())


def test_a_listed_stack_without_a_file_is_absent(mini):
    (record,) = of(ACOUSLIC_AI.scan(mini), GONE)
    assert not record.is_present
    assert record.picture == image_path(mini, GONE)


def test_stacks_of_a_subject_share_their_group(mini):
    groups = {r.picture.stem: normalise_group("acouslic_ai", r.group, r.where) for r in ACOUSLIC_AI.scan(mini).records}
    assert groups[BUSY] == groups[LATE]
    assert len(set(groups.values())) == 3


def test_a_frame_with_both_levels_is_left_out_and_named(mini):
    stack = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(mask_path(mini, BUSY))))
    stack[2, 0, 0] = 2
    write_stack(mask_path(mini, BUSY), stack)
    scan = ACOUSLIC_AI.scan(mini)
    assert [r.frame for r in of(scan, BUSY)] == [1, 3, 4]
    assert f"{BUSY}.mha: 1 frame (frame 2) marked both" in scan.warnings[0]


def test_an_unknown_level_is_refused_with_file_and_frame(mini):
    stack = np.zeros((FRAMES, HEIGHT, WIDTH), np.uint8)
    stack[5, 3, 3] = 3
    write_stack(mask_path(mini, LATE), stack)
    with pytest.raises(DataError, match=rf"{LATE}\.mha, frame 5: expected the levels 0, 1 .optimal. and 2 .*found 3"):
        ACOUSLIC_AI.scan(mini)


def test_a_single_picture_instead_of_a_stack_is_refused(mini):
    write_stack(mask_path(mini, LATE), np.zeros((HEIGHT, WIDTH), np.uint8))
    with pytest.raises(DataError, match=rf"{LATE}\.mha: expected a stack of masks, found one of {WIDTH} x {HEIGHT} px"):
        ACOUSLIC_AI.scan(mini)


@pytest.mark.parametrize("damage", ["empty", "text", "cut"])
def test_a_damaged_mask_is_refused_with_its_file(mini, damage):
    path = mask_path(mini, LATE)
    whole = path.read_bytes()
    path.write_bytes({"empty": b"", "text": b"no stack", "cut": whole[:-20]}[damage])
    with pytest.raises(DataError, match=rf"{LATE}\.mha: "):
        ACOUSLIC_AI.scan(mini)


def test_a_stack_without_a_mask_is_named(mini):
    mask_path(mini, LATE).unlink()
    scan = ACOUSLIC_AI.scan(mini)
    assert [r.labels for r in of(scan, LATE)] == [{}]
    assert f"1 stack ({LATE}.mha) without a mask" in scan.warnings[0]


def test_a_stack_without_a_row_is_left_out_and_named(mini):
    edit(mini, f"{LATE},", "other,")
    scan = ACOUSLIC_AI.scan(mini)
    assert of(scan, LATE) == []
    assert f"1 stack ({LATE}.mha) without a row" in scan.warnings[0]


@pytest.mark.parametrize("row", [f"{PLAIN},,1,,,,,", ",7,1,,,,,"])
def test_a_row_without_a_subject_or_a_stack_is_refused(mini, row):
    edit(mini, f"{PLAIN},002,184.5,,,,,", row)
    with pytest.raises(DataError, match=rf"{TABLE} row 4: expected uuid and subject_id"):
        ACOUSLIC_AI.scan(mini)


def test_a_stack_of_two_subjects_is_refused_and_a_repeat_counts_once(mini):
    edit(mini, f"{GONE},003,184.5,,,,,", f"{BUSY},001,170,,,,,")
    scan = ACOUSLIC_AI.scan(mini)
    assert len(of(scan, BUSY)) == len(STACKS[BUSY])
    assert "1 row (row 5) repeated" in scan.warnings[0]
    edit(mini, f"{BUSY},001,170", f"{BUSY},004,170")
    with pytest.raises(DataError, match=rf"{TABLE} row 5: expected subject_id '001' for {BUSY} as in row 2"):
        ACOUSLIC_AI.scan(mini)


def test_a_table_without_subjects_is_refused(mini):
    edit(mini, "subject_id", "subject")
    with pytest.raises(DataError, match=rf"{TABLE}: expected column\(s\) 'subject_id'"):
        ACOUSLIC_AI.scan(mini)


def test_image_stacks_are_not_opened(mini):
    image_path(mini, BUSY).write_bytes(b"damaged")
    assert len(of(ACOUSLIC_AI.scan(mini), BUSY)) == len(STACKS[BUSY])


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(mini, tmp_path_factory):
    root = mini.parents[1]
    assert ACOUSLIC_AI.find(root) == ACOUSLIC_AI.find(mini) == mini
    deep = tmp_path_factory.mktemp("deep")
    assert ACOUSLIC_AI.find(deep) is None
    home = write_mini_acouslic_ai(deep / "sources" / "acouslic")
    assert ACOUSLIC_AI.find(deep) == home


def test_the_real_evaluation_files_are_no_training_set_and_their_mask_no_stack(shared_data, mini):
    home = shared_data / "acouslic_ai"
    assert ACOUSLIC_AI.find(home) is None
    mask_path(mini, LATE).write_bytes((home / "data/fov_mask.mha").read_bytes())
    with pytest.raises(DataError, match=r"expected a stack of masks, found one of 744 x 562 px"):
        ACOUSLIC_AI.scan(mini)
