"""Write the last section of guide/command_line.md: every option of every verb, from the help.

python docs/options.py
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

from rankwright.cli.app import VERBS, app

PAGE = Path(__file__).parent / "guide" / "command_line.md"
TITLE = "## Every option"


def section() -> str:
    """The options of each verb; a group that verbs share is listed once."""
    lines = [TITLE, "", "`rankwright VERB --help` prints the same."]
    shared: dict[str, dict[str, None]] = {}
    for verb in VERBS:
        if verb == "data":  # a group of small verbs, described above
            continue
        own = []
        for argument in app[verb].assemble_argument_collection(parse_docstring=True):
            names = [name for name in argument.names if _is_listed(name, argument)]
            if not names:
                continue
            group = argument.parameter.group[0]
            title = getattr(group, "name", group) or ""
            text = f"- `{'`, `'.join(names)}`: {argument.parameter.help}"
            line = fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)
            if title.startswith("How to read"):
                shared.setdefault(title, {})[line] = None
            else:
                own.append(line)
        lines += ["", f"### {verb}", "", *own]
    for title, options in shared.items():
        lines += ["", f"### {title}", "", *options]
    return "\n".join(lines) + "\n"


def _is_listed(name: str, argument: Any) -> bool:
    return name.startswith("-") and not name.startswith(("--no-", "--empty-"))


def page() -> str:
    """The page with its last section as the verbs have it now."""
    return PAGE.read_text().partition(TITLE)[0] + section()


if __name__ == "__main__":
    PAGE.write_text(page())
