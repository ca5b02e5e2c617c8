"""A tiny vision-language model that ships with medvl, and how it was made.

It knows the multiple-choice format and generic drawn shapes, and nothing of medicine: the honest starting point of the
demo, at chance on fetal ultrasound until it is fine-tuned.
"""
