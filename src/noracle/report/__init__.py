"""The only place that formats: text cards, HTML pages and plots of results.

words        numbers and plain words
assumptions  what results rest on, in plain words, and what to do where it fails
content      what is said about a result, once for all media
card         content as plain text and as an HTML fragment
plots        drawings of results, colour-blind-safe, on axes of matplotlib or on a chart
chart        axes that write SVG by themselves, for pages
page         one self-contained HTML file of several results
"""

from __future__ import annotations
