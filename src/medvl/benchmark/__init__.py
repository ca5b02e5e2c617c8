"""From records to a patient-split multiple-choice benchmark."""
