"""What a grammar rule asks for besides its language: a most of tokens and a temperature, kept while it is open.

llguidance does not tell which rules are open. So each rule with options is a grammar of its own: in the others stands a
token that no vocabulary has in its place (`splitting`), and a walk enters a matcher of that rule where this token may
come, and goes on behind it where the rule may end (`readings`, `walk`).
"""
