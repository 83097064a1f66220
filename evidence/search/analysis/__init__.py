"""Text analysis shared by indexing, queries and highlights. Pure Python: no Django, no database.

`VERSION` identifies the output of the analyzer. Raise it whenever the same text would produce other
terms, lexemes or tiers; rows indexed under an older version must then be reindexed.
"""

VERSION = 4
