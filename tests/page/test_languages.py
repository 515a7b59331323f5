"""Every sentence of the page, and those of the core that a visitor may see, in every language."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import app
from page import controls, jobs, languages, texts, values
from page.languages import FIELD, LANGUAGES, catalogue_of, language_of, say, translate
from page.restore_tab import GROUPS
from page.site import Site

ROOT = Path(__file__).parents[2]
OTHERS = LANGUAGES[1:]
SPEAKERS = {"say", "label", "translate"}


def nobody(model, report, **asked):
    pytest.fail("building the page asked for a restorer")


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("de-DE,de;q=0.9", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"),
        ("zh", "zh-CN"),
        ("zh-Hans-CN", "zh-CN"),
        ("zh-SG", "zh-CN"),
        ("zh-TW", "zh-TW"),
        ("zh-HK,zh;q=0.9", "zh-TW"),
        ("zh-Hant", "zh-TW"),
        ("fr, en;q=0.5, zh;q=0.7", "zh-CN"),
        ("en-GB,zh-CN;q=0.3", "en"),
        ("zh;q=nonsense", "zh-CN"),
    ],
)
def test_language_follows_the_header(header: str | None, language: str) -> None:
    assert language_of(header) == language


def test_values_come_through() -> None:
    note = (
        "No face was found, so the photo is only enlarged by realesrnet-x2; "
        "try a clearer or larger face, or a lower threshold."
    )
    assert (
        translate(note, "zh-CN")
        == "未找到人脸，照片仅由 realesrnet-x2 放大；请换用更清晰或更大的人脸，或降低检测阈值。"
    )
    summary = "1 of 1 face restored · 320 x 320 px · starter-256, cpu, fp32 · strength auto (0.50 to 0.90) · 0.3 s"
    assert "已修复 1/1 张人脸" in translate(summary, "zh-CN") and "自动（0.50 至 0.90）" in translate(summary, "zh-CN")
    assert say("zh-TW", "Not restored: {reason}", reason="{odd} braces") == "未修復：{odd} braces"
    assert translate("A sentence of tomorrow.", "zh-CN") == "A sentence of tomorrow."
    assert translate("1 of 3", "zh-CN") == "1/3"


@pytest.mark.parametrize("language", OTHERS)
def test_translations_keep_the_values(language: str) -> None:
    for sentence, translation in catalogue_of(language).plain.items():
        asked, given = set(FIELD.findall(sentence)), set(FIELD.findall(translation))
        assert given <= asked, sentence
        assert asked - given <= {"plural"}, sentence


def test_languages_say_the_same_things() -> None:
    assert catalogue_of("zh-CN").plain.keys() == catalogue_of("zh-TW").plain.keys()


@pytest.mark.parametrize("language", OTHERS)
def test_whole_page_is_translated(language: str) -> None:
    """All that the page shows before anybody touches it: labels, helps, choices."""
    site = Site(nobody)
    app.build_page(site)
    same = {
        key: text
        for key, text in site.labels["en"].items()
        if site.labels[language][key] == text and re.search("[a-z]{3}", text)
    }
    assert set(same.values()) <= {"WebP"}


@pytest.mark.parametrize("language", OTHERS)
def test_all_words_of_the_page_are_translated(language: str) -> None:
    known = catalogue_of(language).plain
    sentences = set(spoken_sentences())
    sentences |= {*controls.LABELS.values(), *GROUPS, values.FIT_TILE, values.FIT_OVERLAP, texts.REDUCED}
    sentences |= {words for choices in controls.CHOICES.values() for words in choices.values()}
    sentences |= {words for _, _, words in texts.STAGES.values() if words} | {jobs.STOPPED, jobs.UNEXPECTED}
    assert sorted(sentence for sentence in sentences if sentence not in known) == []


def spoken_sentences() -> list[str]:
    """Constants that the page's code hands to a speaker, by value or by name."""
    found = []
    for path in (*(ROOT / "page").glob("*.py"), ROOT / "app.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in SPEAKERS:
                for argument in node.args:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        found.append(argument.value)
                    elif isinstance(argument, ast.Name) and isinstance(getattr(texts, argument.id, None), str):
                        found.append(getattr(texts, argument.id))
    return found


def core_templates() -> set[str]:
    """All words in the code."""
    found = {controls.help_of(name) for name in controls.LABELS}
    for path in (*(ROOT / "gpen_core").rglob("*.py"), *(ROOT / "page").glob("*.py"), ROOT / "app.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(FIELD.sub("{}", node.value))
    return found


def test_no_translation_is_of_a_sentence_that_is_gone() -> None:
    """The core's sentences are recognised by their words: where one changes, its translation must too."""
    templates = [template for template in core_templates() if re.search("[A-Za-z]", template)]
    anywhere = "\n".join(templates)
    gone = []
    for key in catalogue_of("zh-CN").plain:
        pieces = [piece for piece in re.split(r"\{\w+\}", key) if re.search("[A-Za-z]", piece)]
        if not all(piece in anywhere or piece.strip(" .,;:") in anywhere for piece in pieces):
            gone.append(key)
    assert gone == []


def test_catalogues_are_read_once() -> None:
    assert languages.catalogue_of("zh-CN") is languages.catalogue_of("zh-CN")
