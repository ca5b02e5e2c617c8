"""Public datasets as their users download them, one file each."""
