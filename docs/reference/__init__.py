"""The pages that are made from the code: `python -m docs.reference` writes them anew.

Not part of what is installed: here both sides may be imported, and nothing of ours imports this.
"""
