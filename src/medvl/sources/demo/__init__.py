"""The demo source: drawn pictures that look like ultrasound, written to disk as a small dataset and read back.

It needs no download and no data of the user's own. `write_demo_dataset` draws it, `DEMO` reads it.
"""

from medvl.sources.demo.dataset import DEFAULT_PATIENTS, demo_is_current, write_demo_dataset
from medvl.sources.demo.source import DEMO

__all__ = ["DEFAULT_PATIENTS", "DEMO", "demo_is_current", "write_demo_dataset"]
