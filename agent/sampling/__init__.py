"""Choosing the next token from a row of logits, in numpy: penalties, truncation, temperature, draw."""
