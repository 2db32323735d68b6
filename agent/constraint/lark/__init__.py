"""The back end: the tree becomes an llguidance grammar that is exact and fast."""
