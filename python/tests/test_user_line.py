"""The line of the program that errors name, also for code that was compiled and freed before."""

import random

import karez as kz


def test_every_instruction_of_a_function_has_its_line():
    lines = []

    def here():
        lines.append(kz._core.user_line()[1])
        for _ in range(3):
            lines.append(kz._core.user_line()[1])
        return kz._core.user_line()[1], kz._core.user_line()[1]

    first = here.__code__.co_firstlineno
    for _ in range(3):
        assert here() == (first + 4, first + 4)
        assert lines == [first + 1, *[first + 3] * 3]
        lines.clear()


def test_code_that_takes_the_memory_of_freed_code_has_its_own_lines():
    draw = random.Random(0)
    for i in range(3000):
        line = draw.randrange(1, 50)
        names = {"kz": kz}
        exec(compile("\n" * (line - 1) + "found = kz._core.user_line()", f"program{i % 7}.py", "exec"), names)
        assert names["found"] == (f"program{i % 7}.py", line)


def test_recursion_and_generators_have_the_line_of_the_innermost_frame():
    def descend(depth):
        return descend(depth - 1) if depth else kz._core.user_line()[1]

    def each():
        yield kz._core.user_line()[1]
        yield kz._core.user_line()[1]

    assert descend(5) == descend.__code__.co_firstlineno + 1
    assert list(each()) == [each.__code__.co_firstlineno + 1, each.__code__.co_firstlineno + 2]
