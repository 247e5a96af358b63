"""Methods that C++ calls while a compiled module runs."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def undisturbed(method: Callable[P, R]) -> Callable[P, R]:
    """Keep torch.compile from compiling the method.

    As `torch.compiler.disable` does, but that would import the compiler, which takes seconds,
    in programs that compile nothing.
    """
    compiled: list[Callable[P, R]] = []

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        compiler: Any = sys.modules.get("torch._dynamo")
        if compiler is None:
            return method(*args, **kwargs)
        if not compiled:
            compiled.append(compiler.disable(method))
        return compiled[0](*args, **kwargs)

    return call
