"""Where the tests that look at pages get their Chromium from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from springline.services.errors import ProgramNotFoundError
from springline.services.packages.chromium import ensure_chromium, find_chromium


def program(folder: Path, name: str) -> Path:
    """An executable file of this name."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_chromium_that_is_named_comes_before_the_one_on_the_path(tmp_path):
    """One without windows before others; one that is named and is none is an error, not a reason to take another."""
    program(tmp_path / "bin", "chromium")
    here = program(tmp_path / "bin", "chromium-headless-shell")
    mine = program(tmp_path / "mine", "browser")
    path = str(tmp_path / "bin")
    assert find_chromium({"PATH": ""}) is None
    assert find_chromium({"PATH": path}) == here
    assert find_chromium({"PATH": path, "CHROME_BIN": str(mine)}) == mine
    with pytest.raises(ProgramNotFoundError, match="CHROME_BIN=nothing is not a program"):
        find_chromium({"PATH": path, "CHROME_BIN": "nothing"})


@pytest.mark.parametrize("package", ["chromium-headless-shell", "chromium"])
def test_one_that_is_missing_is_installed_where_that_may_be_done(tmp_path, package):
    """From Debian's packages, once: the one without windows, or with them where there is no other."""
    program(tmp_path, "apt-get")
    commands = []

    def run(command):
        commands.append(command[-1])
        if command[-1] == package:
            program(tmp_path, package)
        elif command[1] == "install":
            raise subprocess.CalledProcessError(100, command)

    for _ in range(2):
        assert ensure_chromium({"PATH": str(tmp_path)}, root=True, run=run) == tmp_path / package
    assert commands == ["update", "chromium-headless-shell", "chromium"][: 2 + (package == "chromium")]


def test_where_it_may_not_be_installed_the_error_says_what_to_do(tmp_path):
    """No right to, no Debian, a package source that does not answer, or a package without the program."""
    program(tmp_path / "debian", "apt-get")

    def fails(command):
        raise subprocess.CalledProcessError(100, command)

    debian = {"PATH": str(tmp_path / "debian")}
    for environment, root, run, message in (
        (debian, False, fails, "no Chromium on the PATH"),
        ({"PATH": str(tmp_path)}, True, fails, "no Chromium on the PATH"),
        (debian, True, fails, "could not be installed"),
        (debian, True, lambda command: None, "there is no Chromium on the PATH"),
    ):
        with pytest.raises(ProgramNotFoundError, match=f"{message}.*apt install chromium"):
            ensure_chromium(environment, root=root, run=run)
