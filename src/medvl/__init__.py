"""medvl: fine-tune vision-language models for a medical domain and prove that they got better."""

import os

# albumentations asks a package index for its newest version when it is imported; nothing here may call out at import.
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

__version__ = "0.1.0"
