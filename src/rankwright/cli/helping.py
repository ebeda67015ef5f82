"""Help pages: paragraphs of a docstring as the terminal wraps them, examples as they are written.

Markdown would do that as well; loading a reader of Markdown takes a sixth of the time that a help
page may take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


def reflow(text: str) -> str:
    """The lines of a paragraph in one; those of an example apart, and set in.

    >>> print(reflow("Learn\\na model.\\n\\n```text\\ntrain a.txt\\ntrain b.txt\\n```"))
    Learn a model.
    <BLANKLINE>
      train a.txt
      train b.txt
    """
    return "\n\n".join(
        "\n".join(f"  {line}" for line in part.splitlines()[1:-1])
        if part.startswith("```")
        else " ".join(part.splitlines())
        for part in text.strip().split("\n\n")
    )


class Pages:
    """A help formatter: cyclopts' own, for reflowed text."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from cyclopts.help import DefaultFormatter

        for entry in panel.entries:
            _mend(entry.description)
        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """The first line."""
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(
        self, console: Console, options: ConsoleOptions, description: Any
    ) -> None:
        """What a verb does, above its options."""
        from cyclopts.help import DefaultFormatter

        _mend(description)
        DefaultFormatter().render_description(console, options, description)


def _mend(described: Any) -> None:
    text = getattr(described, "primary_renderable", None)
    if text:
        text.plain = reflow(text.plain)
