import re

import cv2
import numpy as np
import pytest
from mini_iugc2024 import (
    ABSENT,
    BOXES,
    ON_DISK,
    SIZE,
    TEST,
    TRAIN,
    VAL,
    mask_name,
    write_mask,
    write_mini_iugc2024,
)
from PIL import Image

from medvl.benchmark.groups import normalise_group
from medvl.errors import DataError
from medvl.sources.iugc2024 import FRAMES_PER_LABEL, IUGC2024
from medvl.sources.record import Domain, Split, Task

SETS = {"train": TRAIN, "val": VAL, "test": TEST}
STANDARD, NON_STANDARD = "standard plane", "non-standard plane"
POSITIVE, SHORT, NEGATIVE, LOST_CHARACTERS = TRAIN
(VALIDATION,) = VAL
FIRST_TEST, PLAIN_TEST, _ = TEST


@pytest.fixture
def mini(tmp_path):
    return write_mini_iugc2024(tmp_path / "root" / "iugc")


def of(scan, video):
    return {r.frame: r for r in scan.records if f"/{video}.avi#" in r.record_id}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_every_video_gives_frames_and_ids_are_unique(mini):
    scan = IUGC2024.scan(mini)
    assert scan.warnings == []
    assert len({r.record_id for r in scan.records}) == len(scan.records)
    assert all(of(scan, video) for videos in SETS.values() for video in videos)
    assert all(r.source == "iugc2024" and r.domain is Domain.CLINICAL for r in scan.records)
    assert [r.record_id for r in scan.records] == [r.record_id for r in IUGC2024.scan(mini).records]


def test_a_training_video_has_one_label_for_all_its_frames(mini):
    scan = IUGC2024.scan(mini)
    assert {r.labels[Task.VC] for r in of(scan, POSITIVE).values()} == {STANDARD}
    assert {r.labels[Task.VC] for r in of(scan, NEGATIVE).values()} == {NON_STANDARD}


def test_other_sets_give_the_label_of_each_listed_frame(mini):
    scan = IUGC2024.scan(mini)
    labels = {frame: r.labels for frame, r in of(scan, FIRST_TEST).items()}
    assert labels == {f: {Task.VC: NON_STANDARD if f < 3 else STANDARD} for f in (0, 1, 2, 6, 7, 8, 9)}
    assert {f: r.labels[Task.VC] for f, r in of(scan, PLAIN_TEST).items()} == dict.fromkeys(range(8), NON_STANDARD)
    assert len(of(scan, VALIDATION)) == 12


def test_of_long_videos_masked_frames_and_evenly_spread_others_are_taken(mini):
    scan = IUGC2024.scan(mini)
    frames = list(of(scan, NEGATIVE))
    assert len(frames) == FRAMES_PER_LABEL == 10
    assert set(np.diff(frames)) == {3}
    assert frames[0] < 3
    assert frames[-1] >= 27
    positive = list(of(scan, POSITIVE))
    assert len(positive) == 10
    assert {0, 6, 13} <= set(positive)
    assert list(of(scan, SHORT)) == [0, 1, 2, 3, 4]


def test_the_mask_of_a_frame_marks_both_structures(mini):
    scan = IUGC2024.scan(mini)
    masked = {(r.record_id.partition(".avi#")[0], r.frame): r for r in scan.records if r.structures}
    expected = {
        (f"{name}/videos/{video}", f): mini / name / "seg" / mask_name(name, video, f)
        for name, videos in SETS.items()
        for video, (*_, frames) in videos.items()
        for f in frames
    }
    assert {key: r.structures[0].mask.path for key, r in masked.items()} == expected
    for record in masked.values():
        for structure in record.structures:
            ys, xs = np.nonzero(np.asarray(Image.open(structure.mask.path)) == structure.mask.value)
            assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == BOXES[structure.label]


def test_levels_of_the_challenge_sample_are_known(tmp_path):
    mini = write_mini_iugc2024(tmp_path, levels=(7, 8))
    levels = {tuple(s.mask.value for s in r.structures) for r in IUGC2024.scan(mini).records if r.structures}
    assert levels == {(7, 8)}


def test_coloured_masks_are_refused(mini):
    write_mask(mini / "test/seg" / mask_name("test", FIRST_TEST, 9), (76, 150))
    with pytest.raises(DataError, match=rf"{FIRST_TEST}\.png: expected the levels 1 and 2 .*found 76, 150"):
        IUGC2024.scan(mini)


def test_a_damaged_mask_leaves_the_scan_whole(mini):
    (mini / "train/seg" / mask_name("train", POSITIVE, 0)).write_bytes(b"damaged")
    assert of(IUGC2024.scan(mini), POSITIVE)[0].structures[0].mask.value == 1


@pytest.mark.parametrize("video", [*TRAIN, VALIDATION, FIRST_TEST, PLAIN_TEST])
def test_the_file_of_a_video_is_found_under_the_name_it_has_on_disk(mini, video):
    records = of(IUGC2024.scan(mini), video)
    path = next(iter(records.values())).picture
    assert path.stem == ON_DISK.get(video, video)
    assert all(r.is_present and r.picture == path for r in records.values())
    capture = cv2.VideoCapture(str(path))
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) > max(records)
    assert capture.read()[1].shape == (SIZE, SIZE, 3)


@pytest.mark.parametrize("name", ["20190830T115644__B_#U4ea7#U79d1_tmp_0", "20190830T115644__B_▓·┐╞_tmp_0"])
def test_names_that_unpacking_has_mangled_are_found(mini, name):
    videos = mini / "train/videos"
    (videos / f"{ON_DISK[LOST_CHARACTERS]}.avi").rename(videos / f"{name}.AVI")
    scan = IUGC2024.scan(mini)
    assert all(r.is_present for r in of(scan, LOST_CHARACTERS).values())
    assert scan.warnings == []


def test_a_table_in_the_encoding_of_its_authors_is_read(mini):
    for table in (mini / "train/cls/class_label.csv",):
        table.write_bytes(table.read_text().replace("__B_tmp_0", "__B_产科_tmp_0").encode("gbk"))
    scan = IUGC2024.scan(mini)
    negative = [r for r in scan.records if r.record_id.startswith("train/videos/20190830T115644")]
    assert len(negative) == 6
    assert all(r.is_present for r in negative)


def test_files_that_could_be_two_videos_are_taken_for_none(mini):
    videos = mini / "train/videos"
    source = videos / f"{ON_DISK[LOST_CHARACTERS]}.avi"
    (videos / "20190830T115644__B_妇科_tmp_0.avi").write_bytes(source.read_bytes())
    scan = IUGC2024.scan(mini)
    assert not any(r.is_present for r in of(scan, LOST_CHARACTERS).values())
    assert re.search(r"2 videos \(.*\) without a row in cls/class_label\.csv", scan.warnings[0])


def test_a_listed_video_without_a_file_is_absent(mini):
    scan = IUGC2024.scan(mini)
    absent = [r for r in scan.records if not r.is_present]
    assert [(r.record_id, r.frame) for r in absent] == [(f"test/videos/{ABSENT}.avi#{f}", f) for f in (0, 3)]


def test_clips_of_a_recording_share_their_group(mini):
    scan = IUGC2024.scan(mini)
    groups = {video: {normalise_group("iugc2024", r.group, "") for r in of(scan, video).values()} for video in TRAIN}
    assert all(len(found) == 1 for found in groups.values())
    assert groups[POSITIVE] == groups[SHORT]
    assert len(set.union(*groups.values())) == 3
    assert len({r.group for r in scan.records if r.official_split is Split.TEST}) == len(TEST)


def test_the_published_validation_set_stands_on_the_training_side(mini):
    sides = {r.record_id.partition("/")[0]: r.official_split for r in IUGC2024.scan(mini).records}
    assert sides == {"train": Split.TRAIN, "val": Split.TRAIN, "test": Split.TEST}


def test_a_training_video_with_single_frames_listed_gives_no_label(mini):
    edit(mini / "train/cls/class_label.csv", f'{POSITIVE}.avi,14,"ALL","NONE"', f'{POSITIVE}.avi,14,"[0, 6]","NONE"')
    scan = IUGC2024.scan(mini)
    assert {f: r.labels for f, r in of(scan, POSITIVE).items()} == {0: {}, 6: {}, 13: {}}
    assert all(r.structures for r in of(scan, POSITIVE).values())
    assert f"1 video ({POSITIVE}) without a usable label" in scan.warnings[0]


def test_a_listed_mask_that_is_absent_is_named(mini):
    (mini / "train/seg" / mask_name("train", POSITIVE, 6)).unlink()
    scan = IUGC2024.scan(mini)
    assert f"1 listed mask ({POSITIVE} frame 6) absent" in scan.warnings[0]
    assert {f for f, r in of(scan, POSITIVE).items() if r.structures} == {0, 13}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('10,"[6, 7, 8, 9]"', '10,"[6, 7, 10]"', "expected frames below frame_count 10 in pos_index, found 10"),
        ('10,"[6, 7, 8, 9]"', '10,"[2, 7]"', "expected each frame under one of pos_index and neg_index, found frame 2"),
        ('10,"[6, 7, 8, 9]"', '10,"[6, x]"', "expected whole numbers in pos_index, found 'x'"),
        ('10,"[6, 7, 8, 9]"', 'ten,"[6]"', "expected whole numbers in frame_count, found 'ten'"),
        ('10,"[6, 7, 8, 9]"', "20190909155747,ALL", "expected a frame_count of at most 100,000, found 20190909155747"),
        ('10,"[6, 7, 8, 9]"', '10,"-1"', "expected whole numbers in pos_index, found '-1'"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(mini, old, new, message):
    edit(mini / "test/cls/cls_label.csv", old, new)
    with pytest.raises(DataError, match=rf"cls_label\.csv row 2 .{FIRST_TEST}\.avi.: {message}"):
        IUGC2024.scan(mini)


def test_a_video_listed_twice_with_other_frames_is_refused(mini):
    with (mini / "test/cls/cls_label.csv").open("a") as table:
        table.write(f'{PLAIN_TEST}.avi,8,ALL,NONE\n{FIRST_TEST}.avi,10,"[6, 7, 8, 9]","[0, 1, 2]"\n')
    with pytest.raises(DataError, match=r"row 5: expected pos_index 'NONE' for test_11_2 as in row 3, found 'ALL'"):
        IUGC2024.scan(mini)


def test_a_table_of_masks_without_frames_is_refused(mini):
    edit(mini / "val/seg/seg_info.csv", "labeled_frame_index", "frames")
    with pytest.raises(DataError, match=r"seg_info\.csv row 2: expected a column labeled_index or labeled_frame_index"):
        IUGC2024.scan(mini)


def test_a_release_without_test_labels_is_read_and_named(mini):
    (mini / "test/cls/cls_label.csv").unlink()
    (mini / "val").rename(mini.parents[1] / "elsewhere")
    scan = IUGC2024.scan(mini)
    assert any("no folder val" in warning for warning in scan.warnings)
    assert any("no cls/cls_label.csv" in warning for warning in scan.warnings)
    assert not any(r.labels for r in scan.records if r.official_split is Split.TEST)


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(mini, tmp_path_factory):
    root = mini.parents[1]
    assert IUGC2024.find(root) == IUGC2024.find(mini) == mini
    assert IUGC2024.find(tmp_path_factory.mktemp("empty")) is None
    deep = root / "more" / "zenodo"
    deep.mkdir(parents=True)
    moved = mini.rename(deep / "DatasetV3")
    assert IUGC2024.find(root) == moved
