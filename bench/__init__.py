"""Side-by-side measurements: `make bench`. Only ratios within one run count; absolute figures move with the machine."""
