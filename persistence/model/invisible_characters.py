"""Characters not allowed in names: invisible ones, and those that change the direction of the text around them.

With one of them, two names could look the same, or one like another.
"""

from __future__ import annotations

import re

_INVISIBLE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters
    "\u2028\u2029"  # line separators
    "\ud800-\udfff"  # surrogates
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # text direction
    "\xad\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # zero width
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f"  # zero width, combined with another character
    "\u115f\u1160\u3164\uffa0\u2800"  # letters without a glyph
    "]"
)


def find_invisible(name: str) -> str:
    """Return the first such character in a name; empty if there is none."""
    match = _INVISIBLE.search(name)
    return match.group() if match else ""
