from collections import Counter

import pytest
from mini_fpus23 import (
    FRAMES,
    PLANES,
    SIZE,
    STREAMS,
    TAGGED_TWICE,
    boxes_of,
    cvat,
    image,
    tag,
    tags_of,
    write_mini_fpus23,
    write_mini_fpus23_repository,
)
from PIL import Image

from medvl.benchmark.groups import normalise_group
from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.fpus23 import FPUS23
from medvl.sources.record import Domain, Task

LEGS = "stream_hdvf_aroundlegs_v"


@pytest.fixture
def archive(tmp_path):
    return write_mini_fpus23(tmp_path / "root" / "fpus23" / "archive")


@pytest.fixture
def repository(tmp_path):
    return write_mini_fpus23_repository(tmp_path / "root" / "FPUS23")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def frames_of(scan):
    return [r for r in scan.records if not r.record_id.startswith("Dataset_Plane")]


def rewrite(folder, layout: str, stream: str, *bodies: str) -> None:
    """Put frames 0, 1, ... with these bodies into the annotation file of a stream."""
    path = folder / layout / stream / "annotations.xml"
    path.write_text(cvat([image(number, body) for number, body in enumerate(bodies)]))


def test_frames_come_by_stream_and_number_although_the_files_run_backwards(archive):
    scan = FPUS23.scan(archive)
    assert [r.record_id for r in frames_of(scan)] == [
        f"{stream}/frame_{number:06d}.png" for stream in sorted(STREAMS) for number in range(FRAMES)
    ]
    assert scan.warnings == []
    assert {r.domain for r in scan.records} == {Domain.PHANTOM}
    assert {r.source for r in scan.records} == {"fpus23"}
    assert all(r.is_present and r.official_split is None for r in scan.records)


def test_a_frame_carries_its_pose_its_boxes_and_its_stream(archive):
    record = by_id(FPUS23.scan(archive))[f"{LEGS}/frame_000001.png"]
    assert record.labels == {Task.FO: "hdvf"}
    assert [(s.label, *s.bbox_xyxy_px) for s in record.structures] == STREAMS[LEGS]
    assert record.group == LEGS
    assert record.meta == {"view": "legs"}
    assert record.where == f"Dataset/annos/annotation/{LEGS}/annotations.xml, frame_000001.png"
    assert read_picture(record.picture).shape == (*SIZE[::-1], 3)


def test_two_boxes_of_one_label_give_two_structures_and_long_recordings_none(archive):
    frames = frames_of(FPUS23.scan(archive))
    labels = Counter(s.label for r in frames for s in r.structures)
    assert labels == {"arm": 2 * FRAMES, "legs": 2 * FRAMES, "head": FRAMES, "abdomen": 2 * FRAMES}
    assert not any(r.structures for r in frames if "longrec" in r.group)
    assert Counter(r.labels[Task.FO] for r in frames) == dict.fromkeys(("hdvb", "hdvf", "huvb", "huvf"), FRAMES)


def test_both_layouts_give_the_same_frames_but_for_the_pictures(archive, repository):
    def facts(folder):
        frames = frames_of(FPUS23.scan(folder))
        return [(r.record_id, r.group, r.labels, set(r.structures), r.meta) for r in frames]

    assert facts(repository) == facts(archive)
    scan = FPUS23.scan(repository)
    assert not any(r.is_present for r in scan.records)
    assert scan.warnings == []


def test_the_archive_completes_a_repository_it_lies_in(repository):
    write_mini_fpus23(repository / "archive")
    scan = FPUS23.scan(repository)
    assert all(r.is_present for r in scan.records)
    assert len(scan.records) == len(STREAMS) * FRAMES + sum(map(len, PLANES.values()))


def test_pictures_beside_the_annotations_of_the_repository_are_found(repository, archive):
    for stream in STREAMS:
        for path in (archive / "Dataset/four_poses" / stream).iterdir():
            path.rename(repository / "annotation" / stream / path.name)
    assert all(r.is_present for r in FPUS23.scan(repository).records)


def test_a_pose_tagged_twice_is_one_label(archive):
    assert tags_of(TAGGED_TWICE).count("Orientation") == 2
    record = by_id(FPUS23.scan(archive))[f"{TAGGED_TWICE}/frame_000000.png"]
    assert record.labels == {Task.FO: "huvb"}


def test_two_poses_of_one_frame_are_refused(archive, repository):
    rewrite(repository, "annotation", LEGS, tags_of(LEGS), tags_of(LEGS) + tag("Orientation", "Pose", "huvf"))
    with pytest.raises(DataError, match=rf"{LEGS}/annotations\.xml, frame_000001\.png: .*found hdvf and huvf"):
        FPUS23.scan(repository)
    # The same where the two layers of the archive disagree.
    rewrite(archive, "Dataset/boxes/annotation", LEGS, tag("Orientation", "Pose", "hdvb"))
    with pytest.raises(DataError, match=rf"{LEGS}/annotations\.xml, frame_000000\.png: .*found hdvf and hdvb"):
        FPUS23.scan(archive)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (tag("Orientation", "Pose", "sideways"), "expected Pose to be one of hdvb, .*found 'sideways'"),
        (boxes_of(LEGS).replace('"legs"', '"tail"'), "expected the label of a box to be one of head, .*found 'tail'"),
    ],
)
def test_unknown_labels_are_refused(repository, body, message):
    rewrite(repository, "annotation", LEGS, body)
    with pytest.raises(DataError, match=rf"annotation/{LEGS}/annotations\.xml, frame_000000\.png: {message}"):
        FPUS23.scan(repository)


def test_a_broken_annotation_file_is_named(repository):
    path = repository / "annotation" / LEGS / "annotations.xml"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=rf"{LEGS}/annotations\.xml: expected a whole XML file"):
        FPUS23.scan(repository)


def test_frames_are_known_by_number_whatever_folder_the_export_names(repository):
    path = repository / "annotation" / LEGS / "annotations.xml"
    expected = FPUS23.scan(repository).records
    path.write_text(path.read_text().replace('name="frame_', f'name="four_poses\\{LEGS}\\frame_'))
    assert FPUS23.scan(repository).records == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("frame_000001.png", "picture1.png", "expected frame names such as .*found 'picture1.png'"),
        ("frame_000001.png", "frame_000000.PNG", "expected each frame once, found frame_000000.png again"),
        ("frame_000001.png", "frame_0.png", "expected each frame once, found frame_000000.png again"),
        ("frame_000001.png", f"frame_{'1' * 5000}.png", "expected frame names such as"),
    ],
)
def test_frame_names_that_the_dataset_does_not_have_are_refused(repository, old, new, message):
    path = repository / "annotation" / LEGS / "annotations.xml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DataError, match=rf"{LEGS}/annotations\.xml: {message}"):
        FPUS23.scan(repository)


def test_a_partial_copy_marks_absent_pictures_and_finds_upper_case_endings(archive):
    place = archive / "Dataset/four_poses" / LEGS
    (place / "frame_000000.png").unlink()
    (place / "frame_000001.png").rename(place / "frame_000001.PNG")
    records = by_id(FPUS23.scan(archive))
    assert [r.record_id for r in records.values() if not r.is_present] == [f"{LEGS}/frame_000000.png"]
    assert records[f"{LEGS}/frame_000000.png"].structures
    assert records[f"{LEGS}/frame_000001.png"].picture == place / "frame_000001.PNG"


def test_what_does_not_fit_together_is_named(archive):
    place = archive / "Dataset/four_poses"
    (place / LEGS / "frame_000099.png").touch()
    (place / LEGS / "copy.png").touch()
    (place / "stream_hdvf_new_h").mkdir()
    (place / "stream_hdvf_new_h" / "frame_000000.png").touch()
    rewrite(archive, "Dataset/annos/annotation", "stream_huvf_longrec_v", "", tag("Orientation", "Pose", "huvb"))
    scan = FPUS23.scan(archive)
    assert len(scan.warnings) == 5
    for sentence in (
        "1 stream (stream_hdvf_new_h) without annotations.xml",
        f"{LEGS}: 1 picture (frame_000099.png) that annotations.xml does not name",
        f"{LEGS}: 1 picture (copy.png) not named as the frames are",
        "stream_huvf_longrec_v: 2 frames (frame_000000.png, frame_000002.png) without an Orientation tag",
        "stream_huvf_longrec_v: 1 frame (frame_000001.png huvb) tagged with another pose than the stream is named for",
    ):
        assert any(sentence in warning for warning in scan.warnings), sentence
    records = by_id(scan)
    assert records[f"{LEGS}/frame_000099.png"].labels == {}
    assert records["stream_huvf_longrec_v/frame_000001.png"].labels == {Task.FO: "huvb"}


def test_a_stream_that_is_a_link_out_of_the_dataset_is_not_followed(archive, tmp_path):
    (archive / "Dataset/four_poses" / LEGS).rename(tmp_path / "elsewhere")
    (archive / "Dataset/four_poses" / LEGS).symlink_to(tmp_path / "elsewhere")
    scan = FPUS23.scan(archive)
    assert {r.group for r in scan.records if not r.is_present} == {LEGS}
    assert [w for w in scan.warnings if f"{LEGS} is a link out of the dataset" in w] == scan.warnings


def test_boxes_of_resized_pictures_are_not_used_and_named(archive):
    for path in (archive / "Dataset/four_poses" / LEGS).iterdir():
        Image.new("L", (SIZE[0] // 2, SIZE[1] // 2)).save(path)
    scan = FPUS23.scan(archive)
    structured = {r.group for r in scan.records if r.structures}
    assert LEGS not in structured
    assert len(structured) == 2
    assert by_id(scan)[f"{LEGS}/frame_000000.png"].labels == {Task.FO: "hdvf"}
    (warning,) = scan.warnings
    assert "frame_000000.png has 42 x 24 px, its boxes are counted in 84 x 48 px: no box of this stream" in warning


def test_a_broken_picture_is_kept_for_the_build_to_refuse(archive):
    place = archive / "Dataset/four_poses" / LEGS
    (place / "frame_000000.png").write_text("<html>")
    scan = FPUS23.scan(archive)
    assert scan.warnings == []
    assert by_id(scan)[f"{LEGS}/frame_000000.png"].structures


def test_plane_pictures_carry_the_name_of_their_folder_but_for_no_plane(archive):
    planes = [r for r in FPUS23.scan(archive).records if r.record_id.startswith("Dataset_Plane")]
    assert [(r.record_id, r.labels) for r in planes] == [
        (f"Dataset_Plane/{plane}/{number}.png", {} if plane == "NO_PLANE" else {Task.PI: plane})
        for plane, numbers in PLANES.items()
        for number in numbers
    ]
    assert not any(r.structures for r in planes)


def groups_of_planes(archive, plane: str) -> dict[str, str]:
    return {
        r.picture.name: normalise_group("fpus23", r.group, r.where)
        for r in FPUS23.scan(archive).records
        if f"Dataset_Plane/{plane}/" in r.record_id
    }


def test_plane_pictures_of_one_hundred_of_numbers_share_a_group_and_planes_do_not(archive):
    groups = groups_of_planes(archive, "AC_PLANE")
    assert groups["1.png"] == groups["2.png"] != groups["101.png"]
    assert groups["1.png"] not in groups_of_planes(archive, "BPD_PLANE").values()


def test_plane_pictures_named_for_a_stream_share_its_group(archive):
    place = archive / "Dataset_Plane/AC_PLANE"
    (place / "1.png").rename(place / f"{LEGS}_frame_000001.png")
    (place / "2.png").rename(place / "sweep7_frame_2.png")
    (place / "101.png").rename(place / "sweep70_frame_3.png")
    groups = groups_of_planes(archive, "AC_PLANE")
    assert groups[f"{LEGS}_frame_000001.png"] == normalise_group("fpus23", LEGS, "")
    assert len(set(groups.values())) == 3


def test_lacking_and_unknown_planes_are_named(archive):
    (archive / "Dataset_Plane/FL_PLANE").rename(archive / "Dataset_Plane/HC_PLANE")
    warnings = FPUS23.scan(archive).warnings
    assert any("no pictures of FL_PLANE" in warning for warning in warnings)
    assert any("1 folder (HC_PLANE) that the dataset does not have" in warning for warning in warnings)
    assert len(warnings) == 2


def test_an_archive_that_was_not_unpacked_is_named(repository):
    (repository / "FPUS23_Dataset.zip").touch()
    assert FPUS23.scan(repository).warnings == [
        f"{repository / 'FPUS23_Dataset.zip'} is not unpacked: expected pictures, found none. Unpack it there."
    ]


def test_the_archive_alone_is_found_and_named(tmp_path):
    (tmp_path / "FPUS23_Dataset.zip").touch()
    assert FPUS23.find(tmp_path) == tmp_path
    scan = FPUS23.scan(tmp_path)
    assert scan.records == []
    assert "FPUS23_Dataset.zip is not unpacked" in scan.warnings[0]


def test_the_dataset_is_found_in_each_layout_and_not_elsewhere(archive, repository, tmp_path_factory):
    assert FPUS23.find(archive.parents[1]) == repository  # one level down, before the archive two levels down
    assert FPUS23.find(archive.parent) == FPUS23.find(archive) == archive
    planes = tmp_path_factory.mktemp("planes")
    (archive / "Dataset_Plane").rename(planes / "Dataset_Plane")
    assert FPUS23.find(planes) == planes
    other = tmp_path_factory.mktemp("other")
    (other / "annotation" / "video1").mkdir(parents=True)
    assert FPUS23.find(other) is None


REAL = {
    # stream: frames, pose, boxes
    "stream_hdvb_aroundabd_h": (361, "hdvb", {"arm": 485, "abdomen": 361, "head": 16}),
    "stream_hdvb_aroundhead_v": (360, "hdvb", {"abdomen": 360, "head": 356, "arm": 132}),
    "stream_hdvf_aroundlegs_h": (285, "hdvf", {"legs": 539, "abdomen": 273}),
    "stream_hdvf_longrec_v": (339, "hdvf", {}),
    "stream_huvb_longrec_h": (597, "huvb", {}),
    "stream_huvf_aroundabd_v": (319, "huvf", {"abdomen": 319, "legs": 93}),
}


def test_the_real_files_are_read(shared_data):
    folder = FPUS23.find(shared_data)
    assert folder == shared_data / "fpus23"
    scan = FPUS23.scan(folder)
    assert scan.warnings == []
    assert not any(r.is_present for r in scan.records)
    found = {}
    for stream in REAL:
        records = [r for r in scan.records if r.group == stream]
        (pose,) = {r.labels[Task.FO] for r in records}
        found[stream] = (len(records), pose, dict(Counter(s.label for r in records for s in r.structures)))
        assert [r.record_id for r in records] == [f"{stream}/frame_{n:06d}.png" for n in range(len(records))]
    assert found == REAL
    assert len(scan.records) == sum(frames for frames, _, _ in REAL.values())
    first = by_id(scan)["stream_hdvf_aroundlegs_h/frame_000000.png"]
    assert [(s.label, s.bbox_xyxy_px) for s in first.structures] == [
        ("legs", (178.90, 131.00, 302.90, 218.60)),
        ("legs", (242.29, 49.68, 344.04, 90.86)),
        ("abdomen", (228.57, 113.05, 392.77, 233.30)),
    ]
    assert first.meta == {"view": "legs"}
