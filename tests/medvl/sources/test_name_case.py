"""Names of files in another case than the dataset has them: what each source takes, and what it refuses."""

import shutil
from collections import Counter
from importlib import import_module

import pytest

from medvl.errors import DataError
from medvl.sources.registry import SOURCES

PUBLIC = [name for name in SOURCES if name != "demo"]
LISTED = {
    "fetal_planes_db",
    "hc18",
    "fpus23",
    "african_planes",
    "pbf_us1",
    "fetus_framework",
    "head_biometry",
    "acouslic_ai",
    "iugc2024",
    "chestxray14",
    "siim_acr",
}
"""Sources in which a table or an annotation file names pictures."""
PAIRED = ["fass", "focus", "head_biometry"]
"""Sources in which pictures and annotations belong together by their names alone."""
KEEP_BOTH = {"ultrasound_fetus", "fetus_framework"}
"""Sources in which each file of a folder is a picture in its own right."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Source -> its miniature. Shared: leave them as they are."""
    made = {}
    for name in PUBLIC:
        generator = "fetal_planes" if name == "fetal_planes_db" else name
        write = getattr(import_module(f"mini_{generator}"), f"write_mini_{generator}")
        made[name] = write(tmp_path_factory.mktemp("minis") / name)
    return made


@pytest.fixture
def copy(written, tmp_path):
    """Copies the miniature of a source below a data root, and returns the root."""

    def copy_of(name):
        shutil.copytree(written[name], tmp_path / "root" / name, symlinks=True)
        return tmp_path / "root"

    return copy_of


def scan(name, root):
    return SOURCES[name].scan(SOURCES[name].find(root))


def said(records):
    """What records say of their pictures, whatever these are called."""
    return Counter(
        (
            r.is_present,
            r.group,
            tuple(r.labels.items()),
            tuple(s.label for s in r.structures),
            tuple(r.findings.items()),
        )
        for r in records
    )


def present_pictures(records):
    return sorted({record.picture for record in records if record.is_present})


def a_picture(records):
    """A picture that is asked about, and lies under the name by which it is listed where it is."""
    return next(r.picture for r in records if r.is_present and r.is_askable and r.listed_as in ("", r.picture.name))


@pytest.mark.parametrize("name", PUBLIC)
def test_endings_in_upper_case_change_nothing_and_are_counted_where_names_are_listed(copy, name):
    root = copy(name)
    before = scan(name, root)
    assert not any(record.is_in_other_case for record in before.records)
    for picture in present_pictures(before.records):
        picture.rename(picture.with_suffix(picture.suffix.upper()))
    after = scan(name, root)
    assert said(after.records) == said(before.records)
    assert len(after.warnings) == len(before.warnings)
    assert all(record.picture.suffix.isupper() for record in after.records if record.is_present)
    counted = {record.is_present for record in after.records if record.is_in_other_case}
    assert counted == ({True} if name in LISTED else set())


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in PAIRED])
def test_of_two_files_the_exact_one_is_read_and_the_other_is_not_lost_without_a_word(copy, name):
    root = copy(name)
    picture = a_picture(scan(name, root).records)
    other = picture.with_suffix(picture.suffix.upper())
    shutil.copy(picture, other)
    after = scan(name, root)
    assert any(record.picture == picture for record in after.records)
    is_kept = any(record.picture == other for record in after.records)
    assert is_kept or any(other.name in warning for warning in after.warnings)
    if name in KEEP_BOTH:
        assert is_kept


@pytest.mark.parametrize("name", PAIRED)
def test_two_files_of_which_nothing_says_which_is_meant_are_refused(copy, name):
    root = copy(name)
    picture = a_picture(scan(name, root).records)
    other = picture.with_suffix(picture.suffix.upper())
    shutil.copy(picture, other)
    with pytest.raises(DataError, match=f"^{other} and {picture}: expected one file, found two"):
        scan(name, root)


@pytest.mark.parametrize("name", sorted(LISTED - {"fetus_framework", "head_biometry"}))
def test_two_files_that_a_listed_name_may_mean_are_refused_by_name(copy, name):
    root = copy(name)
    picture = a_picture(scan(name, root).records)
    ending = picture.suffix[1:]
    others = [picture.with_suffix(f".{spelt}") for spelt in (ending.upper(), ending.capitalize())]
    shutil.copy(picture, others[0])
    picture.rename(others[1])
    with pytest.raises(DataError) as caught:
        scan(name, root)
    message = str(caught.value)
    assert f": expected one {picture.name}, found {others[0]} and {others[1]}. Keep the right one" in message


def test_a_box_of_the_exact_name_is_not_given_to_another_picture(copy):
    root = copy("fetus_framework")
    boxed = next(record for record in scan("fetus_framework", root).records if record.structures)
    other = boxed.picture.with_suffix(".PNG")
    shutil.copy(boxed.picture, other)
    other.write_bytes(other.read_bytes() + b"\0")  # no copy
    structures = {record.picture: record.structures for record in scan("fetus_framework", root).records}
    assert structures[boxed.picture] == boxed.structures
    assert structures[other] == ()
