"""Sphinx: pages in Markdown, reference from the docstrings."""

from rankwright import __version__

project = "rankwright"
author = "the rankwright developers"
project_copyright = "2026, the rankwright developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_use_ivar = True
html_theme = "pydata_sphinx_theme"
html_title = "rankwright"
html_show_sourcelink = False
