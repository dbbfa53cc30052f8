"""What does the code say about itself? The pages of ``docs/reference``, made by ``make docs``."""

import csv
import io
from collections.abc import Iterable, Sequence
from importlib import resources
from itertools import groupby
from typing import Any

import typer

from tracelens import errors
from tracelens.classify.rules import class_table
from tracelens.cli.app import app
from tracelens.flops.conventions import CONVENTIONS
from tracelens.store import Store
from tracelens.taxonomy import (
    CLASS_LEAF,
    DIMENSIONS,
    GROUP_TITLES,
    GROUPS,
    INEFFICIENCY_TITLES,
    LEAF_TITLES,
    group_of_leaf,
)
from tracelens.views import VIEWS

_RATES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4")


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {
        "commands.md": _page("Commands", "tracelens/cli", _commands()),
        "conventions.md": _page("Conventions", "tracelens/flops/conventions.py", _conventions()),
        "kernel-classes.md": _page(
            "Kernel classes", "tracelens/classify/kernels.toml", _kernel_classes()
        ),
        "peaks.md": _page("Peaks", "tracelens/flops/hardware.csv", _peaks()),
        "taxonomy.md": _page("Where a nanosecond may go", "tracelens/taxonomy.py", _taxonomy()),
        "views.md": _page("Views", "tracelens/views", _views()),
    }


def _page(title: str, source: str, parts: Iterable[str]) -> str:
    made = f"<!-- Made from {source} by `make docs`: change that, not this. -->"
    return "\n\n".join((made, f"# {title}", *parts)) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`"


def _taxonomy() -> Iterable[str]:
    yield (
        "Every nanosecond of every GPU belongs to exactly one leaf; a group rolls leaves up for a "
        "headline. Ids are stable: they stand in stores, JSON and baselines."
    )
    for group in GROUPS:
        leaves = [leaf for leaf in LEAF_TITLES if group_of_leaf(leaf) == group]
        rows = [(_code(leaf), LEAF_TITLES[leaf]) for leaf in leaves if not leaf.startswith("comm.")]
        if rows:
            yield f"## {GROUP_TITLES[group].capitalize()} (`{group}`)"
            yield _table(("leaf", "words"), rows)
        else:
            yield f"## {GROUP_TITLES[group].capitalize()} (`{group}`)"
            dimensions = ", ".join(_code(name) for name in DIMENSIONS)
            yield (
                "`comm.<dimension>.transfer`, `.wait` and, where the two cannot be told apart, "
                f"`.undivided`, for the dimensions {dimensions}."
            )
    yield "With one rank only, `comm.pp.undivided` counts as pipeline bubble."
    yield "## What FLOP-bearing kernels lose below the peak"
    yield _table(("loss", "words"), ((_code(k), words) for k, words in INEFFICIENCY_TITLES.items()))


def _views() -> Iterable[str]:
    yield (
        "What `tracelens sql` and `Run.sql` may query; `Run.to_pandas` returns any of them whole. "
        "Times are integer nanoseconds."
    )
    with Store() as store:
        for view in VIEWS:
            [comment] = store.rows(
                "SELECT comment FROM duckdb_views() WHERE schema_name = 'main' AND view_name = ?",
                [view],
            )[0]
            columns = store.rows(
                "SELECT column_name, data_type, comment FROM duckdb_columns() "
                "WHERE schema_name = 'main' AND table_name = ? ORDER BY column_index",
                [view],
            )
            yield f"## {view}"
            yield comment
            rows = ((_code(name), kind, words) for name, kind, words in columns)
            yield _table(("column", "type", "meaning"), rows)


def _commands() -> Iterable[str]:
    commands = typer.main.get_command(app).commands
    analysis = [
        command for command in commands.values() if _flags(command) >= {"--model", "--window"}
    ]
    shared = set.intersection(*(_flags(command) for command in analysis))
    for name, command in commands.items():
        yield f"## tracelens {name}"
        yield " ".join((command.help or "").split())
        yield _table(
            ("argument or option", "meaning"),
            (
                _option(item)
                for item in command.params
                if command not in analysis or shared.isdisjoint(item.opts)
            ),
        )
        if command in analysis:
            yield "and the [options of every analysis](#options-of-every-analysis)."
    yield "## Options of every analysis"
    yield "They stand in a file as well as on the command line (`--config FILE`, TOML, same names)."
    yield _table(
        ("option", "meaning"),
        (_option(item) for item in analysis[0].params if not shared.isdisjoint(item.opts)),
    )
    yield "## Exit status"
    kinds = [kind for kind in vars(errors).values() if _is_error(kind)]
    rows = [(0, "Success."), *((kind.exit_code, _first_line(kind)) for kind in kinds)]
    rows += [(1, "A bug: a traceback that asks to be reported."), (130, "Interrupted.")]
    yield _table(("status", "meaning"), sorted(rows, key=lambda row: row[0]))


def _flags(command: Any) -> set[str]:
    return {flag for item in command.params for flag in item.opts if flag.startswith("--")}


def _option(item: Any) -> tuple[str, str]:
    """Return how a parameter is spelled and what it means, whatever version of Typer prints it."""
    if item.param_type_name == "argument":
        return _code(item.metavar or item.name.upper()), item.help or ""
    value = "" if item.is_flag else f" {item.metavar or 'VALUE'}"
    words = item.help or ""
    return _code(f"{', '.join(item.opts)}{value}"), f"{words} Required." if item.required else words


def _is_error(kind: object) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, errors.TraceLensError)
        and kind is not errors.TraceLensError
    )


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _kernel_classes() -> Iterable[str]:
    yield (
        "What a kernel is, by its metadata, else by the first rule that its name matches, else by "
        "the operator that launched it. Add a rule where a name is classified wrongly: "
        "[CONTRIBUTING](../../CONTRIBUTING.md#recipes)."
    )
    by_class = {name: list(rules) for name, rules in _by_value()}
    rows = []
    for name, leaf in CLASS_LEAF.items():
        rules = by_class.get(name, [])
        example = next((text for rule in rules for text in rule.examples), "")
        rows.append((_code(name), _code(leaf), len(rules), _code(example) if example else ""))
    yield _table(("class", "charged to", "rules by name", "example"), rows)


def _by_value() -> Iterable[tuple[str, Iterable]]:
    return groupby(
        sorted(class_table().rules, key=lambda rule: rule.value), key=lambda rule: rule.value
    )


def _conventions() -> Iterable[str]:
    yield (
        "How model FLOPs are counted (`--convention`). `tracelens flops --model NAME --seq N` "
        "prints what each gives for a model, and what a throughput means under it."
    )
    yield _table(
        ("name", "choices", "source"),
        ((_code(item.name), item.choices(), item.source) for item in CONVENTIONS.values()),
    )


def _peaks() -> Iterable[str]:
    yield (
        "Dense nominal rates in TFLOP/s (TOP/s for int8), bandwidth in GB/s, without sparsity. A "
        "device that is not listed has no peak: give `--peak` a number."
    )
    text = resources.files("tracelens.flops").joinpath("hardware.csv").read_text(encoding="utf-8")
    head = ("device", "units", "clock, MHz", *_RATES, "memory", "source")
    columns = ("model", "units", "spec_clock_mhz", *_RATES, "mem_bw_gbs", "source")
    rows = csv.DictReader(io.StringIO(text))
    yield _table(head, ([row[column] for column in columns] for row in rows))
