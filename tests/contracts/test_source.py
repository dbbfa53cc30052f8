"""House rules that no linter knows: size of modules, where kernel names stand, what is banned."""

import ast
import re

MAX_MODULE_LINES = 400
MAX_SQL_LINES = 200
KERNEL_NAME = re.compile(
    r"nccl(Dev|SymkDev)?Kernel|_gemm_(bf16|f16|f32|s8|nn|nt|tn)|cutlass|flash_fwd|flash_bwd|nvjet|s16816"
    r"|vectorized_elementwise|triton_(poi|red|per)_|deep_ep|multi_tensor_apply",
    re.IGNORECASE,
)
MAY_NAME_KERNELS = ("classify/", "simulate/")


def literals(text: str) -> list[str]:
    """Return the string literals of a module, docstrings left out."""
    tree = ast.parse(text)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


def test_modules_are_short(modules):
    lines = {path: text.count("\n") for path, text in modules.items()}
    assert {path: count for path, count in lines.items() if count > MAX_MODULE_LINES} == {}


def test_sql_files_are_short(sql_files):
    lines = {path: text.count("\n") for path, text in sql_files.items()}
    assert {path: count for path, count in lines.items() if count > MAX_SQL_LINES} == {}


def test_kernel_names_are_matched_in_one_place(modules, sql_files):
    found = [
        (path, literal)
        for path, text in modules.items()
        if not path.startswith(MAY_NAME_KERNELS)
        for literal in literals(text)
        if KERNEL_NAME.search(literal)
    ]
    found += [
        (path, line)
        for path, text in sql_files.items()
        if not path.startswith(MAY_NAME_KERNELS)
        for line in text.splitlines()
        if KERNEL_NAME.search(line.partition("--")[0])
    ]
    assert found == []


def test_rows_are_never_written_one_by_one(modules):
    # Half a millisecond a row: a million kernels would take ten minutes.
    # The simulator writes SQLite files, where it is the fast way, and cannot reach the store.
    users = [path for path, text in modules.items() if "executemany" in text]
    assert [path for path in users if not path.startswith("simulate/")] == []


def test_input_is_never_executed(modules):
    banned = {"eval", "exec", "compile"}
    calls = [
        (path, node.func.id)
        for path, text in modules.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in banned
    ]
    imports = [
        path
        for path, text in modules.items()
        if re.search(r"^\s*(import|from) (pickle|marshal|shelve|dill)\b", text, re.MULTILINE)
    ]
    assert calls == []
    assert imports == []


def test_every_module_says_which_question_it_answers(modules):
    assert [path for path, text in modules.items() if not ast.get_docstring(ast.parse(text))] == []


def test_folders_are_named_after_what_they_do(package):
    vague = {"utils", "util", "common", "core", "helpers", "base", "manager", "misc"}
    names = {path.stem for path in package.rglob("*") if path.is_dir() or path.suffix == ".py"}
    assert names & vague == set()


def test_the_checks_see_what_they_look_for():
    assert literals('"""doc ncclKernel"""\nx = "flash_fwd"\n') == ["flash_fwd"]
    assert KERNEL_NAME.search("ncclDevKernel_AllReduce")
    assert not KERNEL_NAME.search("nccl:all_reduce")
