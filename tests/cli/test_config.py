"""A TOML file may hold any option of a command; the command line wins; wrong types are told."""

import json

import pytest


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "options.toml"
        path.write_text(text)
        return path

    return write


def test_any_option(cli, trace, tmp_path, config):
    path = config(
        f"""
        json = true
        html = "{tmp_path}/run.html"
        store = "{tmp_path}/run.duckdb"
        all = true
        quiet = false
        no-color = true
        gpu = "h100"
        peak = 500
        model_flops_per_step = 1e9
        world-size = 2
        window = "all"
        """
    )
    done = cli("attribute", trace, "--config", path)
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert answer["peak"]["flop_per_s"] == 500e12
    assert answer["window"]["source"] == "whole_trace"
    assert (tmp_path / "run.html").is_file()
    assert (tmp_path / "run.duckdb").is_file()


def test_the_command_line_wins(cli, trace, config):
    path = config('json = true\npeak = "nominal"\ngpu = "a100"')
    done = cli("attribute", trace, "--config", path, "--gpu", "h100")
    assert json.loads(done.out)["peak"]["device"] == "H100-SXM5-80GB"


@pytest.mark.parametrize("command", ["report", "batch"])
def test_commands_read_the_options_that_they_have(cli, trace, tmp_path, config, command):
    place = {"report": f'html = "{tmp_path}/x.html"', "batch": f'lake = "{tmp_path}/lake"'}
    done = cli(command, trace, "--config", config(f'{place[command]}\ngpu = "h100"'))
    assert (done.code, done.err) == (0, "")
    wrong = cli(command, trace, "--config", config("json = true"))
    assert wrong.code == 2
    assert "unknown option 'json'" in wrong.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("window = 5", "--window 5"),
        ("max-memory = 4", "--max-memory 4: not a size"),
        ("seq-len = 5.5", "seq-len must be a whole number, not 5.5"),
        ('seq-len = "5"', "seq-len must be a whole number, not '5'"),
        ("seq-len = true", "seq-len must be a whole number, not True"),
        ("seq-len = 0", "--seq-len"),
        ('model-flops-per-step = "many"', "model-flops-per-step must be a number, not 'many'"),
        ('json = "yes"', "json must be true or false, not 'yes'"),
        ("with-stacks = 1", "with-stacks must be true or false, not 1"),
        ("html = true", "html must be text, not True"),
        ('model = ["gpt2"]', "model must be text, not ['gpt2']"),
        ("gpu = 2026-01-01", "gpu must be text"),
        ("nope = 1", "unknown option 'nope'"),
        ('config = "x"', "unknown option 'config'"),
        ('traces = "x"', "unknown option 'traces'"),
        ("nope", "not TOML"),
    ],
)
def test_what_is_wrong_is_told(cli, trace, config, text, message):
    done = cli("attribute", trace, "--config", config(text))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_file_that_cannot_be_read(cli, trace, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, message in (("none", "cannot be read"), (".", "cannot be read"), ("binary", "TOML")):
        done = cli("attribute", trace, "--config", tmp_path / name)
        assert done.code == 2
        assert message in done.err
