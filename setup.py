"""The one thing that pyproject.toml cannot say: the documents of ``docs/`` go into the wheel, as ``monitor/docs``.

In a checkout they are read where they are (``monitor/core/documents.py``), so there is one source of them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

DOCUMENTS = ("*.md", "*.png")


def copy_documents(package: Path) -> None:
    """Copy the documents into the built package."""
    here = Path(__file__).parent / "docs"
    for path in (each for pattern in DOCUMENTS for each in here.rglob(pattern)):
        target = package / "docs" / path.relative_to(here)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


class WithDocuments(build_py):
    """Builds the packages, then copies the documents into ours."""

    def run(self) -> None:
        """Build; an editable install reads the checkout."""
        super().run()
        if not self.editable_mode:
            copy_documents(Path(self.build_lib) / "monitor")


if __name__ == "__main__":
    setup(cmdclass={"build_py": WithDocuments})
