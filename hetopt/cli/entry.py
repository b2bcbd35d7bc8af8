"""Parses the arguments, runs one command, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from hetopt.cli.exit_codes import BAD_INPUT, NO_PLAN, STOPPED
from hetopt.cli.output import complain, discard_output, emit
from hetopt.errors import CheckError, HetoptError, InfeasibleError, InputError
from hetopt.results.per_schedule import BEST
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

#: Summary of each command. A command's module is loaded only when it is used.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "init": "write a commented example problem",
        "inventory": "turn a site's list of nodes into the clusters of a problem",
        "plan": "find the best plan, with proof of how good it is",
        "compare": "run solvers side by side, and show what each found and how soon",
        "check": "re-derive feasibility, memory and both times of a plan",
        "replan": "plan again after devices are lost or added, and say what moves",
        "verify": "verify a certificate: derive every bound again, search the rest "
        "again",
        "simulate": "run one iteration of a plan event by event",
        "report": "write plans as one HTML page, which needs no network",
        "export": "write a plan as the files that a training runtime launches from",
        "run": "run training iterations of a plan here, and compare their times with "
        "the plan",
        "import": "read the files of a training runtime back as a plan, and price it",
        "whatif": "solve variants of a problem: other clusters, nodes, links, settings",
        "explain": "explain what limits a plan, or how your plan differs from the best",
        "table": "write every coefficient a solver reads",
        "catalog": "list accelerators, models, problems, profiles, solvers and "
        "launchers",
        "schema": "print the JSON Schema of what hetopt reads and writes",
        "formulate": "write the program of one (p, q) for another solver, and read "
        "its solution",
        "profile": "measure how long this machine's device computes",
        "convert-profile": "convert another planner's measurements to a hetopt file",
        "compile": "compile the searches now, instead of in the first command that "
        "needs them",
        "forest": "judge how well a random forest predicts a latency profile",
        "calibrate": "correct a problem's latency table by measured runs",
    }
)
#: Shells that ``--print-completion`` supports.
SHELLS = ("bash", "zsh", "fish")


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        complain(f"{self.prog}: {message.removeprefix('argument ')}")
        raise SystemExit(BAD_INPUT)


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
    root = _Parser(
        prog="hetopt",
        description="Choose how to parallelise LLM training on a mixed cluster, "
        "with proof.",
        epilog="Exit codes: 0 done, or a checked plan was printed; 1 no feasible plan, "
        "or a check failed; 2 bad input; 3 stopped without a plan.",
        allow_abbrev=False,
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
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            allow_abbrev=False,
        )
        if name not in loaded:
            continue
        command.add_argument(
            "--version", action="version", version=f"hetopt {__version__}"
        )
        module = import_module(module_name(name))
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return root


def module_name(name: str) -> str:
    """Return the module of a command, which has ``add_arguments`` and ``run``."""
    # ``import`` is a keyword, so it cannot be a module's name.
    own = "import_" if name == "import" else name.replace("-", "_")
    return f"hetopt.cli.commands.{own}"


def run_command(arguments: Sequence[str] | None) -> int:
    """Run one command and return its exit code; see ``hetopt.cli.main``."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        named = [name for name in COMMANDS if name in given]
        options = parser(named).parse_args(given)
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
            None if asked == BEST else asked,
            given.get("chunks"),
        ) from error
    return code
