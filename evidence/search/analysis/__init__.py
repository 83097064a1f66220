"""The one analyser behind index, query, evidence and the field-window's `q`. Pure Python.

`VERSION` names what the analyser makes of a text. Raise it whenever the same text would give other
terms, lexemes or tiers: the rows indexed under an older number then have to be indexed again.
"""

VERSION = 2
