"""The package as others have it: in an environment and a home of its own, far from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from docs.console import examples_in, files_in, outputs_match
from springline.persistence.profile import project_folder
from springline.services.settings import ServiceSettings

UV = (sys.executable, "-m", "uv")


def make_environment(venv: Path, wheel: Path, extras: str = "") -> None:
    """An environment with the wheel and some of its extras, all at the versions that the checkout pins."""
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, str(venv)], check=True)
    pins = ("--constraint", str(project_folder() / "requirements.txt"))
    requirement = f"springline{extras} @ {wheel.as_uri()}"
    install = [*UV, "pip", "install", "--quiet", "--link-mode", "hardlink", "--python", str(venv), *pins, requirement]
    subprocess.run(install, check=True)


def page(name: str) -> str:
    """A page of the documents."""
    return (project_folder() / "docs" / name).read_text(encoding="utf-8")


def write_files_of(text: str, folder: Path) -> None:
    """Put the files that a page shows into a folder."""
    for name, content in files_in(text).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def environment_of_a_user(settings: ServiceSettings, programs: Path, **more: str) -> dict[str, str]:
    """The environment of a person who has activated one with these programs, and uses the ports of `settings`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPRINGLINE_", "AIRFLOW"))}
    ports = {name: str(value) for name, value in settings.model_dump().items() if name.endswith("_port")}
    return {
        **inherited,
        **{f"SPRINGLINE_{name.upper()}": port for name, port in ports.items()},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SPRINGLINE_JARS_DIR": str(ServiceSettings().jars_folder),
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{settings.kafka_port}",
        **more,
    }


def run_script(
    script: str, folder: Path, environment: dict[str, str], seconds: float = 600, options: str = "-c"
) -> str:
    """What a script of bash prints, which is to end well."""
    completed_process = subprocess.run(
        ["bash", options, script], cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds
    )
    assert completed_process.returncode == 0, (
        f"{script}\n{completed_process.stdout[-6000:]}\n{completed_process.stderr[-4000:]}"
    )
    return completed_process.stdout


class Shell:
    """Runs commands in a folder as a person does who has activated an environment and knows of no checkout."""

    def __init__(self, venv: Path, folder: Path, **environment: str) -> None:
        inherited = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        self.folder = folder
        self.environment = {**inherited, "HOME": str(folder), "PATH": f"{venv / 'bin'}:/usr/bin:/bin", **environment}

    def __call__(self, command: str, status: int = 0) -> str:
        """What it prints; it is to end with this exit status."""
        completed_process = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert completed_process.returncode == status, (
            f"$ {command}\n{completed_process.stdout}\n{completed_process.stderr}"
        )
        return completed_process.stdout

    def export(self, line: str) -> None:
        """Run `export NAME=value …` for all commands after it."""
        assert line.startswith("export "), line
        marked = self(f"{line} && env -0")
        self.environment |= dict(pair.split("=", 1) for pair in marked.split("\0") if "=" in pair)

    def run_examples(self, text: str) -> None:
        """Run the console blocks of a page, each command in the same folder, and compare what they print."""
        for example in examples_in(text):
            if example.command.startswith("export "):
                self.export(example.command)
                continue
            output = self(f"({example.command}) 2>&1 || true")
            assert outputs_match(example.output, output), (
                f"the page shows something else: $ {example.command}\n{output}"
            )
