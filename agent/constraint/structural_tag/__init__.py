"""Structural tags, in both of their forms: free text with constrained regions."""
