"""Write the pages of this folder from hetopt's parsers and schemas.

Run ``python docs/reference/generate.py`` after a change of a command, of the problem
file or of a schema; a test compares the pages with what this would write.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.cli.commands.schema import NAMES
from hetopt.cli.entry import GROUPS, parser
from hetopt.problem.schema.json_schema import problem_json_schema
from hetopt.report.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Schema = Mapping[str, Any]

FOLDER = Path(__file__).parent
GENERATED = "<!-- Made by docs/reference/generate.py: change the code instead. -->\n"

assert {*SCHEMAS, "problem"} == {*NAMES}, "a schema without a page"


def pages() -> dict[str, str]:
    """Return the text of every generated page by its file name."""
    return {
        "commands.md": _commands(),
        "problem.md": _problem(),
        "files.md": _files(),
    }


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table; empty if there are no rows."""
    lines = [" | ".join(_cell(cell) for cell in row) for row in rows]
    if not lines:
        return ""
    rule = "|".join("---" for _ in head)
    text = "\n".join(f"| {line} |" for line in lines)
    return f"| {' | '.join(head)} |\n|{rule}|\n{text}\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(value: object) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


# Commands.


def _commands() -> str:
    root = parser()
    commands = _subcommands(root)
    text = (
        f"{GENERATED}\n# Commands\n\n{root.description}\n\n{root.epilog}\n\n"
        "`hetopt` alone lists the commands, `hetopt COMMAND --help` prints the same as "
        "this page. PROBLEM is a problem file or the name of one that ships with "
        "hetopt (`hetopt catalog`), PLAN a file that `hetopt plan --out` wrote. An "
        "error is one line, `file:line: field: what is wrong, what was expected`.\n\n"
    )
    groups = (
        (title, ", ".join(f"[{name}](#hetopt-{name})" for name in names))
        for title, names in GROUPS.items()
    )
    text += _table(("to", "commands"), groups)
    return text + "".join(_command(command) for command in commands)


def _subcommands(command: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    return [
        below
        for action in command._actions
        if isinstance(action, argparse._SubParsersAction)
        for below in action.choices.values()
    ]


def _command(command: argparse.ArgumentParser, level: str = "##") -> str:
    below = "".join(_command(each, level + "#") for each in _subcommands(command))
    text = f"\n{level} {command.prog}\n\n{command.description}\n"
    positional, options, *groups = command._action_groups
    text += _arguments(command, [*positional._group_actions, *options._group_actions])
    for group in groups:
        text += _arguments(command, group._group_actions, group.title)
    return text + below


def _arguments(
    command: argparse.ArgumentParser,
    actions: Iterable[argparse.Action],
    title: str | None = None,
) -> str:
    """Return a table of arguments, or nothing if there are none but common ones."""
    form = command._get_formatter()
    rows = [
        (_spelled(action), form._expand_help(action))
        for action in actions
        if not isinstance(
            action,
            argparse._HelpAction | argparse._VersionAction | argparse._SubParsersAction,
        )
    ]
    table = _table((title or "argument", "meaning"), rows)
    return f"\n{table}" if table else ""


def _spelled(action: argparse.Action) -> str:
    value = action.metavar or (action.dest if action.nargs != 0 else "")
    if action.choices is not None and action.metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if isinstance(value, tuple):
        value = " ".join(value)
    if action.nargs == "?":
        value = f"[{value}]"
    elif action.nargs == "+":
        value = f"{value}..."
    if not action.option_strings:
        return _code(value)
    names = ", ".join(
        _code(f"{name} {value}".strip()) for name in action.option_strings
    )
    return f"{names} (required)" if action.required else names


# The problem file.


def _problem() -> str:
    schema = problem_json_schema()
    named = schema["$defs"]
    order = list(_referenced(schema, named))
    assert {*order} == {*named}, "a part of the schema that nothing refers to"
    text = (
        f"{GENERATED}\n# The problem file\n\n{_prose(schema['description'])}\n\n"
        "YAML or JSON. Quantities carry their unit: `Gbps` are bits, `GB/s` bytes, 1 "
        "GB is 1e9 bytes; a bandwidth is per device, NIC or connection and per "
        "direction. `hetopt init` writes a commented example, `hetopt schema problem` "
        "prints this page as a JSON Schema, with which editors complete the file.\n\n"
    )
    text += _fields(schema, named)
    for name in order:
        part = named[name]
        text += f"\n## {_title(name)}\n"
        if part.get("description"):
            text += f"\n{_prose(part['description'])}\n"
        if part.get("properties") and part["type"] == "object":
            text += f"\n{_fields(part, named)}"
        else:
            text += f"\nOne of: {_kind(part, named)}.\n"
    return text


def _prose(docstring: str) -> str:
    return docstring.replace("``", "`")


def _title(name: str) -> str:
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in name)
    return words.removesuffix(" spec").strip().capitalize()


def _anchor(name: str) -> str:
    return _title(name).lower().replace(" ", "-")


def _referenced(schema: object, named: Mapping[str, Schema]) -> Iterator[str]:
    """Yield names of parts in the order in which a reader meets them, once each."""
    seen: set[str] = set()
    waiting = [schema]
    while waiting:
        below: list[object] = []
        for part in waiting:
            for name in _names_in(part):
                if name not in seen:
                    seen.add(name)
                    yield name
                    below.append(named[name])
        waiting = below


def _names_in(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref":
                yield value.rpartition("/")[2]
            elif key != "$defs":
                yield from _names_in(value)
    elif isinstance(part, list):
        for value in part:
            yield from _names_in(value)


def _fields(part: Schema, named: Mapping[str, Schema]) -> str:
    required = part.get("required", ())
    rows = []
    for name, field in part["properties"].items():
        default = field.get("default")
        stands = "required" if name in required else ""
        if default is not None and default not in ([], {}):
            stands = _code(default)
        rows.append(
            (_code(name), _kind(field, named), stands, field.get("description", ""))
        )
    return _table(("field", "value", "default", "meaning"), rows)


# Both.


def _kind(schema: Schema, named: Mapping[str, Schema] | None = None) -> str:
    """Say in words which values a schema permits."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{_title(name).lower()}](#{_anchor(name)})"
    if "const" in schema:
        return _code(schema["const"])
    if "enum" in schema:
        return ", ".join(map(_code, schema["enum"]))
    for joined in ("anyOf", "oneOf"):
        if joined in schema:
            parts = [_kind(part, named) for part in schema[joined]]
            # A form may be a choice itself, with a part that is another's too.
            parts = [one for part in parts for one in part.split(", or ")]
            return ", or ".join(dict.fromkeys(parts))
    kinds = schema.get("type", "any value")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = " or ".join(_one_kind(kind, schema, named) for kind in kinds)
    examples = schema.get("examples", ())
    # Names from the catalogue are many, and `hetopt catalog` lists them.
    if 0 < len(examples) <= 3:
        words += f" such as {' or '.join(map(_code, examples))}"
    return words


def _one_kind(kind: str, schema: Schema, named: Mapping[str, Schema] | None) -> str:
    if kind == "array":
        item = schema.get("items") or {}
        inside = _kind(item, named) if item and "properties" not in item else ""
        return f"list of {inside}" if inside else "list"
    if kind == "object":
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and "properties" not in values:
            return f"mapping from names to {_kind(values, named)}"
        return "mapping"
    if kind not in ("integer", "number"):
        return {"null": "nothing" if named else "null"}.get(kind, kind)
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f"{kind} from {least:g} to {most:g}"
    if least is not None:
        return f"{kind} of at least {least:g}"
    above = schema.get("exclusiveMinimum")
    return kind if above is None else f"{kind} above {above:g}"


# Result, plan, certificate and the rest.


def _files() -> str:
    text = (
        f"{GENERATED}\n# Files that hetopt writes\n\nAll are JSON. `[]` in a key "
        "stands for every element of a list, `.*` for every name in a mapping. "
        "`hetopt schema NAME` prints the JSON Schema of one. Times are in seconds and "
        "sizes in bytes unless a key's name says otherwise; *optional* keys may be "
        "missing.\n"
    )
    known: set[str] = set()
    for name, schema in SCHEMAS.items():
        rows = list(_keys(schema, ""))
        text += f"\n## {name.capitalize()}\n\n"
        if schema.get("description"):
            text += f"{schema['description']}\n\n"
        text += _table(("key", "value", "meaning"), rows)
        for part, own in schema.get("$defs", {}).items():
            if part not in known:
                known.add(part)
                text += f"\n### {_title(part)}\n\n"
                text += _table(("key", "value", "meaning"), _keys(own, ""))
    return text


def _keys(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the keys below a path, with their values and meanings."""
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        key = f"{path}.{name}".lstrip(".")
        named = _titled(value)
        optional = "" if name in required else " (optional)"
        # A plan inside of a result has a table of its own.
        kind = _kind(value)
        if named:
            kind = f"as in {named}" + (", or null" if kind.endswith("null") else "")
        yield f"`{key}`{optional}", kind, value.get("description", "")
        if not named:
            yield from _below(value, key)


def _titled(value: Schema) -> str | None:
    """Return which other file a value is, if any."""
    forms = [value, *value.get("anyOf", ()), value.get("items") or {}]
    for name, schema in SCHEMAS.items():
        wanted = schema["properties"].get("schema", {}).get("const")
        for form in forms:
            const = form.get("properties", {}).get("schema", {}).get("const")
            if wanted is not None and const == wanted:
                return f"[{name}](#{name})"
    return None


def _below(value: Schema, key: str) -> Iterator[tuple[str, str, str]]:
    for form in [value, *value.get("anyOf", ()), *value.get("oneOf", ())]:
        if "properties" in form:
            yield from _keys(form, key)
        item = form.get("items")
        if isinstance(item, dict):
            yield from _below(item, f"{key}[]")
        values = form.get("additionalProperties")
        if isinstance(values, dict):
            yield from _below(values, f"{key}.*")


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
