"""What the help texts of commands share."""

from __future__ import annotations

import os

import click

_NO_LIMIT = 1000


def example(command: str) -> str:
    """Closes a --help text with a command that works in a clone."""
    return f"\b\nExample:\n  {command}"


class Commands(click.Group):
    """A group whose help has the first sentence of every command, uncut."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # not Path.is_file (PTH113), which raises for names that are too long
        if args[0] not in self.commands and os.path.isfile(args[0]):  # noqa: PTH113
            ctx.fail(f"{args[0]!r} is a file, and a command comes before it")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, one.get_short_help_str(_NO_LIMIT)) for name, one in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))
