"""The letters that no name may have: those that nobody sees, and those that move what stands beside them.

With one of them, two names look the same, or one looks like another.
"""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # what steers a terminal
    "\u2028\u2029"  # ends of lines
    "\ud800-\udfff"  # halves of letters
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions of writing
    "\xad\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # of no width
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f"  # of no width, beside another letter
    "\u115f\u1160\u3164\uffa0\u2800"  # letters without a shape
    "]"
)


def unseen_in(name: str) -> str:
    """The first such letter in a name; empty if there is none."""
    found = _UNSEEN.search(name)
    return found.group() if found else ""
