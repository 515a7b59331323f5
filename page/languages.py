"""The page's sentences, and the core's, in the visitor's language.

A catalogue's keys are the English sentences, with `{names}` where values stand. The core needs not know of it: a
sentence it made is recognised by its fixed parts. What has no translation stays English.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

ENGLISH = "en"
LANGUAGES = (ENGLISH, "zh-CN", "zh-TW")
TRADITIONAL = {"tw", "hk", "mo", "hant"}
LOCALES = Path(__file__).parent / "locales"
NUMBER = r"[\d.,]+"
NUMBERS = frozenset(
    (
        "asked",
        "done",
        "found",
        "height",
        "high",
        "index",
        "limit",
        "low",
        "mean",
        "number",
        "rest",
        "seconds",
        "shown",
        "size",
        "speed",
        "tiles",
        "total",
        "used",
        "width",
    )
)
"""Fields that hold numbers only. Without this, `{done} of {total}` would be seen in many a sentence."""
FIELD = re.compile(r"\{(\w+)\}")


class Catalogue(NamedTuple):
    """What a language says for English."""

    plain: dict[str, str]
    patterns: tuple[tuple[re.Pattern[str], str], ...]
    """English sentences with values in them, those with the most fixed words first."""


def language_of(accept_language: str | None) -> str:
    """The first language of an Accept-Language header (RFC 9110) that the page speaks, else English."""
    weighted = []
    for entry in (accept_language or "").lower().split(","):
        tag, _, quality = entry.strip().partition(";q=")
        weighted.append((-_number(quality), tag.split("-")))
    for _, (primary, *rest) in sorted(weighted, key=lambda pair: pair[0]):
        if primary == "zh":
            return "zh-TW" if TRADITIONAL & set(rest) else "zh-CN"
        if primary == ENGLISH:
            return ENGLISH
    return ENGLISH


def _number(quality: str) -> float:
    try:
        return float(quality or 1)
    except ValueError:
        return 0.0


def translate(sentence: str, language: str) -> str:
    """`sentence` in `language`, with its values; as it is where the catalogue does not know it."""
    if language == ENGLISH or not sentence:
        return sentence
    catalogue = catalogue_of(language)
    if sentence in catalogue.plain:
        return catalogue.plain[sentence]
    for pattern, translation in catalogue.patterns:
        match = pattern.fullmatch(sentence)
        if match:
            values = {name: translate(value, language) for name, value in match.groupdict().items()}
            return _filled(translation, values)
    return sentence


def say(language: str, sentence: str, **values: Any) -> str:
    """`sentence` in `language`, with `values` in the place of its `{names}`."""
    texts = {name: translate(str(value), language) for name, value in values.items()}
    template = catalogue_of(language).plain.get(sentence, sentence) if language != ENGLISH else sentence
    return _filled(template, texts)


def as_sentence(text: str, language: str) -> str:
    """A help text with its first letter and its full stop."""
    return f"{text[0].upper()}{text[1:]}" + ("." if language == ENGLISH else "。")


def _filled(template: str, values: dict[str, str]) -> str:
    # Not `format`, which would stumble over braces in a value or a path.
    return FIELD.sub(lambda field: values.get(field[1], field[0]), template)


@lru_cache(maxsize=len(LANGUAGES))
def catalogue_of(language: str) -> Catalogue:
    """Read from `locales/<language>.json`, and what the other tabs say from `locales/<language>.*.json`."""
    plain: dict[str, str] = {}
    for path in sorted(LOCALES.glob(f"{language}*.json")):
        plain |= json.loads(path.read_text(encoding="utf-8"))
    with_values = sorted((key for key in plain if FIELD.search(key)), key=lambda key: -len(FIELD.sub("", key)))
    return Catalogue(plain, tuple((as_pattern(key), plain[key]) for key in with_values))


def as_pattern(sentence: str) -> re.Pattern[str]:
    """Matches what `sentence` becomes with values in it."""
    parts, seen, end = [], set[str](), 0
    for field in FIELD.finditer(sentence):
        name = field[1]
        any_value = NUMBER if name in NUMBERS else ".*?"
        value = f"(?P={name})" if name in seen else f"(?P<{name}>{any_value})"
        parts += [re.escape(sentence[end : field.start()]), value]
        seen.add(name)
        end = field.end()
    return re.compile("".join(parts) + re.escape(sentence[end:]), re.DOTALL)
