"""The JavaScript of the report, inlined: the page runs it wherever it is opened, without a network.

Two libraries come from packages that the lock pins, so nothing of theirs is in this repository:
DataTables sorts and filters tables (in itables), Vega-Lite draws the explorer (in vl-convert).
templates/report.js joins them with the page. Out: modules for <script type="module">, each with the
sha256 by which the page's Content-Security-Policy lets it run.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

import markupsafe

from dlperf.analysis.report import tables

# vl-convert's bundle comes without the notices of what is in it.
VEGA_LICENCES = """\
/*! Vega, Vega-Lite, Vega-Embed, Vega-Tooltip, Vega-Interpreter: Copyright (c) University of
 * Washington Interactive Data Lab and contributors. BSD-3-Clause, https://github.com/vega/vega
 * D3: Copyright Mike Bostock. ISC, https://d3js.org
 * Lodash: Copyright OpenJS Foundation and contributors. MIT, https://lodash.com/license
 */
"""


@dataclass(frozen=True)
class Script:
    """One module and the base64 of its sha256."""

    text: markupsafe.Markup
    sha256: str


def scripts() -> list[Script]:
    """The libraries, then the page's own; each module is deferred, in this order."""
    own = (tables.TEMPLATES / "report.js").read_text(encoding="utf-8")
    return [inlined(text) for text in (_datatables(), _vega(), own)]


def inlined(text: str) -> Script:
    """A module's text so that nothing in it ends the <script> that it stands in."""
    # These two would end or hide a <script>. In a module they stand only in strings and patterns.
    safe = re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)
    digest = base64.b64encode(hashlib.sha256(safe.encode()).digest()).decode()
    return Script(markupsafe.Markup(safe), digest)


def _datatables() -> str:
    """The bundle is a module; an inlined module exports nothing, so the name becomes global."""
    text = (resources.files("itables") / "html/dt_bundle.js").read_text(encoding="utf-8")
    exported = re.search(r"export\{[^}]*?([\w$]+) as default[^}]*\};?", text)
    assert exported, "the bundle of itables exports DataTables as its default"
    return text.replace(exported[0], f"globalThis.DataTable={exported[1]};")


@cache
def _vega() -> str:
    import vl_convert  # 90 MB: no other command needs it

    return VEGA_LICENCES + vl_convert.javascript_bundle("globalThis.vegaEmbed = vegaEmbed;")
