"""Values that a compiled function reads besides its arguments: recorded during the trace, compared again at each later
call."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any, Optional

import numpy

from . import _core
from .attribute_guards import DICT_READS, AttributeGuards
from .code_names import names_of
from .errors import UserError
from .guard_list import ABSENT, DICT, INDEX, ITEM, MAPPING, MAX_ITEMS, ROOT, SAME, SCALAR, SEQUENCE, TYPE_DICT
from .read_watchpoints import ReadWatchpoints
from .reflection import INSTALLED, KAREZ, MISSING, TRACKED_KAREZ_FILES, absolute_name, dict_of, is_untracked, origin_of
from .type_aliases import Tensor
from .value_guards import SCALARS

# times that a trace may write again to a place whose value another write has replaced since; then the place loses its
# guard
MAX_REWRITES = 3
# the dtypes of tensors
_inputs = {"bool", "int32", "int64", "float16", "float32", "float64", "bfloat16"}


class CapturedState(AttributeGuards):
    """The guards of one program; a `with` statement encloses each of its traces.

    They cover the values that are reachable from the function, from the globals of every function that the trace
    enters, and from objects among the arguments: items of containers, and attributes whose names these functions
    mention.
    """

    def __init__(self, name: str, roots: Any, rewritten: Any = frozenset(), times: Any = None) -> None:
        super().__init__()
        self.name = name
        # places where the value that an earlier trace left has changed; by place, how often traces wrote there again
        self.rewritten, self.times = rewritten, {} if times is None else times
        # imported modules; guards of values that a trace wrote
        self.imports: dict[str, None] = {}
        self.written: set[int] = set()
        for text, root in roots:
            self._guard_value(-1, ROOT, root, root, text, 0)

    def __enter__(self) -> None:
        self.watchpoints = ReadWatchpoints()
        try:
            for place, (held, name, text) in list(self.large.items()):
                self._restore_watchpoint(place, held(), name, text)
        except UserError:
            self.watchpoints.end()
            raise
        self.entry_hook: Optional[_core.FunctionEntryHook] = _core.FunctionEntryHook(self._enter)
        self.entry_hook.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        assert self.entry_hook is not None and self.watchpoints is not None
        try:
            self.entry_hook.__exit__(kind, error, trace)
        finally:
            self.entry_hook = None
            self.watchpoints.end()
            self.watchpoints = None
        if error is None:
            self._finish_trace()

    def _finish_trace(self) -> None:
        """Guards of places that the trace wrote take the value that it left; a tensor of its program there is an
        error."""
        failing, grown = self._failing(), []
        for number, left in failing.items():
            self._reject_traced(left, self.texts[number])
            grows = (
                self.places[number][3] == SEQUENCE
                and isinstance(left, list)
                and len(left) != self.guards.expected(number)
            )
            if grows and not self._is_rewritten(number):
                # a list that a trace appends to, such as a log: its items are compared, its length is not
                self.guards.loosen(number)
                grown.append(number)
        failing = self._failing() if grown else failing
        for held, number in self._live_objects():
            for key, one in list(dict_of(held).items()):
                self._reject_traced(one, f"{self.texts[number]}.{key}")
        again = [number for number, left in failing.items() if self._is_left(number, left)]
        self.guards.drop(list(failing))
        self.finishing, before = True, len(self.guards)
        self._add_names(frozenset())
        try:
            for number in grown:
                items: Any = self.guards.value(number, ())
                for i, one in enumerate(items) if len(items) <= MAX_ITEMS and not self.guards.dropped(number) else ():
                    self._guard_value(number, INDEX, i, one, f"{self.texts[number]}[{i}]", 0)
            self._guard_values_again(again, failing)
            for held, number in self._live_objects():
                self._attributes(held, number, self.names, self.texts[number], 0)  # new attributes
            for name in self.imports:
                self._import(name)
        finally:
            self.finishing, self.rewritten = False, frozenset()
        self.written.update(range(before, len(self.guards)))

    def _is_left(self, number: int, now: Any) -> bool:
        """Whether the place keeps a guard for the value that the trace left: not for a counter, nor for a place that
        the traces of two functions overwrite alternately."""
        _, fetch, _, check = self.places[number]
        before = self.guards.expected(number)
        if now is MISSING or fetch == ROOT:
            return False
        if check == ABSENT or before is None and check == SCALAR:
            return True
        return not self._is_rewritten(number) and not (check == SCALAR and type(now) is int is type(before))

    def _is_rewritten(self, number: int) -> bool:
        """Whether traces that a change of this place caused have written there too often."""
        place = self.place_of(number)
        if place in self.rewritten:
            self.times[place] = self.times.get(place, 0) + 1
        return bool(self.times.get(place, 0) >= MAX_REWRITES)

    def _guard_values_again(self, again: Any, values: Any) -> None:
        gone = {
            number: place
            for place, number in self.seen.items()
            if self.guards.dropped(number) and (number not in values or number in again)
        }
        for place in gone.values():
            del self.seen[place]
        lost = [
            (key, held())
            for key, (held, number) in list(self.objects.items())
            if self.guards.dropped(number) and held() is not None
        ]
        for key, _ in lost:
            del self.objects[key]
        for number in again:
            parent, fetch, key, check = self.places[number]
            # keys of an object's and a class's attributes are compared together with these
            if check != MAPPING or fetch not in (DICT, TYPE_DICT):
                self._guard_value(parent, fetch, key, values[number], self.texts[number], 0)
        unguarded = {id(value) for key, value in lost if key not in self.objects}
        for number in (
            range(len(self.guards)) if unguarded else ()
        ):  # objects that are reachable through other places too
            value = self.guards.value(number, None)
            if id(value) in unguarded and not self.guards.dropped(number) and self.places[number][3] == SAME:
                unguarded.discard(id(value))
                self._object(value, number, self.texts[number], 0)

    def own_changed(self) -> Any:
        """Places of failing guards whose value a trace had written, and of their parents."""
        found = set()
        for number in self.written.intersection(self.guards.failing()):
            while number >= 0:
                found.add(self.place_of(number))
                number = self.places[number][0]
        return found

    def changed(self) -> Any:
        """Failing guards, each with the value that is there now."""
        return [(number, self.guards.value(number, MISSING)) for number in self.guards.failing()]

    def is_input(self, number: int) -> bool:
        """Whether the value there is a number or array of the recorded type, so that it can be an input of a
        program."""
        before, now, root = self.guards.expected(number), self.guards.value(number, None), number
        while self.places[root][0] >= 0:
            root = self.places[root][0]
        if root in self.unordered:
            return False
        if type(now) is float:
            return type(before) is float
        return (
            isinstance(now, (numpy.ndarray, numpy.generic))
            and type(before) is tuple
            and before[:2] == (now.dtype, now.shape)
            and now.dtype.name in _inputs
        )

    def unguarded_inputs(self, sources: Any) -> Any:
        """The inputs without a guard in this state, since this trace did not reach them: they may take any value."""
        compared = (
            {self.place_of(number) for number in range(len(self.guards)) if not self.guards.dropped(number)}
            if sources
            else ()
        )
        return [(one, number) for one, number in sources if one.place_of(number) not in compared]

    def describe_change(self, number: int, now: Any) -> str:
        """The change as text: global 'w' was 2.0 and is 3.0."""
        before = self.guards.expected(number)
        plain = type(before) in SCALARS and type(now) in SCALARS
        return (
            f"{self.texts[number]} was {before!r:.60} and is {now!r:.60}"
            if plain
            else f"{self.texts[number]} has changed"
        )

    def _reject_traced(self, value: Any, text: str) -> None:
        items = value if type(value) in (list, tuple) else value.values() if type(value) is dict else (value,)
        for one in items:
            if issubclass(type(one), Tensor) and one._kind == "traced":
                raise UserError(
                    f"function '{self.name}' left a tensor of its program, {one._text()}, in {text}, which outlives "
                    "the trace: a tensor of a program has no value outside of it. Return it, or keep it in a buffer "
                    f"by kz.update\n  at {one._line()}"
                )

    def _enter(self, code: Any, namespace: Any) -> None:
        file = code.co_filename
        if is_untracked(file) and not file.startswith(TRACKED_KAREZ_FILES):
            return
        code = names_of(code)
        ours = file.startswith(KAREZ)
        if not ours:
            for name in code.read:
                self._global(namespace, name, file.startswith(INSTALLED))
            for level, name in code.imports:
                name = absolute_name(level, name, namespace)
                for end in [i for i, one in enumerate(name) if one == "."] + [len(name)]:
                    self.imports[name[:end]] = None
                    self._import(name[:end])
        self._add_names(
            code.attributes - DICT_READS if ours else code.attributes,
            not ours and code.dynamic_reads,
            not ours and code.catches_missing,
        )

    def _import(self, name: str) -> None:
        module = sys.modules.get(name)
        if isinstance(module, types.ModuleType) and not is_untracked(origin_of(module)):
            self._guard_value(self._namespace(sys.modules, "modules"), ITEM, name, module, f"module '{name}'", 0)

    def _global(self, namespace: Any, name: str, installed: bool) -> None:
        root = self._namespace(namespace, "globals")
        value = namespace.get(name, MISSING)
        if value is MISSING and not isinstance(vars(builtins).get(name, len), (type, types.BuiltinFunctionType)):
            self._guard_value(
                self._namespace(vars(builtins), "builtins"), ITEM, name, vars(builtins)[name], f"builtin '{name}'", 0
            )
        if installed and isinstance(value, (list, tuple, dict, set, frozenset)) and len(value) > MAX_ITEMS:
            return  # the user cannot pass it in another way
        self._guard_value(root, ITEM, name, value, f"global '{name}'", 0)
