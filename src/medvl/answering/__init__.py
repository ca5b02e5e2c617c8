"""From items to predictions."""
