"""What is installed is complete: data files of the package are in the wheel."""

import subprocess
import sys
import zipfile


def test_wheel_holds_every_module_and_data_file(repository, package, tmp_path):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    done = subprocess.run(
        [*command, str(tmp_path), str(repository)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("tracelens/")}
        metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        entry_points = next(
            name for name in archive.namelist() if name.endswith("entry_points.txt")
        )
        assert b"tracelens = tracelens.cli:main" in archive.read(entry_points)
        assert b"Name: tracelens-mfu" in archive.read(metadata)
    expected = {
        path.relative_to(repository).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == expected
    assert {"tracelens/py.typed", "tracelens/store/schema.sql"} <= packed
