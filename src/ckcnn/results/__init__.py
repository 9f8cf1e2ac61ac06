"""Run folders and searches, read for inspection; nothing is trained here."""

from ckcnn.results.picking import pick_pair, pick_run, pick_search
from ckcnn.results.reading import Results, Run, load
from ckcnn.results.searches import Search
from ckcnn.results.table import table

__all__ = ["Results", "Run", "Search", "load", "pick_pair", "pick_run", "pick_search", "table"]
