"""Configuration: Hydra composes, pydantic checks, the library gets plain typed values."""
