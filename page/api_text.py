"""What tools for machines, MCP's say, are told of an endpoint's parameters: the options' own help texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from page.controls import help_of
from page.values import AUTOMATIC, NAMES

Function = TypeVar("Function", bound=Callable[..., Any])
OWN = {AUTOMATIC: "choose the strength for each face from its noise and sharpness, in the place of `strength`"}


def described(**own: str) -> Callable[[Function], Function]:
    """Add an `Args` part to a docstring, where Gradio looks for it.

    Args:
        own: what is said of parameters that are no options.
    """

    def describe(function: Function) -> Function:
        known = {**{name: help_of(name) for name in NAMES if name not in OWN}, **OWN, **own}
        names = [name for name in inspect.signature(function).parameters if name in known]
        lines = [f"    {name}: {known[name]}" for name in names]
        function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Args:", *lines])
        return function

    return describe
