"""How the documentation is built: python -m sphinx -W docs OUT."""

from fedskew import __version__

project = "fedskew"
author = "the fedskew authors"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"fedskew {release}"

# A link to <a id="..."> on the same page is right for GitHub too; tests/test_docs.py checks them all.
suppress_warnings = ["myst.xref_missing"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# The page shows what a person passes in, not where it is defined.
python_use_unqualified_type_names = True
