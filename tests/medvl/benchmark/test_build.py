import json
import os
from collections import Counter
from dataclasses import replace

import pytest
from drawn_source import Shot, draw, drawn_source, write_shots

from medvl.benchmark import build as build_module
from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.item import META_FIELDS
from medvl.benchmark.questions import iou
from medvl.benchmark.store import read_benchmark
from medvl.benchmark.vocabulary import load_vocabulary
from medvl.config.schema import BenchmarkConfig, SplitConfig
from medvl.errors import DataError
from medvl.sources.fetal_planes_db import FETAL_PLANES_DB
from medvl.sources.hc18 import HC18
from medvl.sources.record import Domain, Split, Task

PLANES = ("fetal head", "fetal thorax", "fetal abdomen", "maternal cervix")


def shots(patients=20, first_seed=0, **facts):
    """Two pictures a patient: a plane each, boxes on the second."""
    made = []
    for p in range(patients):
        made.append(Shot(f"Patient{p:04d}_a", f"P{p}", first_seed + 2 * p, {Task.PI: PLANES[p % 4]}, **facts))
        boxes = (("heart", (2, 2, 22, 22)), ("lungs", (2, 2, 22, 20)), ("spine", (40, 20, 60, 40)))
        made.append(Shot(f"Patient{p:04d}_b", f"p0{p} ", first_seed + 2 * p + 1, boxes=boxes, **facts))
    return made


@pytest.fixture
def root(tmp_path):
    return tmp_path / "data root"


def recipe_of(root, *sources, config=None, **facts):
    return Recipe("b", root, sources, config or BenchmarkConfig(), **facts)


def drawn(root, name="s", made=None, **facts):
    made = shots() if made is None else made
    write_shots(root, name, made)
    return drawn_source(name, made, **facts)


def build(root, tmp_path, *sources, **facts):
    return build_benchmark(recipe_of(root, *sources, **facts), tmp_path / "built")


def sides_of(benchmark, source=None):
    sides: dict[str, set[Split]] = {}
    for item in benchmark.items:
        if source in (None, item.source):
            sides.setdefault(item.group, set()).add(item.split)
    return sides


def test_two_builds_are_the_same_byte_for_byte(root, tmp_path):
    recipe = recipe_of(root, drawn(root))
    one, two = build_benchmark(recipe, tmp_path / "one"), build_benchmark(recipe, tmp_path / "two")
    for name in ("items.parquet", "card.json"):
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()


def test_what_the_build_returns_is_what_is_read_back(root, tmp_path):
    built = build(root, tmp_path, drawn(root, made=shots(meta={"device": "E6", "shoe_size": "38"})))
    assert read_benchmark(built.folder) == built
    assert built.items[0].meta == {**dict.fromkeys(META_FIELDS, ""), "device": "E6"}


def test_nothing_is_read_again_when_nothing_changed_and_all_when_a_picture_did(root, tmp_path, monkeypatch):
    source = drawn(root)
    first = build(root, tmp_path, source)
    reads = Counter()
    real = build_module.read_records
    monkeypatch.setattr(build_module, "read_records", lambda *a, **k: reads.update(n=1) or real(*a, **k))
    assert build(root, tmp_path, source) == first
    assert reads["n"] == 0
    draw(root / "s" / "Patient0003_a.png", 999)
    changed = build(root, tmp_path, source)
    assert reads["n"] == 1
    assert changed.fingerprint != first.fingerprint


def test_a_changed_picture_behind_a_linked_folder_is_seen(root, tmp_path):
    write_shots(root / "disk", "s", shots())
    (root / "s").mkdir()
    (root / "s" / "pictures").symlink_to(root / "disk" / "s")
    made = [replace(shot, name=f"pictures/{shot.name}") for shot in shots()]
    source = drawn_source("s", made)
    first = build(root, tmp_path, source)
    draw(root / "disk" / "s" / "Patient0003_a.png", 999)
    assert build(root, tmp_path, source).fingerprint != first.fingerprint


def test_a_link_that_leads_in_circles_does_no_harm(root, tmp_path):
    source = drawn(root)
    (root / "s" / "again").symlink_to(root / "s")
    assert build(root, tmp_path, source).items


def test_a_benchmark_built_inside_the_data_is_no_input_of_the_next(root, monkeypatch):
    recipe = recipe_of(root, drawn(root))
    first = build_benchmark(recipe, root / "s" / "built")
    monkeypatch.setattr(build_module, "read_records", lambda *a, **k: pytest.fail("read again"))
    assert build_benchmark(recipe, root / "s" / "built") == first


def test_a_benchmark_of_another_version_is_built_anew(root, tmp_path):
    source = drawn(root)
    first = build(root, tmp_path, source)
    card = json.loads((first.folder / "card.json").read_text())
    (first.folder / "card.json").write_text(json.dumps({**card, "schema_version": 0}))
    assert build(root, tmp_path, source) == first


def test_other_settings_replace_the_items(root, tmp_path):
    source = drawn(root)
    first = build(root, tmp_path, source)
    assert build(root, tmp_path, source, config=BenchmarkConfig(seed=1)).fingerprint != first.fingerprint


def test_a_relative_data_root_works(root, tmp_path, monkeypatch):
    source = drawn(root)
    monkeypatch.chdir(tmp_path)
    items = build_benchmark(recipe_of(root.relative_to(tmp_path), source), tmp_path / "built").items
    assert {item.picture.split("/")[0] for item in items} == {"s"}


def test_spellings_of_a_patient_stay_on_one_side_and_all_sides_exist(root, tmp_path):
    sides = sides_of(build(root, tmp_path, drawn(root)))
    assert len(sides) == 20
    assert all(len(side) == 1 for side in sides.values())
    assert set().union(*sides.values()) == set(Split)


def test_items_are_consistent(root, tmp_path):
    for item in build(root, tmp_path, drawn(root)).items:
        conflicts = load_vocabulary()[item.task].conflicts
        assert item.options[item.answer_index] == item.answer
        assert len(set(item.options)) == len(item.options)
        assert not any(a in conflicts[b] for a in item.options for b in item.options)
        assert item.answer in item.labels
        if item.task is Task.VG:
            x0, y0, x1, y1 = item.bbox_xyxy_px
            assert item.area_share == pytest.approx((x1 - x0) * (y1 - y0) / (item.width * item.height))
            assert item.tier == "medium"
        else:
            assert not set(item.options) - {item.answer} & set(item.labels)
            assert (item.bbox_xyxy_px, item.area_share, item.tier) == (None, None, None)


def test_structures_in_the_place_of_the_red_box_are_no_distractors_others_are(root, tmp_path):
    items = [i for i in build(root, tmp_path, drawn(root)).items if i.task is Task.VG]
    boxes = {(i.picture, i.answer): i.bbox_xyxy_px for i in items}
    shown = Counter()
    for item in items:
        for other in set(item.options) - {item.answer}:
            there = boxes.get((item.picture, other))
            if there is not None:
                assert iou(item.bbox_xyxy_px, there) < 0.5
                shown[other] += 1
    assert shown["spine"] > 0


def test_nothing_of_a_patient_is_in_an_item_id_and_no_absolute_path_anywhere(root, tmp_path):
    made = shots()
    made[3].is_present = False
    source = drawn(root, made=made, warnings=[f"{root}/s/notes.txt is no picture"])
    (root / "s" / "Patient0001_a.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    absent = drawn_source("t", [])
    built = build(root, tmp_path, source, absent, skip_broken=True)
    for item in built.items:
        assert "patient" not in item.item_id.casefold()
        assert item.group.removeprefix("s:") not in item.item_id.split("-")
        assert not item.picture.startswith("/")
        assert (root / item.picture).is_file()
    for name in ("card.json", "items.parquet"):
        assert str(tmp_path).encode() not in (built.folder / name).read_bytes()
    entry = built.card["sources"]["s"]
    assert len(entry["broken"]) == 1
    assert "s/Patient0001_a.png" in entry["broken"][0]
    assert entry["warnings"][0] == "s/notes.txt is no picture"
    assert "T" in built.card["sources"]["t"]["why_absent"]


def test_the_card_counts_what_the_items_say(root, tmp_path):
    built = build(root, tmp_path, drawn(root), drawn(root, "t", shots(8, 1000, domain=Domain.PHANTOM)))
    assert sum(cell["items"] for cell in built.card["counts"]) == len(built.items)
    for name, entry in built.card["sources"].items():
        mine = [item for item in built.items if item.source == name]
        assert entry["items"] == len(mine)
        assert entry["splits"] == {s.value: sum(i.split is s for i in mine) for s in Split}
        assert entry["pictures"] == len({i.picture for i in mine})
        assert sum(entry["groups"].values()) == len({i.group for i in mine})
    assert built.card["sources"]["t"]["phantom_share"] == 1.0


def test_a_partial_copy_is_counted_and_refused_only_when_strict(root, tmp_path):
    made = shots()
    made[4].is_present = made[5].is_present = False
    source = drawn(root, made=made)
    assert build(root, tmp_path, source).card["sources"]["s"]["absent"] == 2
    with pytest.raises(DataError, match=r"2 of 40 listed pictures are absent, the first is Patient0002_a\.png"):
        build(root, tmp_path, source, strict=True)


def test_a_broken_picture_is_refused_by_name_unless_skipped_and_listed(root, tmp_path):
    source = drawn(root)
    path = root / "s" / "Patient0005_b.png"
    path.write_bytes(path.read_bytes()[:99])
    with pytest.raises(DataError, match=r"(?s)1 pictures or masks cannot be used.*Patient0005_b\.png.*skip_broken"):
        build(root, tmp_path, source)
    assert not (tmp_path / "built").exists()
    built = build(root, tmp_path, source, skip_broken=True)
    assert not [i for i in built.items if "Patient0005_b" in i.picture]
    assert len(built.card["sources"]["s"]["broken"]) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"labels": {Task.PI: "four chamber"}}, r"s: labels .*PI: 'four chamber' \(1 x, first in table\.csv row 2\)"),
        ({"group": " "}, r"s, table\.csv row 2: no group id"),
        ({"name": "Patient0000_b"}, r"s: .* Patient0000_b twice \(table\.csv row 2 and table\.csv row 3\)\. Remove"),
    ],
)
def test_faults_of_a_source_stop_the_build_and_leave_nothing(root, tmp_path, change, says):
    made = shots()
    made[0] = replace(made[0], **change)
    with pytest.raises(DataError, match=says):
        build(root, tmp_path, drawn(root, made=made))
    assert not (tmp_path / "built").exists()


def test_a_root_without_datasets_says_what_was_looked_for(root, tmp_path):
    with pytest.raises(DataError, match=r"does not exist; say data\.root=DIR"):
        build(root, tmp_path, drawn_source("s", []))
    root.mkdir()
    with pytest.raises(DataError, match=r"looked for: S \(https://example.org/s\)"):
        build(root, tmp_path, drawn_source("s", []))


def test_pictures_without_labels_are_counted_and_a_source_without_any_is_refused(root, tmp_path):
    made = [Shot(f"{i}", f"P{i}", i) for i in range(4)]
    with pytest.raises(DataError, match="no question at all: 4 pictures without labels"):
        build(root, tmp_path, drawn(root, made=made))


def test_a_source_with_one_answer_is_marked_and_gets_distractors_from_the_task(root, tmp_path):
    made = [
        Shot(f"{i}", f"P{i}", i, {Task.PI: "fetal head", Task.VC: ["standard", "non-standard"][i % 2]})
        for i in range(8)
    ]
    built = build(root, tmp_path, drawn(root, made=made))
    assert {(i.task, i.constant_answer, i.option_pool) for i in built.items} == {
        (Task.PI, True, "task"),
        (Task.VC, False, "source"),
    }
    assert built.card["sources"]["s"]["constant_answer"] == ["PI"]
    assert "PI has one answer only ('fetal head plane')" in built.card["sources"]["s"]["warnings"][0]


def official_shots():
    return [replace(s, official=Split.TEST if int(s.group.strip("Pp ")) % 2 else Split.TRAIN) for s in shots()]


def test_the_official_split_is_kept_in_a_partial_copy_too(root, tmp_path):
    made = official_shots()
    for shot in made[:20]:
        shot.is_present = False
    built = build(root, tmp_path, drawn(root, made=made, official=True))
    assert built.card["sources"]["s"]["official_split"] is True
    for group, sides in sides_of(built).items():
        assert (sides == {Split.TEST}) == (int(group.removeprefix("s:p")) % 2 == 1)


def test_a_published_validation_side_counts_as_train(root, tmp_path):
    made = [replace(s, official=[Split.TRAIN, Split.VAL, Split.TEST][int(s.group.strip("Pp ")) % 3]) for s in shots()]
    built = build(root, tmp_path, drawn(root, made=made, official=True))
    assert built.card["sources"]["s"]["official_split"] is True
    for group, sides in sides_of(built).items():
        assert (sides == {Split.TEST}) == (int(group.removeprefix("s:p")) % 3 == 2)


def test_a_source_that_states_no_sides_is_split_by_group_without_a_word(root, tmp_path):
    entry = build(root, tmp_path, drawn(root, official=True)).card["sources"]["s"]
    assert (entry["official_split"], entry["warnings"]) == (False, [])
    assert all(entry["splits"].values())


@pytest.mark.parametrize("protocol", [{}, {"test_sources": ["s"]}])
def test_stated_sides_that_are_not_used_are_reported(root, tmp_path, protocol):
    made = official_shots()
    made[-1] = replace(made[-1], official=None)
    config = BenchmarkConfig(split=SplitConfig(**protocol))
    (warning,) = build(root, tmp_path, drawn(root, made=made, official=True), config=config).card["sources"]["s"][
        "warnings"
    ]
    assert warning.startswith("the published split is not used: ")
    assert ("test_sources" if protocol else "has no published side") in warning


def test_a_small_source_is_wholly_in_test(root, tmp_path):
    built = build(root, tmp_path, drawn(root, published_pictures=40))
    assert {item.split for item in built.items} == {Split.TEST}


def leaking(root, **facts):
    """A source of all sides, and a small one (test) that reuses one picture of each patient."""
    copies = [Shot(f"copy{i}", f"Q{i}", seed, {Task.PI: "fetal head"}) for i, seed in enumerate(range(0, 40, 2))]
    first = drawn(root, "s", official_shots() if facts.get("official") else None, **facts)
    return [first, drawn(root, "t", copies, published_pictures=20)]


def hashes_by_side(built):
    sides: dict[str, set[Split]] = {}
    for item in built.items:
        sides.setdefault(item.sha256_pixels, set()).add(item.split)
    return sides


def test_drop_train_keeps_the_test_copy_and_lists_the_other(root, tmp_path):
    built = build(root, tmp_path, *leaking(root))
    assert all(len(sides) == 1 for sides in hashes_by_side(built).values())
    assert sum(i.source == "t" for i in built.items) == 20
    leaked = built.card["sources"]["s"]["leaked"]
    assert leaked == built.card["leak_pairs"] == len(built.card["leaks"]) > 10
    assert all(leak["kept_picture"].startswith("t/copy") for leak in built.card["leaks"])
    assert not {leak["copy_picture"] for leak in built.card["leaks"]} & {item.picture for item in built.items}
    listed = [item_id for leak in built.card["leaks"] for item_id in leak["dropped_items"]]
    assert len(listed) == len(set(listed)) == leaked
    assert not set(listed) & {item.item_id for item in built.items}


def test_move_takes_whole_groups_along(root, tmp_path):
    built = build(root, tmp_path, *leaking(root), config=BenchmarkConfig(leaks="move"))
    assert all(len(sides) == 1 for sides in hashes_by_side(built).values())
    assert all(sides == {Split.TEST} for sides in sides_of(built).values())
    assert built.card["sources"]["s"]["leaked"] == 0
    assert built.card["leak_pairs"] > 10


def test_move_leaves_official_groups_where_they_are(root, tmp_path):
    built = build(root, tmp_path, *leaking(root, official=True), config=BenchmarkConfig(leaks="move"))
    assert all(len(sides) == 1 for sides in hashes_by_side(built).values())
    assert {s for sides in sides_of(built, "s").values() for s in sides} == set(Split)
    assert built.card["sources"]["s"]["leaked"] == 10


def sharing(root, **facts):
    """A source with a published split, and one that holds other pictures of the same patients and one of its own."""
    write_shots(root, "s", official_shots())
    made = [Shot(f"more{p}", f"s:P{p:03d}", 500 + p, {Task.PI: PLANES[p % 4]}) for p in range(20)]
    made.append(Shot("own", "P3", 600, {Task.PI: PLANES[0]}))
    other = replace(drawn(root, "t", made, **facts), shares_groups_with=("s",))
    return [drawn_source("s", official_shots(), official=True), other]


def test_a_patient_of_two_sources_lies_on_one_side_and_equal_ids_of_unrelated_ones_are_two(root, tmp_path):
    built = build(root, tmp_path, *sharing(root))
    shared = {i.group for i in built.items if i.source == "s"} & {i.group for i in built.items if i.source == "t"}
    assert len(shared) == 20
    assert all(len(sides) == 1 for sides in sides_of(built).values())
    assert "t:p3" in sides_of(built)
    assert built.card["leaks"] == []
    alone = build_benchmark(recipe_of(root, sharing(root)[0]), tmp_path / "alone")
    assert sides_of(built, "s") == sides_of(alone)


@pytest.mark.parametrize("policy", ["drop_train", "move"])
def test_a_patient_that_a_small_source_tests_leaves_the_published_train_side(root, tmp_path, policy):
    config = BenchmarkConfig(leaks=policy)
    built = build(root, tmp_path, *sharing(root, published_pictures=21), config=config)
    assert {i.split for i in built.items if i.source == "t"} == {Split.TEST}
    assert {i.split for i in built.items if i.source == "s"} == {Split.TEST}
    assert {(leak["kind"], leak["done"]) for leak in built.card["leaks"]} == {("group", "dropped")}
    assert built.card["sources"]["s"]["leaked"] == len(built.card["leaks"]) == 20


def test_groups_that_cannot_be_on_one_side_stop_a_build_that_allows_no_leaks(root, tmp_path):
    with pytest.raises(DataError, match=r"20 of a group on both \(t/more\d+ & s/Patient"):
        build(root, tmp_path, *sharing(root, published_pictures=21), config=BenchmarkConfig(leaks="fail"))


def test_fail_names_the_copies_and_writes_nothing(root, tmp_path):
    with pytest.raises(DataError, match=r"t/copy\d+ = s/Patient\d{4}_a"):
        build(root, tmp_path, *leaking(root), config=BenchmarkConfig(leaks="fail"))
    assert not (tmp_path / "built").exists()


def test_progress_counts_the_pictures_of_each_source(root, tmp_path):
    seen = []
    build_benchmark(recipe_of(root, drawn(root)), tmp_path / "built", lambda *step: seen.append(step))
    assert seen[-1] == ("s", 40, 40)


def test_real_layouts_build_together(tmp_path, mini_hc18, mini_fetal_planes):
    built = build_benchmark(recipe_of(tmp_path, HC18, FETAL_PLANES_DB), tmp_path / "out" / "built")
    assert {i.source for i in built.items} == {"hc18", "fetal_planes_db"}
    assert built.card["sources"]["fetal_planes_db"]["official_split"] is True
    assert {i.source for i in built.items if i.task is Task.VG} == {"hc18"}
    assert sorted(os.listdir(tmp_path / "out")) == ["built", "readings.sqlite"]


def test_real_samples_build(tmp_path, shared_data):
    built = build_benchmark(recipe_of(shared_data, HC18, FETAL_PLANES_DB), tmp_path / "built")
    assert built.items
    assert built.card["leaks"] == []
    assert all(len(sides) == 1 for sides in sides_of(built).values())
