"""Ages as chest X-ray tables and DICOM headers write them."""

from __future__ import annotations

import re

OLDEST_YEARS = 120
"""A greater age is a slip of the keyboard."""

UNITS_PER_YEAR = {"": 1.0, "Y": 1.0, "M": 12.0, "W": 52.18, "D": 365.25}


def age_in_years(text: str) -> str | None:
    """Completed years.

    Args:
        text: `62`, or a DICOM age string (`062Y`, `013M`, `010W`, `001D`).

    Returns:
        Years without leading zeros; "" when no age is given; None for what is no age or above `OLDEST_YEARS`.
    """
    if not text.strip():
        return ""
    match = re.fullmatch(r"(\d{1,4})([YMWD]?)", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    years = int(int(match[1]) / UNITS_PER_YEAR[match[2].upper()])
    return str(years) if years <= OLDEST_YEARS else None
