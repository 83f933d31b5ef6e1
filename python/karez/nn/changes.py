"""How often attributes of modules and parameters were set: what tells compiled functions to look at them again."""

count = 0


def note():
    """One more."""
    global count
    count += 1
