import io
import re

import pytest
from rich.console import Console

from medvl.reporting.tables import (
    comparison_table,
    control_table,
    metrics_table,
    p_value,
    rate,
    results_table,
    signed,
    sweep_table,
)


def cell(accuracy, n=11332, **words):
    return {
        "accuracy": accuracy,
        "ci95": [accuracy - 0.02, accuracy + 0.02],
        "n": n,
        "n_groups": 1234,
        "chance": 0.25,
        "always_a": 0.2511,
        "majority": 0.4,
        "invalid_rate": 0.0125,
        "uncommitted_rate": 0.3,
        **words,
    }


def metrics():
    return {
        "split": "test",
        "scoring": "letter",
        "overall": cell(0.7, n=93451, macro_accuracy=0.6543, macro_ci95=[0.6, 0.7]),
        "tasks": {"PI": cell(0.8123), "VC": cell(0.9), "FO": cell(0.5), "CD": cell(0.6), "VG": cell(0.7)},
        "tiers": {"small": cell(0.4), "medium": cell(0.5), "large": None},
        "domains": {"clinical": cell(0.65), "phantom": None},
    }


def pair(before, after, p):
    gain = after - before
    return {
        "zero_shot": before,
        "fine_tuned": after,
        "chance": 0.25,
        "n": 11332,
        "n_groups": 1234,
        "ci95_zero_shot": [before - 0.02, before + 0.02],
        "ci95_fine_tuned": [after - 0.02, after + 0.02],
        "difference": {"estimate": gain, "ci95": [gain - 0.03, gain + 0.03], "p": p / 2, "p_holm": p},
    }


def arm(accuracy):
    return {"accuracy": accuracy, "macro_accuracy": accuracy - 0.1, "ci95": [accuracy - 0.02, accuracy + 0.02]}


def comparison():
    return {
        "split": "test",
        "scoring": "generation",
        "overall": {
            "zero_shot": arm(0.4) | {"macro_ci95": [0.28, 0.32], "invalid_rate": 0.2, "uncommitted_rate": 0.0},
            "fine_tuned": arm(0.7) | {"macro_ci95": [0.58, 0.62], "invalid_rate": 0.001, "uncommitted_rate": 0.0},
            "difference": {"estimate": 0.3, "ci95": [0.27, 0.33], "p": 1e-9},
            "macro_difference": {"estimate": 0.3, "ci95": [0.25, 0.35], "p": None},
            "n": 93451,
            "n_groups": 1234,
        },
        "tasks": {"PI": pair(0.41, 0.8123, 1e-7), "VC": pair(0.6, 0.59, 0.42), "FO": None, "CD": None, "VG": None},
        "box_tiers": {"small": pair(0.5, 0.4, 0.013), "medium": None, "large": None},
        "domains": {"clinical": pair(0.4, 0.6, 0.01), "phantom": None},
    }


SWEEP = [
    {
        "overrides": ["model=llama32_11b", "lora=r16"],
        "metric": "val/macro_accuracy",
        "value": 0.71234,
        "run_folder": "o/1",
    },
    {
        "overrides": {"model": "tiny", "data.list": "[a]"},
        "metric": "val/macro_accuracy",
        "value": None,
        "run_folder": "o/2",
    },
]
TABLES = {
    "metrics": lambda: metrics_table(metrics()),
    "comparison": lambda: comparison_table(comparison()),
    "sweep": lambda: sweep_table(SWEEP),
    "results": lambda: results_table({"data.train_share=0.01": comparison(), "data.train_share=0.5": comparison()}),
}


def printed(table, width=80, **words):
    stream = io.StringIO()
    Console(file=stream, width=width, **words).print(table)
    return stream.getvalue()


def line(text, name):
    return next(row for row in text.splitlines() if re.match(rf"{name}\s", row))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_and_cut_nothing_off(name, width):
    text = printed(TABLES[name](), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


def test_a_task_stands_in_one_line_with_its_trivial_levels_and_counts():
    assert line(printed(metrics_table(metrics())), "PI").split() == [
        *("PI", "0.812", "[0.792,", "0.832]", "0.250", "0.251", "0.400", "0.013", "0.300", "11,332", "1,234"),
    ]


def test_overall_macro_and_absent_cells_are_shown():
    text = printed(metrics_table(metrics()))
    assert "93,451" in line(text, "overall")
    assert line(text, "macro").split() == ["macro", "0.654", "[0.600,", "0.700]"]
    assert "No items: large, phantom." in " ".join(text.split())


def test_a_comparison_row_gives_both_models_the_difference_and_the_adjusted_p():
    text = printed(comparison_table(comparison()))
    assert line(text, "PI").split() == ["PI", "11,332", "0.250", "0.410", "0.812", "+0.402", "<0.001"]
    assert line(text, "VC").split() == ["VC", "11,332", "0.250", "0.600", "0.590", "-0.010", "0.420"]
    assert "[-0.040, +0.020]" in text
    assert line(text, "macro").split() == ["macro", "0.300", "0.600", "+0.300"]
    caption = " ".join(text.split())
    assert "invalid 0.200 before, 0.001 after" in caption
    assert "No items: FO, CD, VG, medium, large, phantom." in caption


def test_a_comparison_with_the_documented_keys_only_is_shown():
    bare = comparison()
    del bare["overall"]["macro_difference"]
    bare["overall"]["zero_shot"], bare["overall"]["fine_tuned"] = arm(0.4), arm(0.7)
    del bare["tasks"]["PI"]["difference"]["p_holm"]
    text = printed(comparison_table(bare))
    assert line(text, "macro").split() == ["macro", "0.300", "0.600", "-"]
    assert "invalid - before, - after" in " ".join(text.split())


def test_only_differences_that_test_and_interval_agree_on_are_coloured():
    doubtful = comparison()
    doubtful["tasks"]["VC"]["difference"] |= {"p_holm": 0.001}  # interval covers 0
    text = printed(comparison_table(doubtful), force_terminal=True, color_system="standard")
    assert re.search(r"\x1b\[1;32m\s*\+0\.402", text)
    assert re.search(r"\x1b\[1;31m\s*-0\.100", text)
    assert not re.search(r"\x1b\[1;3[12]m\s*-0\.010", text)


@pytest.mark.parametrize("name", TABLES)
def test_a_narrow_terminal_without_unicode_still_gets_every_digit(name):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Console(file=stream, width=60).print(TABLES[name]())
    stream.flush()
    lines = raw.getvalue().decode().splitlines()
    assert max(map(len, lines)) <= 60
    if name == "metrics":
        assert any("0.812" in row for row in lines)


@pytest.mark.parametrize("name", TABLES)
def test_without_colour_the_text_is_the_same(name):
    coloured = printed(TABLES[name](), force_terminal=True, color_system="truecolor")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == printed(TABLES[name]())


def test_a_sweep_keeps_its_order_shows_overrides_as_typed_and_a_run_without_result():
    text = printed(sweep_table(SWEEP), 120)
    assert "val/macro_accuracy" in text.splitlines()[1]
    assert re.search(r"model=llama32_11b lora=r16 +0\.712 o/1", text)
    assert re.search(r"model=tiny data\.list=\[a\] +- o/2", text)
    assert text.index("o/1") < text.index("o/2")


def test_a_sweep_of_several_metrics_names_each():
    text = printed(sweep_table([*SWEEP, {**SWEEP[0], "metric": "val/loss"}]), 120)
    assert "val/loss" in text
    assert text.splitlines()[1].split() == ["overrides", "metric", "value", "run", "folder"]


def test_the_results_of_a_sweep_stand_side_by_side():
    text = printed(TABLES["results"](), 120)
    first, second = (text.index(f"data.train_share={share}") for share in ("0.01", "0.5"))
    assert first < second
    assert line(text, "data.train_share=0.01").split()[1:] == ["93,451", "1,234", "0.400", "0.700", "+0.300"]
    assert text.count("[+0.270, +0.330]") == 2


def test_a_sweep_without_runs_is_an_empty_table():
    assert "0 runs" in printed(sweep_table([]))


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (rate(0.8126), "0.813"),
        (rate(None), "-"),
        (rate(1), "1.000"),
        (signed(0.1), "+0.100"),
        (signed(-0.0001), "0.000"),
        (signed(None), "-"),
        (p_value(0.0004), "<0.001"),
        (p_value(0.0005), "0.001"),
        (p_value(None), "-"),
    ],
)
def test_figures_have_three_decimals(shown, expected):
    assert shown == expected


def test_cells_of_few_groups_are_named_below_the_table():
    content = comparison()
    content["tasks"]["PI"]["n_groups"] = 9
    text = " ".join(printed(comparison_table(content)).split())
    assert "Fewer than 10 groups, so intervals are too narrow: PI." in text
    assert "too narrow" not in printed(comparison_table(comparison()))


def test_the_look_table_gives_accuracy_with_and_without_pictures_beside_the_trivial_levels():
    blind = metrics() | {"overall": cell(0.31), "tasks": {t: cell(0.27) for t in ("PI", "VC", "FO", "CD", "VG")}}
    text = printed(control_table(metrics() | {"tasks": metrics()["tasks"] | {"CD": None}}, {"text_only": blind}))
    assert "text only" in text
    row = line(text, "PI").split()
    assert row == ["PI", "11,332", "0.250", "0.400", "0.812", "0.270"]
    assert line(text, "overall").split()[-2:] == ["0.700", "0.310"]
    assert not [row for row in text.splitlines() if row.startswith("CD")]


def test_a_task_in_which_a_model_says_one_thing_only_is_named():
    figures = metrics()
    figures["tasks"]["VC"] |= {"top_answer": {"answer": "standard", "share": 0.99, "one_answer": True}}
    figures["tasks"]["FO"] |= {
        "top_answer": {"answer": "head down", "share": 0.4, "one_answer": False},
        "top_letter": {"letter": "A", "share": 1.0, "one_letter": True},
    }
    figures["tasks"]["CD"] |= {"top_answer": {"answer": "normal", "share": 0.98, "one_answer": None}}
    caption = str(metrics_table(figures).caption)
    assert "One answer, whatever is shown: VC (standard, 99%), FO (A, 100%)." in caption
    assert "One answer" not in str(metrics_table(metrics()).caption)
