"""Exit codes are documented, and each error has its own."""

import re

from tracelens import errors

DOCUMENTED = {
    "UsageError": 2,
    "IdentityError": 3,
    "AbstainedError": 4,
    "GateError": 5,
    "InputError": 6,
    "ExternalToolError": 7,
}


def test_exit_codes_are_those_documented():
    classes = {error.__name__: error.exit_code for error in errors.TraceLensError.__subclasses__()}
    assert classes == DOCUMENTED
    assert errors.TraceLensError.exit_code == 1


def test_the_drawing_at_the_top_is_true():
    drawn = re.findall(r"── (\w+)\s+(\d)\s", errors.__doc__ or "")
    assert {name: int(code) for name, code in drawn} == DOCUMENTED


def test_an_error_keeps_message_and_hint():
    error = errors.InputError("trace.json: empty", hint="record again")
    assert (str(error), error.message, error.hint) == (
        "trace.json: empty",
        "trace.json: empty",
        "record again",
    )
