"""The wheel a user installs: typed, with every ready experiment inside, and nothing that is not ours."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from rlstudio.core.host.installation import DISTRIBUTION

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_the_package_and_its_configs(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "NOTICE.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.glob(f"{DISTRIBUTION}-*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert "rlstudio/py.typed" in inside
    for path in (ROOT / "src/rlstudio").rglob("*"):
        if path.suffix in (".py", ".yaml"):
            assert f"rlstudio/{path.relative_to(ROOT / 'src/rlstudio').as_posix()}" in inside
    tops = {name.split("/")[0] for name in inside}
    assert tops == {"rlstudio", next(name for name in tops if name.endswith(".dist-info"))}
