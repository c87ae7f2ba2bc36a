"""A package of an extra is imported on demand; a missing or broken one is one line with its reason."""

import math
from pathlib import Path

import pytest

from rlstudio.core.errors import UserError
from rlstudio.core.host.extras import Extra


def test_one_that_is_there_is_imported():
    extra = Extra("numbers", "math")
    assert extra.installed
    assert extra.load("field", "value") is math


def test_one_that_is_missing_comes_with_the_command():
    extra = Extra("minigrid", "no_such_module_of_things")
    assert not extra.installed
    with pytest.raises(UserError) as caught:
        extra.load("field", "value")
    hint = 'run `pip install "minigrid>=3.0,<4"`'
    assert str(caught.value) == f"field: value needs no_such_module_of_things; {hint}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module_below", "No module named"),
        ("raise ImportError('two\\nlines')", "two lines"),
        ("None.eglQueryString", "AttributeError: 'NoneType' object has no attribute 'eglQueryString'"),
    ],
)
def test_one_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str):
    (tmp_path / "broken_module_of_things.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"is installed but does not start: {reason}") as caught:
        Extra("things", "broken_module_of_things").load("field", "value")
    assert "\n" not in str(caught.value)
