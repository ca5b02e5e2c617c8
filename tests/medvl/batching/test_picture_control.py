from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.batching.picture_control import shuffled_partners
from medvl.sources.record import Task


@given(st.lists(st.tuples(st.sampled_from([Task.PI, Task.VG]), st.integers(0, 5)), max_size=40), st.integers(0, 9))
def test_every_item_is_partner_once_within_its_task(drawn, seed):
    items = [make_item(task, number, group=f"g{group}") for number, (task, group) in enumerate(drawn)]
    partners = shuffled_partners(items, seed)
    assert [p.task for p in partners] == [i.task for i in items]
    assert sorted(p.item_id for p in partners) == sorted(i.item_id for i in items)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(0, 9))
def test_no_picture_of_the_own_group_unless_one_group_holds_most(groups, seed):
    items = [make_item(Task.PI, number, group=f"g{group}") for number, group in enumerate(groups)]
    partners = shuffled_partners(items, seed)
    largest = max(groups.count(group) for group in groups)
    if largest * 2 <= len(groups):
        assert all(a.group != b.group for a, b in zip(items, partners, strict=True))
    assert all(a.item_id != b.item_id for a, b in zip(items, partners, strict=True))


def test_groups_of_two_sources_with_one_name_are_two_groups():
    items = [make_item(Task.PI, i, group="1", source=source) for i, source in enumerate("ab")]
    assert [p.source for p in shuffled_partners(items, 0)] == ["b", "a"]


def test_the_order_follows_the_seed():
    items = [make_item(Task.PI, number) for number in range(30)]
    assert shuffled_partners(items, 3) == shuffled_partners(items, 3)
    assert shuffled_partners(items, 3) != shuffled_partners(items, 4)
