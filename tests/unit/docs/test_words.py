"""Plain technical English: the words that the glossary replaced do not come back."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.core.wording import OVERCONFIDENCE
from tests.write_commands import commands, help_of

ROOT = Path(__file__).parents[3]
#: What is replaced, and by what. Each key is a regular expression, for any case of letters, in text on one line.
REPLACED = {
    r"\bbec(?:ame|omes?) of\b": "result",
    r"\b(?:told|tells?|telling)\b": "notified, reports, says; of two things: distinguish, separate",
    r"\b(?:stands?|stood|standing)\b(?! for\b)": "is, appears",
    r"\bmend(?:s|ed|ing)?\b": "fix, fixed",
    r"\bsurely\b|\b(?<!make )(?:sure|surer|surest)\b": "significant, confirmed",
    r"\bpromise[sd]? more\b|\bthan (?:it|they) (?:keeps?|kept)\b": "is overconfident: 62% correct, scores claimed 88%",
    r"\bno longer means? what\b": "calibration got worse: ECE .11, was .003",
    r"\bwent wrong\b|\bpoints at worst\b": "worst in scores .68 to .79: 33 points too high (baseline 1.4)",
    r"\bunexplained\b": "overconfidence",
    r"\benables? (?:holds?|held)\b": "left on: enabled by NAME until Fri 09:00",
    r"\blook(?:s|ed|ing)? whether\b|\bscheduler lives\b": "check that the scheduler is running",
    r"\bwrite instead\b|\bvalid yaml\b": "fix: ..., or: fix the YAML syntax on this line",
    # "in breach in 3 of 5 weeks since W33" is another thing: not all of these weeks
    r"\bin breach in (?:\d+|\{[^}]*\}) (?:weeks?|days?|\{)": "in breach for 10 weeks (since W33)",
}  # fmt: skip
PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in REPLACED), re.IGNORECASE)
PAGES = ("docs/**/*.md", "docs/openapi.json", "README.md", "CONTRIBUTING.md")
SETTINGS = ("alerts.yaml", ".env.example", "docker-compose.yml", "Makefile", "pyproject.toml", "deployments/**/*.*")
TEMPLATES = tuple(f"monitor/report/templates/**/*.{ending}" for ending in ("j2", "css", "js"))
GOLDEN = ("tests/cases/**/*.*",)


def files(*patterns: str) -> list[Path]:
    """The files of the project that fit, in order; no pattern is without one."""
    found = [sorted(path for path in ROOT.glob(pattern) if path.is_file()) for pattern in patterns]
    assert all(found)
    return [path for some in found for path in some if "__pycache__" not in path.parts]


def written(value: ast.JoinedStr) -> str:
    """An f-string as it is written, each expression by ``{}``."""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in value.values)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The strings and comments of a module, docstrings included; one word alone is a key, not a sentence."""
    tree = ast.parse(text)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, written(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def replaced(text: str) -> list[str]:
    """The words of a text that are replaced. Code in backticks is no sentence, unless it is all there is."""
    plain = " ".join(re.sub(r"``[^`\n]+``", "``", text).split())
    return [found.group() for found in PATTERN.finditer(plain)] if " " in plain else []


def phrases(lines: str) -> list[str]:
    """The phrases between slashes or ends of lines."""
    return [phrase.strip() for phrase in re.split(r" / |\n", lines)]


def test_the_list_itself() -> None:
    bad = """What became of it / It was told / this tells you / it stands in the way / stands beside / as they stood
        mend it / mended by hand / surely so / is it sure? / a label promises more than it keeps
        has scores that no longer mean what they did / has a score range that went wrong
        overconfidence (unexplained) / 1.4 points at worst in the baseline
        an operator's enable holds / look whether the scheduler lives / write instead: valid YAML
        in breach in 10 weeks since W33 / in breach in {} {}s since {}"""
    assert [text for text in phrases(bad) if not replaced(text)] == []
    good = """the result / a pattern stands for names / make sure that / in breach for 10 weeks (since W33) / told
        use ``told`` here / in breach in 3 of 5 weeks since W33 / in breach in {} of {} {}s"""
    assert [text for text in phrases(good) if replaced(text)] == []


def test_no_string_docstring_or_comment_of_the_program_has_a_replaced_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words} in {' '.join(text.split())[:200]}"
        for path in files("monitor/**/*.py", "flows/**/*.py")
        for line, text in sentences(path.read_text("utf-8"))
        if (words := replaced(text))
    ]
    assert found == []


@pytest.mark.parametrize("kind", [PAGES, SETTINGS, TEMPLATES, GOLDEN], ids=["pages", "settings", "templates", "golden"])
def test_no_document_has_a_replaced_word(kind: tuple[str, ...]) -> None:
    found = []
    for path in files(*kind):
        text = path.read_text("utf-8")
        for match in PATTERN.finditer(re.sub(r"[`\n]", " ", text)):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path.relative_to(ROOT)}:{line}: {match.group()}")
    assert found == []


def test_no_help_of_a_command_has_a_replaced_word() -> None:
    found = {" ".join(words): help_of(words) for words in commands()}
    assert len(found) > 30
    assert {name: words for name, text in found.items() if (words := replaced(text))} == {}


DOCUMENTS = [path for path in files("docs/**/*.md", "README.md") if path.name != "commands.md"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_page_says_what_a_overconfidence_is_where_it_first_names_it(path: Path) -> None:
    prose = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    plain = " ".join(re.sub(r"(automated|lasting)-overconfidence", "", prose).lower().split())
    first = re.search(r"overconfidence", plain)
    if first is not None:
        around = plain[max(0, first.start() - 120) : first.end() + 120]
        assert "overconfidence" in around
        assert re.search(r"mean score minus (?:the )?(?:accuracy|hit rate)", around)


def test_the_report_says_what_a_overconfidence_is_before_its_first_value() -> None:
    page = (ROOT / "monitor/report/templates/report.html.j2").read_text("utf-8")
    assert page.index("Overconfidence: {{ overconfidence }}") < page.index('"overconfidence"')
    assert OVERCONFIDENCE == "mean score minus accuracy"


def test_no_name_of_a_test_has_a_replaced_word() -> None:
    names = {
        name
        for path in files("tests/**/*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(names) > 1000
    assert [name for name in sorted(names) if replaced(name.replace("_", " "))] == []
