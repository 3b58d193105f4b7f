from __future__ import annotations

import pytest

from refladder.errors import DataError
from refladder.loaders.task_files import read_task

TASK = """\
task = "open"

[[dimensions]]
name = "clarity"
description = "Whether it is clear."
low = 1
high = 5
"""
DIMENSION = TASK.partition("\n\n")[2]


def test_a_task_file_gives_the_task_and_its_dimensions(data, tmp_path):
    task, dimensions = read_task(data / "own/task.toml")
    assert task == "open"
    assert [(one.name, one.low, one.high) for one in dimensions] == [
        ("clarity", 1.0, 5.0),
        ("charm", 1.0, 3.0),
    ]
    path = tmp_path / "task.toml"
    path.write_text(TASK.replace("low = 1\nhigh = 5\n", ""))
    _, (clarity,) = read_task(path)
    assert (clarity.low, clarity.high) == (1.0, 5.0)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"open"', "open", r":1: not TOML \("),
        ('task = "open"', "", r": no key 'task'; it needs task, dimensions$"),
        ("task =", "taks =", r": unknown key 'taks'; did you mean 'task'\? Known: task, dim"),
        ('"open"', "3", r": task must be a name such as 'summarization', found 3$"),
        ('"open"', '" "', r": task must be a name such as 'summarization', found ' '$"),
        ('name = "clarity"', "", r": dimension 1: no key 'name'; it needs name, description$"),
        ("low =", "lo =", r": dimension 1: unknown key 'lo'; did you mean 'low'\?"),
        ("low = 1", 'low = "1"', r": dimension 1: low must be a finite number, found '1'$"),
        ("low = 1", "low = true", r": dimension 1: low must be a finite number, found True$"),
        ("low = 1", "low = nan", r": dimension 1: low must be a finite number, found nan$"),
        ("low = 1", "low = 5", r": dimension 1: low must be below high, found 5 and 5$"),
        ('"Whether it is clear."', '""', r": dimension 1: description must be text, found ''$"),
        ('"clarity"', '"output"', r"dimension 'output' is the name of another field; choose"),
        (DIMENSION, DIMENSION * 2, r"dimension 'clarity' appears twice; choose another name$"),
        ("[[dimensions]]", "[dimensions]", r": dimensions must be one or more tables \[\[dim"),
        (DIMENSION, "dimensions = []", r"one or more tables \[\[dimensions\]\], found \[\]$"),
        (DIMENSION, "dimensions = [1]", r"dimension 1: expected a table \[\[dim.*, found 1$"),
    ],
)
def test_a_wrong_task_file_is_refused_with_its_place(tmp_path, before, after, message):
    path = tmp_path / "task.toml"
    assert before in TASK
    path.write_text(TASK.replace(before, after))
    with pytest.raises(DataError, match=rf"task\.toml{message}" if message[0] == ":" else message):
        read_task(path)


def test_a_task_file_that_cannot_be_read(tmp_path):
    path = tmp_path / "task.toml"
    with pytest.raises(DataError, match=r"task\.toml: no such file"):
        read_task(path)
    path.write_bytes(b'task = "\xff"')
    with pytest.raises(
        DataError, match=r"task\.toml:1: not UTF-8 \(byte 0xff at position \d+\); save it as UTF-8 "
    ):
        read_task(path)
