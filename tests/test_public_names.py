"""What `import refladder` offers."""

import importlib

import pytest

import refladder


@pytest.mark.parametrize("name", [name for name in dir(refladder) if name != "__version__"])
def test_a_public_name_is_the_object_of_its_module(name):
    assert getattr(refladder, name) is getattr(
        importlib.import_module(refladder._PUBLIC[name]), name
    )


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        AttributeError,
        match=r"module 'refladder' has no attribute 'nothing'. It has: Context, Dimension",
    ):
        refladder.nothing  # noqa: B018
