"""The names that code may read: globals, attributes and imported modules; and whether it may observe a missing
attribute."""

from __future__ import annotations

import builtins
import dis
import functools
import types
from typing import Any, NamedTuple


class CodeNames(NamedTuple):
    """The names in a code object and in all code objects nested in it."""

    read: Any  # globals, in order of first use
    attributes: Any  # every name by which it may read an attribute, including string constants
    imports: Any  # (level, name) of `import name`; level 0: absolute, 1: from the package of the code's module
    dynamic_reads: bool  # whether it reads attributes by computed names
    catches_missing: bool  # whether it may continue after a missing attribute


_dynamic = {"__dict__", "asdict", "astuple", "dir", "fields", "getattr", "getmembers", "hasattr", "vars"}
_importing = {"__import__", "import_module", "modules"}
_caught = {"AttributeError", "BaseException", "Exception"}


@functools.lru_cache(maxsize=65536)
def names_of(code: Any) -> CodeNames:
    """The names in this code object."""
    instructions = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "EXTENDED_ARG")]
    names = set(code.co_names)
    texts = [one for one in code.co_consts if isinstance(one, str)]
    words = {one for one in texts if one.isidentifier()}
    read = [one.argval for one in instructions if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    if "globals" in names:
        read += sorted(words)
    imports = [
        (instructions[i - 2].argval, one.argval) for i, one in enumerate(instructions) if one.opname == "IMPORT_NAME"
    ]
    if not _importing.isdisjoint(names):
        imports += [(0, one) for one in texts if one and all(word.isidentifier() for word in one.split("."))]
    dynamic_reads, catches_missing = not _dynamic.isdisjoint(names), _catches_missing(instructions, names)
    attributes = words | names | {code.co_name}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more = names_of(inner)
            read, imports = read + list(more.read), imports + list(more.imports)
            attributes |= more.attributes
            dynamic_reads, catches_missing = (
                dynamic_reads or more.dynamic_reads,
                catches_missing or more.catches_missing,
            )
    return CodeNames(
        tuple(dict.fromkeys(read)), frozenset(attributes), tuple(dict.fromkeys(imports)), dynamic_reads, catches_missing
    )


def _catches_missing(instructions: Any, names: Any) -> bool:
    """Whether the code may catch an AttributeError: by an `except` of that class, of everything, or of a computed
    class."""
    if not _caught.isdisjoint(names):
        return True
    after = {one.offset: one.opname for one in instructions}
    for i, one in enumerate(instructions):
        if one.opname in ("CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH"):
            kind = instructions[i - 1]
            known = kind.opname in ("LOAD_GLOBAL", "LOAD_NAME") and hasattr(builtins, kind.argval)
            if not known and kind.opname != "BUILD_TUPLE":
                return True
        if one.opname == "PUSH_EXC_INFO" and instructions[i + 1].opname == "POP_TOP":
            return True  # `except:`, from Python 3.11 on
        if one.opname == "SETUP_FINALLY" and after.get(one.argval) == "POP_TOP":
            return True  # before Python 3.11
    return False
