"""How the documentation is built: ``make docs`` writes it to ``docs/_build/html``."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from ckcnn import __version__
from ckcnn.cli import listing

project = "ckcnn"
release = __version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb"]
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!ckcnn|datamodules).*"),  # names of other packages: a build needs no network
    (r"py:.*", r"ckcnn\.datamodules\.(datasets|downloads)\..*"),  # of the inside, in signatures
]

default_role = "obj"  # `CKConv` in a docstring
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: f"ckcnn.nn.{name}" for name in ("KernelFactory", "ConvFactory")}
python_maximum_signature_line_length = 88
napoleon_google_docstring, napoleon_numpy_docstring = True, False

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"  # docs/execute_notebooks.py has done it, with real runs
html_math_renderer = "mathml"  # browsers draw it themselves, so a page fetches nothing
html_theme = "furo"
html_static_path, html_css_files = ["static"], ["equations.css", "pictures.css"]
html_title = "ckcnn"
html_copy_source = False
html_show_sphinx = html_show_copyright = False

_PLACE = "<!-- the table of presets -->"


def preset_table() -> str:
    """One row for each row of the paper's tables, as `ckcnn presets` prints it."""
    rows = ["| `ckcnn fit --config …` | parameters | paper |", "|---|---:|---|"]
    for command, paper in listing.rows():
        size = f"{paper['size']:,}" if "size" in paper else "-"
        rows.append(f"| `{command}` | {size} | {listing.figure(paper)} |")
    return "\n".join(rows)


def _put_table(app: Sphinx, page: str, source: list[str]) -> None:
    if page == "reference/presets":
        source[0] = source[0].replace(_PLACE, preset_table())


def _find(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement) -> nodes.Element | None:
    """Link a class in single quotes wherever it is documented; what is nowhere, such as an argument, is code."""
    name = node["reftarget"]
    if node.get("reftype") != "obj":
        return None
    if not name[0].isupper():
        return text
    node["refspecific"] = True  # in any module
    arguments: Any = (env, node["refdoc"], app.builder, "obj", name, node, text)
    return env.get_domain("py").resolve_xref(*arguments) or text


def _write_math(writer: nodes.NodeVisitor, node: nodes.math | nodes.math_block) -> None:
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    writer.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Connect the hooks and the renderer of equations."""
    app.add_html_math_renderer("mathml", inline_renderers=(_write_math, None), block_renderers=(_write_math, None))
    app.connect("source-read", _put_table)
    app.connect("missing-reference", _find)
