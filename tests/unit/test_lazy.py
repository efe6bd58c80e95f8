"""Names of packages that are loaded when they are first used."""

from __future__ import annotations

import importlib
import sys
import types

import pytest

from noracle._lazy import RENAMED, lazy
from noracle.errors import MissingExtra


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("noracle.toy")
    monkeypatch.setitem(sys.modules, "noracle.toy", module)
    return module


def test_a_name_is_loaded_once_and_kept(package: types.ModuleType) -> None:
    load, names, public = lazy("noracle.toy", {"noracle.errors": "fault MissingExtra"})
    assert public == ["MissingExtra", "fault"]
    assert "fault" in names()
    assert not hasattr(package, "fault")
    assert load("fault") is package.fault
    with pytest.raises(AttributeError, match=r"module 'noracle.toy' has no attribute 'other'"):
        load("other")


def test_a_missing_library_is_named_with_its_extra(package: types.ModuleType) -> None:
    load, _, _ = lazy("noracle.toy", {"absent_library.part": "thing"}, libraries={})
    with pytest.raises(ModuleNotFoundError, match="absent_library"):
        load("thing")
    libraries = {"absent_library": "absent-library"}
    load, _, _ = lazy("noracle.toy", {"absent_library.part": "thing"}, libraries=libraries)
    with pytest.raises(MissingExtra, match=r"thing needs absent-library.*noracle\[toy\]"):
        load("thing")


def test_a_name_of_an_older_release_says_what_it_is_called_now(package: types.ModuleType) -> None:
    load, _, public = lazy("noracle.toy", {"noracle.errors": "fault"}, renamed={"mistake": "fault"})
    assert public == ["fault"]
    with pytest.raises(AttributeError, match=r"'mistake'; it is called fault now"):
        load("mistake")


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        ("noracle.ppi", "Label", "LabelType"),
        ("noracle.simulate", "Task", "PictureTask"),
        ("noracle.search", "Question", "PosedQuestion"),
        ("noracle.oversight", "Settings", "FolderSettings"),
        *((package, *pair) for package in ("noracle", "noracle.logic") for pair in RENAMED.items()),
    ],
)
def test_old_names_of_packages_say_the_new_one(package: str, old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=f"it is called {new} now"):
        getattr(importlib.import_module(package), old)
    assert hasattr(importlib.import_module(package), new)
    assert not hasattr(importlib.import_module(package), old)
    with pytest.raises(ImportError, match=f"it is called {new} now"):
        exec(f"from {package} import {old}")


def test_dir_of_noracle_lists_public_names_only() -> None:
    noracle = importlib.import_module("noracle")
    assert dir(noracle) == sorted({*noracle.__all__, "collect", "learn", "search"})
    assert not {"importlib", "TYPE_CHECKING", "annotations", "Any"} & set(dir(noracle))
