"""What a run was made with is written down at each start: versions, and the commits of the user's own folders."""

import json
import os
import platform
import subprocess

import pytest
import torch

import finegraph as fg
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.records.starts import Commit, Start, add_start, folder_commit, read_starts


def git(folder, *arguments):
    author = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    environment = {**os.environ, **dict.fromkeys(author, "somebody"), "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", "-C", folder, *arguments], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout.strip()


def repository(folder):
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "menu.toml").write_text("seed = 0\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "the first settings")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def run(tmp_path):
    made = RunFolder.create(tmp_path / "runs" / "menu")
    made.write_config({"seed": 0})
    return made


def test_versions_and_the_commits_of_the_working_folder_and_of_the_photos(tmp_path, run, monkeypatch):
    project, photos = repository(tmp_path / "project"), repository(tmp_path / "photos")
    (tmp_path / "photos" / "menu.toml").write_text("seed = 1\n")
    (tmp_path / "photos" / "mapo tofu").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    add_start(run, tmp_path / "photos" / "mapo tofu")
    (start,) = read_starts(run)
    assert (start.finegraph, start.torch) == (fg.__version__, torch.__version__)
    assert start.python == platform.python_version()
    assert start.commits == (
        Commit(folder=str(tmp_path / "project"), commit=project, changed=False),
        Commit(folder=str(tmp_path / "photos"), commit=photos, changed=True),
    )
    assert str(start.commits[1]) == f"{photos} with changes ({tmp_path / 'photos'})"


def test_one_repository_is_named_once_and_a_file_that_git_does_not_know_is_no_change(tmp_path, run, monkeypatch):
    commit = repository(tmp_path / "project")
    (tmp_path / "project" / "photos").mkdir()
    (tmp_path / "project" / "photos" / "new.txt").write_text("new")
    monkeypatch.chdir(tmp_path / "project")
    start = add_start(run, tmp_path / "project" / "photos")
    assert start.commits == (Commit(folder=str(tmp_path / "project"), commit=commit, changed=False),)


def test_without_git_without_a_repository_or_without_a_commit_there_is_no_commit(tmp_path, monkeypatch):
    assert folder_commit(tmp_path) is None
    assert folder_commit(tmp_path / "gone") is None
    git(tmp_path, "init", "--quiet")
    assert folder_commit(tmp_path) is None
    repository(tmp_path / "project")
    assert folder_commit(tmp_path / "project") is not None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert folder_commit(tmp_path / "project") is None


def test_each_start_is_a_line_and_a_damaged_line_is_left_out(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = add_start(run, tmp_path)
    with open(run.starts_file, "a") as file:
        file.write('{"time": "2026')  # as a kill leaves it
    assert read_starts(run) == [first]
    second = add_start(run, tmp_path)
    with open(run.starts_file, "a") as file:
        file.write(json.dumps({**json.loads(run.starts_file.read_text().splitlines()[0]), "later": 1}) + "\n")
    assert read_starts(run) == [first, second, first]
    assert isinstance(first, Start)


def test_a_run_of_an_earlier_version_has_none(run):
    assert read_starts(run) == []
