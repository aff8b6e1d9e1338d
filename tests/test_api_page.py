"""The page of all public names is what the library says now, and says something of every name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from eagerjit.tools import catalogue
from eagerjit.tools.differences import DIFFERENCES

ROOT = Path(__file__).resolve().parent.parent


def test_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "api.md").read_text()
    assert written == catalogue.page(), "run `python -m eagerjit api docs/api.md`"


def test_every_name_is_described() -> None:
    silent = re.findall(r"^\| (`\S+`) \|\s*\|$", catalogue.page(), re.MULTILINE)
    assert not silent


def test_differences_are_told_once_each() -> None:
    names = [d.names for d in DIFFERENCES]
    assert len(set(names)) == len(names)
    assert all(d.names and d.what and d.why for d in DIFFERENCES)
    assert all(f"| {d.what} |" in catalogue.page() for d in DIFFERENCES)


def test_command_prints_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eagerjit", "api"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("# The API") and "## eagerjit.nn.functional" in done.stdout
