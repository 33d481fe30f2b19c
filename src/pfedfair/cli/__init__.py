"""The command line.

A command's module, and torch with it, is loaded when the command is called: help and version take a
moment.
"""

import ast
import gc
import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from typer.core import TyperCommand, TyperGroup

from pfedfair import __version__
from pfedfair._util import terminal
from pfedfair._util.errors import InputError, in_a_command

# Each command, and the module that has a function of its name.
COMMANDS = {
    "train": "one_run", "compare": "compare", "reproduce": "compare", "report": "compare",
    "personalise": "one_run", "theory": "one_run", "tune": "tune", "embed": "embed",
    "predict": "decisions", "audit": "audit", "export": "decisions", "flower": "flower",
}  # fmt: skip
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".xlsx", ".gz")
OF_FLOWER = "The same methods across machines, on Flower."


def loaded(name: str) -> click.Command:
    """A command itself, as Click has it."""
    gc.disable()  # nothing that is loaded is garbage: looking for it takes a tenth of the time
    try:
        module = import_module(f"pfedfair.cli.{COMMANDS[name]}")
        gc.freeze()  # nor is it to be looked at later, last of all when the program ends
    finally:
        gc.enable()
    if name == "flower":
        return typer.main.get_command(module.app)
    single = typer.Typer(add_completion=False)
    single.command()(getattr(module, name))
    return typer.main.get_command(single)


def described(name: str) -> click.Command:
    """A command's name and its first sentence, which is read from its source."""
    text = OF_FLOWER
    if name != "flower":
        tree = ast.parse((Path(__file__).parent / f"{COMMANDS[name]}.py").read_text("utf-8"))
        (own,) = (f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == name)
        text = str(ast.get_docstring(own)).partition("\n")[0]
    return TyperCommand(name, help=text)


class Later(TyperGroup):
    """The commands: for a list their sentences, to be called themselves."""

    def __init__(self, **attributes: Any) -> None:
        attributes["commands"] = {name: TyperCommand(name) for name in COMMANDS}
        super().__init__(**attributes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return described(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        if rest and Path(rest[0]).suffix.lower() in TABLES and not Path(rest[0]).exists():
            raise InputError(f"There is no file {rest[0]}.")  # known before anything is loaded
        return name, loaded(str(name)), rest


app = typer.Typer(
    cls=Later,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train one model together, give every client its own fair version of it, "
    "and show each client what it got.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"pfedfair {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    pass


INTERRUPTED = 130  # typer's exit code for Ctrl-C
RESUMES = ("compare", "reproduce", "tune")  # commands that keep finished runs


def _typed(word: str) -> str:
    """What was typed, whatever the system's language; names of files are as the system has them."""
    try:
        found = os.fsencode(word).decode()
    except UnicodeError:
        return word
    return word if found == word or Path(word).exists() else found


def main() -> None:
    """Run the command line: exit code 2 and one sentence on bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without our letters shows others
            stream.reconfigure(errors="replace")
    sys.argv[1:] = map(_typed, sys.argv[1:])
    try:
        with in_a_command():
            code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:
            kept = " Finished runs are kept: the same command goes on from there."
            terminal.errors.print(f"Interrupted.{kept if sys.argv[1] in RESUMES else ''}")
            sys.stderr.flush()
            os._exit(code)  # at once: what the killed workers left undone is nobody's
        sys.exit(code)
    except click.exceptions.NoArgsIsHelpError as nothing:
        print(nothing.format_message())
    except click.NoSuchOption as error:
        setting = error.option_name.lstrip("-").replace("-", "_")
        from pfedfair.methods import METHODS

        known = any(setting in method.settings for method in METHODS.values())
        if known and sys.argv[1] in ("train", "compare"):
            terminal.fail(f"{error.option_name} is a setting: say --set {setting}=VALUE.", 2)
        terminal.fail(error.format_message(), 2)
    except click.ClickException as error:
        terminal.fail(error.format_message(), 2)
    except InputError as error:
        terminal.fail(str(error), 2)
    except UnicodeEncodeError as error:  # of a file's name: all else is UTF-8
        terminal.fail(
            f"This system's language setting cannot write '{error.object}': set LC_ALL=C.UTF-8.", 2
        )
    except OSError as error:
        terminal.fail(
            f"{error.filename or 'Reading or writing a file'}: {error.strerror or error}.", 2
        )
