"""Texts of words of SQL in an order that seldom makes sense."""

from __future__ import annotations

from hypothesis import strategies as st

VOCABULARY = """
n m x y s t time NULL TRUE FALSE 0 1 2.5 -1 'a' '' '2020-01-01' 9223372036854775808 1e400 + - * / // % || = <> < >=
AND OR NOT IN BETWEEN LIKE IS CASE WHEN THEN ELSE END CAST AS INT DOUBLE TEXT ( ) ( ) , , count sum min max avg
DISTINCT abs round floor ceil lower upper length coalesce :: DATE TIMESTAMP FILTER WHERE OVER . [ ] { } ? $1 @ # ; :
-> ILIKE ESCAPE ANY SYMMETRIC INTERVAL HAVING GROUP BY WINDOWING ROWS 60 LATE EXISTS SELECT FROM S l r ^ & | ~ ! " '
-- /* */ UNKNOWN COLLATE AT ZONE nullif greatest if try row map EXTRACT year position substring now random
"""
PHRASES = """
n + 1
s LIKE 'a%'
s NOT LIKE t
count ( * )
sum ( n )
s IN ( 'a' , NULL )
CASE WHEN x > 1 THEN n ELSE 2 END
time > '2020-01-01'
CAST ( n AS TEXT )
round ( x , 2 )
n BETWEEN 1 AND m
x IS NOT NULL
"""
_word = st.sampled_from(VOCABULARY.split())
_phrase = st.sampled_from(PHRASES.strip().splitlines())


@st.composite
def soups(draw: st.DrawFn) -> str:
    """Words of SQL in any order, or some that make sense, of which a few were changed."""
    if draw(st.booleans()):
        return " ".join(draw(st.lists(_word, min_size=1, max_size=7)))
    tokens = " ".join(draw(st.lists(_phrase, min_size=1, max_size=2))).split()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(tokens) - 1))
        tokens[at : at + draw(st.integers(0, 1))] = draw(st.lists(_word, max_size=2)) or [tokens[at]]
    return " ".join(tokens)
