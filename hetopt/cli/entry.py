"""Parses the arguments, runs one command, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from hetopt.cli.exit_codes import BAD_INPUT, NO_PLAN, STOPPED
from hetopt.cli.output import complain, discard_output, emit
from hetopt.cli.parsing import Parser, Root
from hetopt.errors import CheckError, HetoptError, InfeasibleError, InputError
from hetopt.problem.training.choices import ANY
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hetopt.cli.parsing import Groups

#: Groups of commands in the order of use: name -> summary. A command's module is loaded
#: only when it is used.
GROUPS: Groups = MappingProxyType(
    {
        "plan": {
            "init": "write a commented example problem",
            "plan": "find the best plan, with proof of how good it is",
            "compare": "run solvers side by side: what each finds, how soon",
        },
        "understand": {
            "explain": "say what limits a plan, or how yours differs from the best",
            "whatif": "solve variants: other clusters, nodes, links, settings",
            "simulate": "run one iteration of a plan event by event",
            "report": "write plans as one HTML page, which needs no network",
            "check": "re-derive feasibility, memory and both times of a plan",
            "verify": "verify a certificate: derive or search every bound again",
        },
        "launch": {
            "export": "write the files from which a runtime launches a plan",
            "run": "run iterations of a plan here, and compare their times",
            "import": "read a runtime's files back as a plan, and price it",
        },
        "measure": {
            "profile": "measure how long this machine's device computes",
            "convert-profile": "convert another planner's measurements",
            "forest": "judge how a forest predicts a latency profile",
            "calibrate": "correct a problem's latency table by measured runs",
        },
        "fleet": {
            "inventory": "turn a list of nodes into the clusters of a problem",
            "replan": "plan again after devices are lost or added: what moves",
        },
        "files": {
            "catalog": "list devices, models, problems, solvers and launchers",
            "schema": "print JSON Schemas of what hetopt reads and writes",
            "table": "write every coefficient a solver reads",
            "formulate": "write the program of one (p, q), or read its solution",
            "compile": "compile the searches before the first command does",
        },
    }
)
#: Summary of each command.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {name: summary for group in GROUPS.values() for name, summary in group.items()}
)
#: Shells that ``--print-completion`` supports.
SHELLS = ("bash", "zsh", "fish")


class _PrintCompletion(argparse.Action):
    """Prints a shell's completion script, and exits."""

    def __call__(
        self,
        root: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> NoReturn:
        from hetopt.cli.completion import script

        emit(script(parser(), values))
        root.exit()


def parser(loaded: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Parameters
    ----------
    loaded
        Commands whose modules are loaded to add their options; the others have only a
        name and a summary. All of them by default.
    """
    root = Root(
        GROUPS,
        prog="hetopt",
        description="Choose how to parallelise LLM training on a mixed cluster, "
        "with proof.",
        epilog="Exit codes: 0 done, or a checked plan was printed; 1 no feasible plan, "
        "or a check failed; 2 bad input; 3 stopped without a plan.",
    )
    root.add_argument("--version", action="version", version=f"hetopt {__version__}")
    root.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print a script that completes commands and options, for {SHELLS[0]}, "
        f"{SHELLS[1]} or {SHELLS[2]}",
    )
    commands = root.add_subparsers(
        dest="command", metavar="COMMAND", parser_class=Parser
    )
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        if name not in loaded:
            continue
        command.add_argument(
            "--version", action="version", version=f"hetopt {__version__}"
        )
        module = import_module(module_name(name))
        for each in module.TAKES:
            each.add(command)
        command.set_defaults(run=module.run, takes=module.TAKES)
    return root


def module_name(name: str) -> str:
    """Return the module of a command, which has ``TAKES`` and ``run``."""
    # ``import`` is a keyword, so it cannot be a module's name.
    own = "import_" if name == "import" else name.replace("-", "_")
    return f"hetopt.cli.commands.{own}"


def run_command(arguments: Sequence[str] | None) -> int:
    """Run one command and return its exit code; see ``hetopt.cli.main``."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        named = [name for name in COMMANDS if name in given]
        root = parser(named)
        options = root.parse_args(given)
        options.arguments = given
        if options.command is None:
            emit(root.format_help())
            return 0
        code: int = _run(options)
    except InputError as error:
        complain(str(error))
        return BAD_INPUT
    except InfeasibleError as error:
        complain(f"no feasible plan: {error}")
        return NO_PLAN
    except CheckError as error:
        complain(*error.findings)
        return NO_PLAN
    except HetoptError as error:
        complain(f"stopped: {error}")
        return STOPPED
    except BrokenPipeError:
        # argparse printed help into a closed pipe; commands use emit() instead.
        discard_output()
        return 0
    return code


def _run(options: argparse.Namespace) -> int:
    """Run a command; errors about its problem name the file, or the option."""
    try:
        code: int = options.run(options)
    except InputError as error:
        from hetopt.cli.inputs import placed

        given = vars(options)
        asked = given.get("schedule")
        raise placed(
            error,
            given.get("problem"),
            None if asked == ANY else asked,
            given.get("chunks"),
        ) from error
    return code
