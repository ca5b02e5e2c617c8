"""The Lightning engine, its callbacks and the run folder."""
