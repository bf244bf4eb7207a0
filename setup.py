"""What pyproject.toml cannot say: the wheel carries this checkout's eval/ and notebooks/ as `socjudge/example`,
from where `socjudge init` copies them. No second copy is in git."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = (
    "eval/eval_dataset.json",
    "eval/eval_dataset_extended.json",
    "eval/runbooks/*",
    "eval/runbooks_index/*",
    "eval/prompts/*.txt",
    "eval/examples/*/judge_eval_*",
    "eval/examples/certificates/*.json",
    "notebooks/*.ipynb",
    "notebooks/voila.json",
)


class BuildWithExample(build_py):
    def example_files(self) -> list[str]:
        return sorted(str(path) for pattern in CARRIED for path in Path().glob(pattern))

    def run(self) -> None:
        super().run()
        for name in [] if self.editable_mode else self.example_files():
            target = Path(self.build_lib, "socjudge", "example", name)
            self.mkpath(str(target.parent))
            self.copy_file(name, str(target))

    def get_source_files(self) -> list[str]:
        """What the sdist takes: these files too, so that a wheel can be built of it."""
        return [*super().get_source_files(), *self.example_files()]


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithExample})
