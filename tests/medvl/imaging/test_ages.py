import pytest

from medvl.imaging.ages import age_in_years


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("62", "62"), ("062Y", "62"), (" 5 ", "5"), ("0", "0"), ("013M", "1"), ("011M", "0"), ("001D", "0"),
        ("104W", "1"), ("105W", "2"), ("120Y", "120"), ("730D", "1"), ("731D", "2"), ("", ""),
    ],
)  # fmt: skip
def test_ages_become_completed_years(text, years):
    assert age_in_years(text) == years


@pytest.mark.parametrize("text", ["121", "411Y", "old", "-3", "6 2", "62X", "٦٢"])
def test_what_is_no_age_of_a_patient_is_none(text):
    assert age_in_years(text) is None
