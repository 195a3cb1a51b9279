"""The one thing that pyproject.toml cannot say: files from outside the packages go into the wheel.

The documents of ``docs/`` become ``monitor/docs``; the shipped alerts.yaml and the schedules ``monitor/shipped``. In a
checkout they are read where they are (``monitor/core/documents.py``, ``shipped.py``), so there is one source of them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
DOCUMENTS = ("*.md", "*.png")
SHIPPED = ("alerts.yaml", "deployments/logging.yml", "deployments/prefect.yaml")


def copied_files() -> dict[str, Path]:
    """Where each file goes in the package, and where it is in the checkout."""
    docs = HERE / "docs"
    found = {f"docs/{p.relative_to(docs).as_posix()}": p for kind in DOCUMENTS for p in docs.rglob(kind)}
    return found | {f"shipped/{name}": HERE / name for name in SHIPPED}


def copy_files(package: Path) -> None:
    """Copy them into the built package."""
    for name, path in copied_files().items():
        target = package / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


class WithFiles(build_py):
    """Builds the packages, then copies the files into ours."""

    def run(self) -> None:
        """Build; an editable install reads the checkout."""
        super().run()
        if not self.editable_mode:
            copy_files(Path(self.build_lib) / "monitor")


if __name__ == "__main__":
    setup(cmdclass={"build_py": WithFiles})
