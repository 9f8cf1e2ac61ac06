"""What runs have left behind, to look at: run folders and searches are read here, and nothing is trained."""

from ckcnn.results.picking import pick_pair, pick_run, pick_search
from ckcnn.results.reading import Results, Run, load
from ckcnn.results.searches import Search
from ckcnn.results.table import table

__all__ = ["Results", "Run", "Search", "load", "pick_pair", "pick_run", "pick_search", "table"]
