"""What does the documentation say about each rule? Pages made from the rules themselves."""

from tracelens.report.advice.rule import LEAST_POINTS, LEVERS, Rule, rules

_MADE = (
    "<!-- Made from tracelens/report/advice/rules by `make docs`: change the rule, not this. -->"
)


def pages() -> dict[str, str]:
    """Return the pages by file name: one a rule, and the list of all."""
    return {"README.md": _list(), **{f"{rule.id}.md": _page(rule) for rule in rules().values()}}


def _list() -> str:
    lines = [
        _MADE,
        "",
        "# Advice",
        "",
        f"A rule speaks about losses of at least {LEAST_POINTS:g} point whose confidence is medium",
        "or high, and says what in the trace made it speak. A run in which none speaks is healthy",
        "as far as these rules know.",
    ]
    for lever in LEVERS:
        members = [rule for rule in rules().values() if rule.lever == lever]
        lines += ["", f"## {lever.capitalize()}", ""]
        lines += [f"- [{rule.title}]({rule.id}.md): {rule.do}" for rule in members]
    return "\n".join(lines) + "\n"


def _page(rule: Rule) -> str:
    losses = ", ".join(f"`{loss}`" for loss in rule.losses)
    parts = [
        _MADE,
        f"# {rule.title}",
        f"**Do:** {rule.do}. **Because:** {rule.because}. **Lever:** {rule.lever}.",
        rule.why.strip(),
        "## When it speaks",
        _trigger(rule, losses),
    ]
    if rule.query:
        parts += [f"```sql\n{rule.query.strip()}\n```"]
    if rule.evidence:
        parts += [f"Its evidence reads: *{rule.evidence}*."]
    return "\n\n".join(parts) + "\n"


def _trigger(rule: Rule, losses: str) -> str:
    least = f"{rule.least_points:g} {'point' if rule.least_points == 1 else 'points'}"
    text = f"Losses {losses}, and what lies below them, amount to at least {least}, well founded"
    if not rule.query:
        return f"{text}."
    return f"{text}, and this query returns a row; its `points`, if it has them, count:"
