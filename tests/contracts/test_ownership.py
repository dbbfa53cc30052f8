"""Who writes which table: every private table has one owner, and only the owner writes it."""

import ast
import re

import tracelens
from tracelens.store import Store

ANY = "any stage"
OWNER = {
    "note": ANY,  # what a reader of the report should know; each stage adds its own
    "meta": "store",
    "name": "store",
    "result": "store",
    **dict.fromkeys(
        (
            "input",
            "damage",
            "process",
            "thread",
            "gpu",
            "activity",
            "host_call",
            "op",
            "range",
            "overhead",
            "stream_wait",
            "collective",
            "link",
        ),
        "ingest",
    ),
    **dict.fromkeys(("activity_class", "host_label", "kernel_tiling"), "classify"),
    **dict.fromkeys(("activity_flop", "recomputed", "activity_place", "ladder"), "flops"),
    **dict.fromkeys(
        (
            "activity_dimension",
            "process_group",
            "peer_message",
            "clock",
            "exchange",
            "exchange_member",
        ),
        "comm",
    ),
    **dict.fromkeys(
        ("step", "window_info", "activity_step", "segment", "hidden", "concurrency", "calibration"),
        "attribution",
    ),
}
WRITE = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|(?:CREATE|DROP|ALTER)\s+TABLE(?:\s+IF\s+(?:NOT\s+)?EXISTS)?)"
    r"\s+raw\.(\w+)",
    re.IGNORECASE,
)
MENTION = re.compile(r"\braw\.([a-z_]+)\b")


def owner_of(path: str) -> str:
    return path.partition("/")[0]


def is_scratch(path: str, table: str) -> bool:
    """Tell whether a table is a package's own for the time of its work: named after it."""
    return table.startswith(f"{owner_of(path)}_")


def may_write(path: str, table: str) -> bool:
    return OWNER.get(table) in {owner_of(path), ANY} or is_scratch(path, table)


def sql_in(modules: dict[str, str]) -> dict[str, str]:
    """Text of the string literals of each module, docstrings left out."""
    found = {}
    for path, text in modules.items():
        tree = ast.parse(text)
        prose = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        literals = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in prose
        ]
        found[path] = "\n".join(literals)
    return found


def appended_tables(text: str) -> list[str | None]:
    """First argument of each ``store.append(table, columns)``; None where it is no literal.

    ``list.append`` takes one argument, ``Store.append`` two (and so does ``numpy.append``).
    """
    tables = []
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            and len(node.args) + len(node.keywords) == 2
            and ast.unparse(node.func.value) not in {"np", "numpy"}
        ):
            first = node.args[0] if node.args else node.keywords[0].value
            literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
            tables.append(first.value if literal else None)
    return tables


def test_every_private_table_has_an_owner(empty_store):
    tables = {
        name
        for (name,) in empty_store.rows(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'raw'"
        )
    }
    assert tables == set(OWNER)


def test_statements_write_only_tables_of_their_own_package(modules, sql_files):
    texts = {**sql_in(modules), **sql_files}
    texts = {path: text for path, text in texts.items() if not path.startswith("store/schema")}
    foreign = [
        (path, table)
        for path, text in texts.items()
        for table in WRITE.findall(text)
        if not may_write(path, table)
    ]
    assert foreign == []


def test_batches_are_appended_only_to_tables_of_the_same_package(modules):
    foreign = [
        (path, table)
        for path, text in modules.items()
        for table in appended_tables(text)
        if table is not None and not may_write(path, table)
    ]
    assert foreign == []


def test_only_importers_append_to_tables_named_by_a_variable(modules):
    # An importer fills a dozen tables in one loop; elsewhere the name must be readable here.
    unnamed = {owner_of(path) for path, text in modules.items() if None in appended_tables(text)}
    assert unnamed <= {"ingest"}


def test_every_private_table_that_is_mentioned_exists(modules, sql_files):
    texts = {**sql_in(modules), **sql_files}
    unknown = {
        (path, table)
        for path, text in texts.items()
        for table in MENTION.findall(text)
        if table not in OWNER and not is_scratch(path, table)
    }
    assert unknown == set()


def test_no_scratch_table_outlives_its_stage(samples, tmp_path):
    trace, path = samples / "single_gpu.json.gz", tmp_path / "run.duckdb"
    with tracelens.attribute(trace, store=path):
        pass
    with Store.open(path) as store:
        tables = store.rows(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal"
        )
    assert set(tables) == {("raw", name) for name in OWNER}


def test_the_checks_see_what_they_look_for():
    assert WRITE.findall("insert into raw.step SELECT 1; Update raw.gpu SET x = 1") == [
        "step",
        "gpu",
    ]
    assert appended_tables('s.append("step", {})\nrows.append(1)\ns.append(t, {})') == [
        "step",
        None,
    ]
