"""A small table of text cells, printed as text, Markdown, LaTeX, HTML or JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import wrap


@dataclass(frozen=True)
class Cell:
    """Text with optional marks: best of its column, letters above it, a note next to it."""

    text: str
    best: bool = False
    above: str = ""
    beside: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header; the first column holds names, the others numbers.

    Examples
    --------
    >>> table = Table(("system", "AP"), ((Cell("a"), Cell("0.50", best=True, above="b")),
    ...                                  (Cell("b"), Cell("0.25"))), ("higher is better",))
    >>> print(table)
    system      AP
    a       *0.50b
    b        0.25
    higher is better
    >>> print(table.to_markdown())
    | system | AP |
    | :--- | ---: |
    | a | **0.50**<sup>b</sup> |
    | b | 0.25 |
    <BLANKLINE>
    higher is better
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Aligned columns; ``*`` marks the best."""
        columns: list[list[str]] = []
        for name, *cells in zip(self.header, *self.rows, strict=True):
            room = max((len(cell.above) for cell in cells), default=0)
            texts = [name, *(_plain(cell, room) for cell in cells)]
            width = max(map(len, texts))
            columns.append([f"{text:{'>' if columns else '<'}{width}}" for text in texts])
        lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
        return "\n".join([*lines, *(part for note in self.notes for part in wrap(note, 88))])

    def to_markdown(self) -> str:
        """A GitHub table."""
        rule = ["---:"] * len(self.header)
        rule[0] = ":---"
        head = [_escape_markdown(text) for text in self.header]
        body = [[_rich(cell, *_MARKDOWN) for cell in row] for row in self.rows]
        lines = [f"| {' | '.join(row)} |" for row in (head, rule, *body)]
        return "\n".join(lines + [line for note in self._rich_notes() for line in ("", note)])

    def to_latex(self) -> str:
        """A ``tabular`` with booktabs rules."""
        begin = rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}"
        head = " & ".join(_escape_latex(text) for text in self.header) + r" \\"
        body = [" & ".join(_rich(cell, *_TEX) for cell in row) + r" \\" for row in self.rows]
        lines = [begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
        return "\n".join(lines + [f"% {note}" for note in self._rich_notes()])

    def to_html(self) -> str:
        """A table without style of its own."""
        head = "".join(f"<th>{html.escape(text)}</th>" for text in self.header)
        body = "".join(
            f"<tr>{''.join(_html_cell(i, cell) for i, cell in enumerate(row))}</tr>"
            for row in self.rows
        )
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in self._rich_notes())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + notes

    def to_json(self) -> str:
        """The texts of the table: a list with an object for each row."""
        rows = [
            {name: _plain(cell) for name, cell in zip(self.header, row, strict=True)}
            for row in self.rows
        ]
        return json.dumps({"rows": rows, "notes": list(self.notes)}, indent=1)

    def _rich_notes(self) -> list[str]:
        """The notes for formats that show the best in bold and not by a star."""
        return [
            f"bold: {note.removeprefix('* ')}" if note.startswith("* ") else note
            for note in self.notes
        ]

    def _repr_html_(self) -> str:
        return self.to_html()


def _plain(cell: Cell, room: int = 0) -> str:
    beside = f" {cell.beside}" if cell.beside else ""
    return f"{'*' if cell.best else ''}{cell.text}{cell.above.ljust(room)}{beside}"


def _rich(cell: Cell, escape: Callable[[str], str], bold: str, above: str, beside: str) -> str:
    """A cell with its marks in these formats."""
    text = escape(cell.text)
    text = bold.format(text) if cell.best else text
    text += above.format(escape(cell.above)) if cell.above else ""
    return text + (beside.format(escape(cell.beside)) if cell.beside else "")


def _html_cell(column: int, cell: Cell) -> str:
    side = "right" if column else "left"
    return f'<td style="text-align:{side}">{_rich(cell, *_HTML)}</td>'


def _escape_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {character: f"\\{character}" for character in "&%$#_{}"}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


# Of each format: how to escape text, and formats for the best value, letters above, notes beside.
_MARKDOWN = (_escape_markdown, "**{}**", "<sup>{}</sup>", " {}")
_TEX = (_escape_latex, r"\textbf{{{}}}", r"$^{{\mathrm{{{}}}}}$", r" {{\small {}}}")
_HTML = (html.escape, "<b>{}</b>", "<sup>{}</sup>", " <small>{}</small>")
