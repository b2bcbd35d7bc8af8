"""The arguments of scripts that hetopt wrote."""

import re
import shlex


def told(text: str) -> dict[str, str]:
    """Return the arguments of a script that hetopt wrote."""
    (command,) = re.findall(r"^exec .*", text.replace("\\\n", " "), re.MULTILINE)
    words = shlex.split(command.replace("=", " "))
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {a: "" if b.startswith("--") else b for a, b in pairs if a[:2] == "--"}
