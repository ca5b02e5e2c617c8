from medvl.sources.record import Source
from medvl.sources.registry import SOURCES


def test_every_source_stands_under_its_own_name_and_feeds_a_task():
    assert {"demo", "hc18", "fetal_planes_db"} <= set(SOURCES)
    for name, source in SOURCES.items():
        assert isinstance(source, Source)
        assert source.name == name
        assert source.tasks
        assert source.licence
        assert source.group_rule
        assert source.published_pictures > 0


def test_no_source_takes_the_folder_of_another(mini_hc18, mini_fetal_planes, tmp_path):
    assert SOURCES["hc18"].find(tmp_path) == mini_hc18
    assert SOURCES["fetal_planes_db"].find(tmp_path) == mini_fetal_planes
    assert SOURCES["hc18"].find(mini_fetal_planes) is None
    assert SOURCES["fetal_planes_db"].find(mini_hc18) is None
