"""Few dependencies, each with a reason, each used, each declared."""

import ast
import re
import sys
import tomllib

REASONS = {
    "adbc_driver_sqlite": "large Nsight exports in SQLite, by column",
    "duckdb": "the store: every table, view and user query",
    "jinja2": "the HTML report; autoescape keeps hostile kernel names harmless",
    "msgspec": "decodes trace events without a dictionary each, numbers kept as text",
    "numpy": "the sweep over interval boundaries",
    "pandas": "data frames for notebooks",
    "plotly": "figures",
    "pyarrow": "columns in and out of DuckDB; Parquet",
    "typer": "the command line",
}


def declared(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["dependencies"]


def imported(modules):
    names = set()
    for text in modules.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"tracelens"}


def test_each_dependency_has_a_reason(repository):
    names = {re.split(r"[<>=!~ \[;]", line)[0] for line in declared(repository)}
    names = {name.replace("-", "_") for name in names}
    assert names == set(REASONS)


def test_each_dependency_has_a_lower_bound(repository):
    assert [line for line in declared(repository) if ">=" not in line] == []


def test_nothing_undeclared_is_imported(modules):
    assert imported(modules) - set(REASONS) == set()


def test_nothing_declared_is_unused(modules):
    # Arrow tables become data frames by pandas without an import of it in the package.
    assert set(REASONS) - imported(modules) - {"pandas"} == set()
