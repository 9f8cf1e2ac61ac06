"""Files: written whole or not at all, and read as untrusted."""

from ckcnn.files.writing import check_output, process_started, remove_orphans, replacing, replacing_path

__all__ = ["check_output", "process_started", "remove_orphans", "replacing", "replacing_path"]
