"""Documentation, and in `docs.reference` what writes those of its pages that are made from the code."""
