"""The page of differences from memcached and the tests of what it says: neither goes without the other."""

import pathlib
import re

from conformance.documented import SAID
from conformance.servers import ROOT

PAGE = ROOT / "docs" / "memcached-differences.md"
#: Heads of its tables.
HEADS = {"What | Answer", "Flag | Here"}


def blocks(text):
    """What the page says under the headings of its sections: bullets, rows of tables and paragraphs."""
    found, is_in, goes_on = [], False, False
    for line in text.splitlines():
        if line.startswith("#"):
            is_in = line.startswith("## ")
        starts = line.startswith(("- ", "| ")) or not goes_on
        is_text = is_in and line.strip() and not re.fullmatch(r"#.*|\|[-|]+\|", line)
        if is_text and starts:
            found.append(line.removeprefix("- ").strip("| "))
        elif is_text:
            found[-1] += " " + line.strip()
        goes_on = bool(is_text)
    return [block for block in found if block not in HEADS]


def sentences(text):
    return [sentence for block in blocks(text) for sentence in re.split(r"(?<=\.) +(?=[A-Z`])", block)]


def exists(test):
    """Whether a test `file::name` is there: one of this folder, or of a crate."""
    path, name = test.split("::")
    file = ROOT / "crates" / path if path.endswith(".rs") else pathlib.Path(__file__).parent / path
    word = "fn" if path.endswith(".rs") else "def"
    return file.exists() and re.search(rf"\b{word} {name}\(", file.read_text(encoding="utf-8")) is not None


def test_every_sentence_has_its_tests():
    said = sentences(PAGE.read_text(encoding="utf-8"))
    for sentence, (beginning, _) in zip(said, SAID):
        assert sentence.startswith(beginning), f"no tests of this sentence in documented.py, at its place: {sentence}"
    assert len(said) == len(SAID), f"of one only: {said[len(SAID):]}, {SAID[len(said):]}"


def test_every_test_that_is_named_exists():
    missing = [test for _, tests in SAID if not tests.startswith("=") for test in tests.split(", ") if not exists(test)]
    assert not missing


def test_what_has_no_test_is_little():
    assert len([tests for _, tests in SAID if tests.startswith("=")]) <= 3


def test_a_sentence_without_a_test_is_found():
    page = "# Page\n\nNo part.\n\n## Part\n\n| What | Answer |\n|---|---|\n| a | b |\n\n- One. Two\n  goes on.\n- Three\n\nFour\nhere.\n"
    assert sentences(page) == ["a | b", "One.", "Two goes on.", "Three", "Four here."]
    assert exists("test_documented_differences.py::exists") and not exists("test_documented_differences.py::exist")
