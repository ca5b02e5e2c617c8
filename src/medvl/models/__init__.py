"""Base models, prompts and adapters."""
