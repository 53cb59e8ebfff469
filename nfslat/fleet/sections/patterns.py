"""Patterns -> words that text and page have in common: whom they hit, how much, how sure, and in a sentence."""

from __future__ import annotations

from nfslat.answer.words import ms, percent
from nfslat.fleet.model import Fleet, Pattern
from nfslat.fleet.sections.words import seconds
from nfslat.report.text_layout import count, count_of, plain

SCOPES = {"all": "All clients", "group": "Groups of clients", "one": "Single clients"}
_BOTH = 2
_ROUGH = 0.01  # of a smaller chance one digit says enough


def who(pattern: Pattern) -> str:
    """``all 100 clients``, ``7 of 7 clients with subnet 10.9.3.0/24``, ``10.9.1.18``."""
    hit = len(pattern.clients)
    if pattern.scope == "all":
        everybody = "the only client" if hit == 1 else "both clients" if hit == _BOTH else f"all {count(hit)} clients"
        return everybody if hit == pattern.of else f"{count(hit)} of {count_of(pattern.of, 'client')}"
    if hit == 1 and (pattern.scope == "one" or pattern.dimension is None):
        return plain(pattern.clients[0])
    if pattern.dimension is None:
        return f"{count_of(hit, 'client')}, which no attribute tells from the others"
    named = f"{plain(pattern.dimension)} {plain(pattern.value or '')}".strip()
    return f"{count(hit)} of {count_of(pattern.of, 'client')} with {named}"


def sentence(pattern: Pattern) -> str:
    """Its text with a capital in front and a full stop behind; the name of a client stays as it is."""
    text = pattern.text
    if not any(text.startswith(name) for name in pattern.clients):
        text = f"{text[:1].upper()}{text[1:]}"
    return text.rstrip(".") + "."


def no_pattern(fleet: Fleet) -> str:
    """What to say where there is none."""
    if len(fleet.clients) == 1:
        return "There is one client: its own report says what adds time (see below), and there is nothing to compare."
    return "No pattern is found: nothing that lasts in all clients, in a group, or in one."


def how_much(pattern: Pattern) -> str:
    """``21.0 ms an op, 1,250 s, 72.0 % of the time of all ops``; "" where nothing is known."""
    found = []
    if pattern.effect_ms is not None:
        found.append(f"{ms(pattern.effect_ms)} ms an op")
    if pattern.excess_s is not None:
        found.append(f"{seconds(pattern.excess_s)} s")
    if pattern.share is not None:
        found.append(f"{percent(pattern.share)} of the time of all ops")
    return ", ".join(found)


def how_sure(pattern: Pattern) -> str:
    """``high``, ``high (p = 0.0003)``."""
    p_value = pattern.p_value
    chance = "" if p_value is None else f" (p = {p_value:.{1 if p_value < _ROUGH else 2}g})"
    return plain(pattern.confidence) + (" (p < 1e-6)" if (pattern.p_value or 1) < 1e-6 else chance)
