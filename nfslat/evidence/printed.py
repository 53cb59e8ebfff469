"""Numbers, instants and addresses as reports print them, in the notation of whoever made them -> plain values."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime

_SUFFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_NUMBER = re.compile(r"([\d.,]{1,24})([KMGT]?) ?(ns|us|ms|s|m|min)?$", re.ASCII)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_ORACLE = re.compile(r"(\d{1,2})-([A-Za-z]{3})-(\d{2}|\d{4}) (\d{1,2}):(\d{2}):(\d{2})$", re.ASCII)


def number(text: str) -> tuple[float, float, str] | None:
    """A number, half of its last digit, and its unit ("" where none is printed); None for what is none.

    Groups of three digits behind a comma are thousands. One comma with other groups is a decimal comma.
    """
    found = _NUMBER.match(text)
    if found is None:
        return None
    digits = found[1]
    if "," in digits and ("." not in digits or digits.rfind(",") > digits.rfind(".")):
        grouped = re.fullmatch(r"\d{1,3}(?:,\d{3})+", digits)
        digits = digits.replace(",", "") if grouped else digits.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d{1,3}(?:\.\d{3}){2,}", digits):
        digits = digits.replace(".", "")
    digits = digits.replace(",", "")
    try:
        value = float(digits)
    except ValueError:
        return None
    scale = _SUFFIX[found[2]]
    half = 0.5 * 10.0 ** -len(digits.partition(".")[2]) * scale
    return value * scale, half, found[3] or ""


def instant(text: str) -> datetime | None:
    """``24-Nov-26 12:00:01``, by the wall clock of the host; None for anything else, months of other languages too."""
    found = _ORACLE.match(" ".join(text.split()))
    if found is None or found[2].lower() not in _MONTHS:
        return None
    day, year, hour, minute, second = (int(found[at]) for at in (1, 3, 4, 5, 6))
    month = _MONTHS.index(found[2].lower()) + 1
    try:
        return datetime(year + (2000 if year < 100 else 0), month, day, hour, minute, second)  # noqa: DTZ001
    except ValueError:
        return None


def address_of(word: str, *, local: bool = False) -> str:
    """The address in its usual form; "" for what is none, or (but with `local`) is of no use to tell hosts apart."""
    try:
        address = ipaddress.ip_address(word.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    is_local = address.is_loopback or address.is_link_local or address.is_unspecified
    return "" if is_local and not local else str(address)
