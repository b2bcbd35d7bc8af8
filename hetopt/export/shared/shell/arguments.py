"""The arguments of the program that a launch script starts, without running it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from hetopt.base.reading import read_text
from hetopt.base.words import counted, describe
from hetopt.errors import InputError
from hetopt.export.shared.shell.commands import Command, run
from hetopt.export.understood import Read, not_priced, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hetopt.export.shared.shell.commands import Script
    from hetopt.export.understood import ArgumentTable
    from hetopt.results.reported import Reported

#: Arguments that may differ between nodes.
_OWN = frozenset({"node_rank", "nproc_per_node", "nnodes"})
#: Longer scripts are refused; launch scripts have some kilobytes.
MOST_SCRIPT_BYTES = 2**17
_LAUNCHERS = re.compile(
    r"(?:.*/)?(?:torchrun|deepspeed|python[0-9.]*|torch\.distributed\.(?:run|launch))"
)
_OVERRIDE = re.compile(r"\+{0,2}(\w+(?:\.\w+)+)=(.*)", re.DOTALL)
_MODULES = re.compile(r"torch\.distributed\.(?:run|launch)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellArguments:
    """Arguments of the program that a script starts, and of its launcher, by name.

    Names have no leading dashes and underscores for dashes; the methods take either
    spelling.

    Attributes
    ----------
    file
        Name of the script.
    values
        Name -> value as written, empty if none follows.
    lists
        Name -> every word up to the next argument, if there are several.
    program
        The program's file or module; None if the script does not tell.
    launchers
        Names of arguments before the program, which are its launcher's.
    documents
        Text of here-documents by the file they go to.
    overrides
        Settings that follow the program as ``a.b=value``, by their path.
    undecided
        Conditions and loops whose lines are all read though they may not all run.
    complaint
        Returns the error about an argument, from its name and a message, if the
        arguments are not from a script.
    """

    file: str
    values: Read = field(default_factory=lambda: Read({}))
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    program: str | None = None
    launchers: frozenset[str] = frozenset()
    documents: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()
    complaint: Callable[[str, str], InputError] | None = None

    def __contains__(self, name: str) -> bool:
        return plain(name) in self.values

    @property
    def names(self) -> frozenset[str]:
        """Names of all arguments."""
        return frozenset(iter(self.values))

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return an argument's value as written, or the default without it."""
        return self.values.get(plain(name), default)

    def count(self, name: str, default: int | None = None) -> int:
        """Return a whole number of at least 1.

        Raises
        ------
        InputError
            It is missing and has no default, or is something else.
        """
        if name not in self:
            if default is None:
                raise self.wrong(name, "is missing")
            return default
        return self._counted(name, self.values[plain(name)])

    def counts(self, name: str) -> tuple[int, ...]:
        """Return one or more whole numbers of at least 1; InputError as ``count``."""
        self.count(name)
        return tuple(self._counted(name, text) for text in self.all_values(name))

    def all_values(self, name: str) -> tuple[str, ...]:
        """Return an argument's value and the whole numbers that follow it."""
        if name not in self:
            return ()
        more = takewhile(str.isdecimal, self.lists.get(plain(name), ())[1:])
        return (self.values[plain(name)], *more)

    def wrong(self, name: str, message: str) -> InputError:
        """Return the error that says ``message`` about an argument."""
        if self.complaint is not None:
            return self.complaint(plain(name), message)
        return InputError(message, file=self.file, field=spelled(name))

    def report(self, known: ArgumentTable) -> tuple[Reported, ...]:
        """Return the reports of arguments that no reader looked up."""
        left = {
            name: value
            for name, value in self.values.left().items()
            if name not in self.launchers or name not in _LAUNCHER_ARGUMENTS
        }
        return (
            *(
                not_priced(text, "hetopt cannot evaluate it and reads all of its lines")
                for text in self.undecided
            ),
            *known.report(left, spelled),
        )

    def _counted(self, name: str, text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
            msg = f"is {describe(text)}, expected a whole number of at least 1"
            if re.fullmatch("[0-9]{10,}", text):
                msg += ", of at most 9 digits"
            raise self.wrong(name, msg)
        return int(text)


#: Arguments of ``torchrun``, ``python -m torch.distributed.launch`` and ``deepspeed``
#: that a reader does not look up if the hosts of all ranks are known.
_LAUNCHER_ARGUMENTS = table(
    """
    nnodes nproc_per_node num_gpus num_nodes force_multi launcher launcher_args
    local_addr log_dir logs_specs m master_addr
    master_port max_restarts monitor_interval module no_local_rank no_python no_ssh
    no_ssh_check node_rank r rdzv_backend rdzv_conf rdzv_endpoint rdzv_id redirects
    role rdzv_timeout save_pid ssh_port start_method standalone t tee u use_env
    enable_each_rank_log bind_cores_to_rank bind_core_list
    """,
    {},
).harmless


def plain(name: str) -> str:
    """Return an argument's name without leading dashes, underscores for dashes."""
    return name.lstrip("-").replace("-", "_")


def spelled(name: str) -> str:
    """Return an argument's name as a command line has it."""
    name = plain(name).replace("_", "-")
    return f"--{name}" if len(name) > 1 else f"-{name}"


def has_script(folder: Path, calls: Callable[[ShellArguments], bool]) -> bool:
    """Whether a readable script of a folder calls a runtime."""
    for path in script_paths(folder):
        try:
            programs, everything = _programs(path)
            if any(map(calls, (*programs, everything))):
                return True
        except InputError:
            continue
    return False


def calling_scripts(
    folder: Path, calls: Callable[[ShellArguments], bool], what: str
) -> list[ShellArguments]:
    """Return the scripts of a folder and its ``nodes`` folder that call a runtime.

    Parameters
    ----------
    calls
        Whether a script's arguments are the runtime's, which are ``what``.

    Raises
    ------
    InputError
        There are none, or they differ in more than the arguments of a node.
    """
    each = [read_script(path, calls) for path in script_paths(folder)]
    scripts = [one for one in each if calls(one)]
    if not scripts:
        msg = f"holds no script (*.sh, nodes/*.sh) with {what}"
        raise InputError(msg, file=str(folder))
    first = scripts[0]
    for script in scripts[1:]:
        for name in sorted((first.names | script.names) - _OWN):
            if _all(first, name) != _all(script, name):
                msg = f"differs from that of {first.file}, expected the same in both"
                raise script.wrong(name, msg)
    return scripts


def _all(script: ShellArguments, name: str) -> tuple[str, ...]:
    """Return every word of an argument without recording it as looked up."""
    left = script.values.left()
    return script.lists.get(name, (left.get(name, "-"),))


def script_paths(folder: Path) -> list[Path]:
    """Return the shell scripts of a folder and its ``nodes`` folder."""
    return [*sorted(folder.glob("*.sh")), *sorted(folder.glob("nodes/*.sh"))]


def read_script(
    path: Path, calls: Callable[[ShellArguments], bool] | None = None
) -> ShellArguments:
    """Read the arguments of the program that a script starts.

    If no command starts one, the arguments of all commands are read; the last counts
    if one is given twice.

    Parameters
    ----------
    calls
        Whether arguments are those of the program meant, if a script starts others
        too.

    Raises
    ------
    InputError
        As ``_programs``, or the script starts the program several times with different
        arguments.
    """
    programs, everything = _programs(path)
    meant = [one for one in programs if calls is None or calls(one)]
    if len(meant) > 1:
        msg = (
            f"starts {counted(len(meant), 'program')}, or one program in {len(meant)} "
            "ways: keep the one you mean"
        )
        raise InputError(msg, file=str(path))
    return meant[0] if meant else everything


def _programs(path: Path) -> tuple[list[ShellArguments], ShellArguments]:
    """Return the arguments of each program that a script starts, and of everything.

    Raises
    ------
    InputError
        The file cannot be read, a quote is not closed, or variables stand for too much
        text or too large numbers.
    """
    text = read_text(path, "a shell script", MOST_SCRIPT_BYTES)
    try:
        script = run(text)
    except ValueError as error:
        msg = f"cannot be read as a shell script: {error}"
        raise InputError(msg, file=str(path)) from error
    commands = {
        each.words: each
        for each in script.commands
        if each.words[0] not in ("echo", "printf") and _started(each.words) is not None
    }
    everything = Command(
        tuple(word for each in script.commands for word in each.words),
        tuple(dict.fromkeys(text for each in script.commands for text in each[1])),
    )
    return (
        [_command(path, script, each) for each in commands.values()],
        _command(path, script, everything),
    )


def _command(path: Path, script: Script, command: Command) -> ShellArguments:
    words = command.words
    at = _started(words)
    begin = 0
    if at is not None:
        starts = (n for n in range(at) if _LAUNCHERS.fullmatch(words[n]))
        begin = max(starts, default=at)
    values, lists = _arguments(words[begin:])
    before, after = words[begin:at], words[at:] if at is not None else words
    return ShellArguments(
        file=str(path),
        values=Read(values),
        lists=lists,
        program=None if at is None else words[at],
        launchers=_names(before) - _names(after) if at is not None else frozenset(),
        documents=script.documents,
        overrides={
            match[1]: match[2]
            for word in after
            if (match := _OVERRIDE.fullmatch(word)) is not None
        },
        undecided=command.undecided,
    )


def _started(words: Sequence[str]) -> int | None:
    """Return the index of the program among a command's words; None if it has none."""
    for number, word in enumerate(words):
        if re.fullmatch(r"[^-=][^=]*\.py", word):
            return number
        module = number and words[number - 1] in ("-m", "--module")
        if module and not _MODULES.fullmatch(word):
            return number
    return None


def _names(words: Sequence[str]) -> frozenset[str]:
    return frozenset(plain(w.partition("=")[0]) for w in words if _is_name(w))


def _arguments(
    words: Sequence[str],
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the value and, where there are several, the words of each argument."""
    values: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    following: list[str] = []
    # Backwards, so that the words after an argument are known when it is reached.
    for word in reversed(words):
        if not _is_name(word):
            following.append(word)
            continue
        spelling, equals, value = word.partition("=")
        name = plain(spelling)
        if name not in values:
            values[name] = value if equals else "".join(following[-1:])
            if not equals and len(following) > 1:
                lists[name] = tuple(reversed(following))
        following = []
    return values, lists


def _is_name(word: str) -> bool:
    return re.match("--?[A-Za-z]", word) is not None
