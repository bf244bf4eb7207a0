"""What a user sees is in one language: help, a run, a report and the panels, in Japanese and in English."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT
from support.package_modules import PACKAGE

from socjudge.base.verdict import FINISHED, SUMMARY
from socjudge.cli.shared import COSTS_MONEY
from socjudge.prompts.templates import load_prompt
from socjudge.runbooks.index import RunbookIndex

MESSAGES = tomllib.loads((PACKAGE / "messages" / "ja.toml").read_text(encoding="utf-8"))
SENTENCES: dict[str, str] = {english: japanese for english, japanese in MESSAGES.items() if english != "columns"}
SPECIFIED = f"{FINISHED}{SUMMARY}{COSTS_MONEY}{load_prompt('guide-1').text}"  # Japanese in every language
FIELD = re.compile(r"\{[^{}]*\}")
# Prints all that there is to see in a project: of commands, of a report and of the panels.
SCREENS = """
import os
from pathlib import Path
import ipywidgets
from typer.testing import CliRunner
import socjudge as sj
from socjudge.cli.app import app
from socjudge.report import contents

contents.chart_url = lambda plot, frame: "data:,"  # a picture has no words; drawing takes most of a report

def see(*arguments):
    print(CliRunner().invoke(app, arguments).output)

see("init", ".")
sj.open_project(".")
see("index")
see("--help")
for name in sorted(command.name or command.callback.__name__ for command in app.registered_commands):
    see(name, "--help")
see("run", "--judge-model", "offline", "--assistant-model", "offline", "--quiet")
for arguments in (["doctor"], ["settings"], ["unfinished"], ["report", "report.html", "--log", min(Path("logs").glob("*.json")).name, "--lang", os.environ["SOCJUDGE_LANG"]]):
    see(*arguments)
print(Path("report.html").read_text("utf-8"))
run = sj.load_run(min(Path("logs").glob("*.json")))
for each in (run, run.results[0], sj.plan_run(sj.load_eval_dataset(), judge_model="offline", assistant_model="offline")):
    print(repr(each), each._repr_html_())
for panel in (sj.RunPanel(), sj.AskPanel(), sj.PromptLab(), sj.HistoryExplorer(), sj.LabelPanel(), sj.app()):
    left = [panel]
    while left:
        widget = left.pop()
        for name in ("value", "description", "placeholder", "tooltip"):
            print(getattr(widget, name, ""))
        print(getattr(widget, "titles", ""), [text for text, *_ in getattr(widget, "_options_full", ())])
        left += getattr(widget, "children", ())
"""


def seen(lang: str, folder: Path, index: Path) -> str:
    """All screens as one text, without spaces: help and pages are broken into lines anywhere."""
    environment = {**os.environ, "SOCJUDGE_LANG": lang, "PYTHONPATH": str(ROOT), "COLUMNS": "500", "PYTHONUTF8": "1"}
    shutil.copytree(index, folder / ".socjudge" / "index")
    made = subprocess.run(
        [sys.executable, "-c", SCREENS], cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    assert made.returncode == 0, made.stderr[-2000:]
    return re.sub(r"\s+", "", re.sub(r"<style.*?</style>|<[^>]*>", "", made.stdout, flags=re.DOTALL))


def parts(sentence: str, least: int) -> list[str]:
    """The parts between the fields that are long enough to be known again, without spaces."""
    found = (re.sub(r"\s+", "", part) for part in FIELD.split(sentence))
    return [part for part in found if len(part) >= least]


@pytest.mark.slow
@pytest.mark.parametrize(("lang", "other", "least"), [("ja", 0, 20), ("en", 1, 9)])
def test_no_screen_has_a_sentence_of_the_other_language(
    lang: str, other: int, least: int, tmp_path: Path, index: RunbookIndex
) -> None:
    screens = seen(lang, tmp_path, index.index_dir)
    own = "".join(re.sub(r"\s+", "", pair[1 - other]) for pair in SENTENCES.items())
    foreign = {part for pair in SENTENCES.items() for part in parts(pair[other], least)}
    assert len(screens) > 50_000
    kept = re.sub(r"\s+", "", SPECIFIED) + own  # an English name may stand in the Japanese text, too
    assert sorted(part for part in foreign if part in screens and part not in kept) == []
