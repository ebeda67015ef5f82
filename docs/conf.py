"""Sphinx: pages in Markdown, reference from the docstrings, a gallery of examples."""

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

from rankwright import __version__

project = "rankwright"
author = "the rankwright developers"
project_copyright = "2026, the rankwright developers"
release = version = __version__

extensions = [
    "sphinx_copybutton",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples"]
# Shapes such as (n_rows,) are not references; the gallery is configured with a function.
suppress_warnings = ["ref.python", "config.cache"]
toc_object_entries_show_parents = "hide"
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_use_ivar = True
html_theme = "pydata_sphinx_theme"
html_title = "rankwright"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_theme_options = {"navbar_align": "left", "navigation_depth": 2}


def altair_chart(block, block_vars, gallery_conf):
    """The Altair chart that a block of an example names ``chart``, as a picture below it."""
    chart = block_vars["example_globals"].pop("chart", None)
    if chart is None:
        return ""
    path = next(block_vars["image_path_iterator"])
    chart.save(path, scale_factor=2)
    return figure_rst([path], gallery_conf["src_dir"])


sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "image_scrapers": (altair_chart,),
    "capture_repr": (),  # the last line of a block shows its chart in the notebook
    "reset_modules": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
}


def math_inline(translator, node: nodes.math) -> None:
    translator.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def math_block(translator, node: nodes.math_block) -> None:
    translator.body.append(latex2mathml.converter.convert(node.astext(), display="block"))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    # MathML is part of HTML: formulas need no script and no network.
    app.add_html_math_renderer("mathml", (math_inline, None), (math_block, None))


copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
