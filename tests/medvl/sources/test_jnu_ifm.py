import numpy as np
import pytest
from mini_jnu_ifm import ABSENT, BOXES, SHAPE, SHOWN, VIDEOS, write_mini_jnu_ifm
from PIL import Image

from medvl.benchmark.groups import normalise_group
from medvl.errors import DataError
from medvl.imaging.reading import picture_size, read_picture
from medvl.sources.jnu_ifm import JNU_IFM
from medvl.sources.record import Domain

LONG, SHORT = VIDEOS
NAMES = {7: "pubic symphysis", 8: "fetal head"}


@pytest.fixture
def mini_jnu(tmp_path):
    return write_mini_jnu_ifm(tmp_path / "root" / "JNU-IFM")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def add_row(folder, row, video=LONG):
    with (folder / video / "frame_label.csv").open("a") as table:
        table.write(f"{row}\n")


def test_every_row_gives_a_record_video_by_video(mini_jnu):
    scan = JNU_IFM.scan(mini_jnu)
    expected = [f"{video}/image/{video}_{frame}.png" for video, frames in VIDEOS.items() for frame in frames]
    assert [record.record_id for record in scan.records] == expected
    assert scan.warnings == []
    assert all(r.source == "jnu_ifm" and r.domain is Domain.CLINICAL and not r.labels for r in scan.records)
    present = [r for r in scan.records if r.is_present]
    assert len(present) == len(expected) - 1
    assert all(read_picture(r.picture).shape == (*SHAPE, 3) for r in present)
    assert scan.records[1].where == f"{LONG}/frame_label.csv row 3"


@pytest.mark.parametrize(("frame", "label"), VIDEOS[LONG].items())
def test_a_frame_carries_what_its_label_calls_visible(mini_jnu, frame, label):
    record = by_id(JNU_IFM.scan(mini_jnu))[f"{LONG}/image/{LONG}_{frame}.png"]
    assert [s.label for s in record.structures] == [NAMES[level] for level in SHOWN[label]]
    for structure in record.structures:
        assert structure.mask.path == mini_jnu / LONG / "mask" / f"{LONG}_{frame}_mask.png"
        ys, xs = np.nonzero(np.asarray(Image.open(structure.mask.path)) == structure.mask.value)
        level = structure.mask.value
        assert NAMES[level] == structure.label
        assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == BOXES[level]


def test_frames_of_a_video_are_one_group(mini_jnu):
    groups = {r.record_id.partition("/")[0]: set() for r in JNU_IFM.scan(mini_jnu).records}
    for record in JNU_IFM.scan(mini_jnu).records:
        groups[record.record_id.partition("/")[0]].add(normalise_group("jnu_ifm", record.group, record.where))
    assert all(len(found) == 1 for found in groups.values())
    assert len(set.union(*groups.values())) == len(VIDEOS)


def test_a_listed_frame_without_a_file_is_absent(mini_jnu):
    video, frame = ABSENT
    absent = [r for r in JNU_IFM.scan(mini_jnu).records if not r.is_present]
    assert [r.picture for r in absent] == [mini_jnu / video / "image" / f"{video}_{frame}.png"]


def test_the_other_name_of_the_table_is_known(mini_jnu):
    before = JNU_IFM.scan(mini_jnu)
    for video in VIDEOS:
        (mini_jnu / video / "frame_label.csv").rename(mini_jnu / video / "framelabel.csv")
    assert list(by_id(JNU_IFM.scan(mini_jnu))) == list(by_id(before))


def test_padded_frame_numbers_name_the_same_file(mini_jnu):
    table = mini_jnu / LONG / "frame_label.csv"
    table.write_text(table.read_text().replace("\n10,", "\n0010,"))
    assert by_id(JNU_IFM.scan(mini_jnu))[f"{LONG}/image/{LONG}_10.png"].is_present


def test_a_picture_without_a_row_is_left_out_and_named(mini_jnu):
    source = mini_jnu / LONG / "image" / f"{LONG}_0.png"
    source.with_name(f"{LONG}_7.png").write_bytes(source.read_bytes())
    scan = JNU_IFM.scan(mini_jnu)
    assert f"{LONG}/image/{LONG}_7.png" not in by_id(scan)
    assert f"1 picture ({LONG}_7.png) without a row in frame_label.csv" in scan.warnings[0]


def test_a_missing_mask_is_named_where_something_is_visible(mini_jnu):
    for frame in (0, 30):  # frame 0 shows nothing
        (mini_jnu / LONG / "mask" / f"{LONG}_{frame}_mask.png").unlink()
    scan = JNU_IFM.scan(mini_jnu)
    assert by_id(scan)[f"{LONG}/image/{LONG}_30.png"].structures == ()
    (warning,) = scan.warnings
    assert f"1 picture ({LONG}_30.png) without a mask" in warning


def test_a_video_without_a_table_is_named(mini_jnu):
    (mini_jnu / SHORT / "frame_label.csv").unlink()
    scan = JNU_IFM.scan(mini_jnu)
    assert {r.group for r in scan.records} == {LONG}
    assert f"{SHORT}: no frame_label.csv" in scan.warnings[0]


def test_a_frame_with_two_labels_is_refused(mini_jnu):
    add_row(mini_jnu, "10,6")
    with pytest.raises(DataError, match=r"row 7: expected frame_label '4' for frame 10 as in row 3, found '6'"):
        JNU_IFM.scan(mini_jnu)


def test_a_repeated_row_counts_once_and_is_named_with_its_video(mini_jnu):
    add_row(mini_jnu, "10,4")
    scan = JNU_IFM.scan(mini_jnu)
    assert len(scan.records) == sum(map(len, VIDEOS.values()))
    assert f"{LONG}: frame_label.csv: 1 row (row 7) repeated" in scan.warnings[0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("40,7", "expected frame_label to be one of 3, 4, 5, 6, found '7'"),
        ("40,both", "expected frame_label to be one of 3, 4, 5, 6, found 'both'"),
        ("4O,6", "expected frame_id to be a frame number, found '4O'"),
        (f"{'4' * 5000},6", "expected frame_id to be a frame number"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_with_video_and_row(mini_jnu, row, message):
    add_row(mini_jnu, row)
    with pytest.raises(DataError, match=rf"{LONG}/frame_label\.csv row 7: {message}"):
        JNU_IFM.scan(mini_jnu)


def test_a_table_without_labels_is_refused(mini_jnu):
    table = mini_jnu / LONG / "frame_label.csv"
    table.write_text(table.read_text().replace("frame_label", "label"))
    with pytest.raises(DataError, match=rf"{LONG}.*frame_label\.csv: expected column\(s\) 'frame_label'"):
        JNU_IFM.scan(mini_jnu)


def test_a_link_out_of_the_dataset_is_not_followed(mini_jnu):
    outside = mini_jnu.parents[2] / "outside"
    (mini_jnu / SHORT).rename(outside)
    (mini_jnu / SHORT).symlink_to(outside)
    scan = JNU_IFM.scan(mini_jnu)
    assert {r.group for r in scan.records} == {LONG}
    assert "is a link out of the dataset" in scan.warnings[0]


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(mini_jnu, tmp_path_factory):
    root = mini_jnu.parents[1]
    assert JNU_IFM.find(root) == JNU_IFM.find(root / "JNU-IFM") == JNU_IFM.find(mini_jnu) == mini_jnu
    renamed = mini_jnu.rename(root / "videos")
    assert JNU_IFM.find(root) == renamed
    assert JNU_IFM.find(tmp_path_factory.mktemp("empty")) is None


def test_an_archive_that_was_not_unpacked_is_named(tmp_path):
    (tmp_path / "us_data").mkdir()
    (tmp_path / "us_data" / "JNU-IFM.zip").touch()
    scan = JNU_IFM.scan(JNU_IFM.find(tmp_path))
    assert scan.records == []
    assert "JNU-IFM.zip is not unpacked" in scan.warnings[0]


def test_the_real_frame_has_the_published_size_and_no_layout_around_it(shared_data):
    assert picture_size(shared_data / "jnu_ifm/img12.png") == (1295, 1026)
    assert JNU_IFM.find(shared_data / "jnu_ifm") is None
