"""From predictions to figures: metrics, intervals, paired comparison. Needs no torch."""
