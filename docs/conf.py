"""How the site is built: `make docs`, or `python -m sphinx -W docs build/docs`.

Pages are the Markdown files of this folder. The code writes the reference in each
build (`reference_pages.py`), so that it cannot be wrong. No page loads a script or a font from elsewhere.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pygments.lexers.special import TextLexer
from reference_pages import write_pages
from sphinx.highlighting import lexers

from finegraph import __version__

project = "finegraph"
author = "the finegraph developers"
project_copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["README.md", "Thumbs.db"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a page may begin with a short section

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes once, in the list of their class
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "finegraph"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"sidebar_hide_name": False, "navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
lexers["csv"] = TextLexer()  # Pygments has none for tables


def setup(app: object) -> None:
    """Write the pages that come from the code before any page is read."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "reference"))
