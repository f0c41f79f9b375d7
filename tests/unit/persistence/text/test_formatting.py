"""Sizes, durations and lists in words."""

from collections.abc import Callable

import pytest

from springline.persistence.text.formatting import format_alternatives, format_bytes, format_list, format_seconds


@pytest.mark.parametrize(
    ("format_", "values"),
    [
        (
            format_bytes,
            {0: "0 B", 999: "999 B", 1000: "1 kB", 1_234_567: "1.23 MB", 250_000_000: "250 MB", 3e12: "3 TB"},
        ),
        (
            format_seconds,
            {0.0214: "21.4 ms", 3.4: "3.4 s", 200: "3 min 20 s", 120: "2 min", 9000: "2.5 h", 12 * 86400: "12 days"},
        ),
    ],
)
def test_sizes_and_durations_are_said_in_the_unit_that_fits(
    format_: Callable[[float], str], values: dict[float, str]
) -> None:
    """Three figures at most; powers of a thousand, milliseconds up to days."""
    assert {value: format_(value) for value in values} == values


def test_long_lists_name_the_first_few_and_count_the_rest() -> None:
    """Short ones are said whole."""
    assert format_list([]) == ""
    assert format_list("a") == "a"
    assert format_list("ab") == "a and b"
    assert format_list("abc") == "a, b and c"
    assert format_list("abcdefg") == "a, b, c and 4 more"


def test_the_error_of_an_unknown_name_lists_the_known_ones_in_few_words() -> None:
    """All of few; of many, those that are spelled nearly so, and how many there are."""
    many = ["flights", "flows", *(f"job{number}" for number in range(98))]
    assert format_alternatives("x", []) == "none"
    assert format_alternatives("x", ["a", "b"]) == "a, b"
    assert format_alternatives("flihgts", many) == "flights, nearest of 100"
    assert format_alternatives("zzz", many) == "flights, flows, job0 and 97 more"
