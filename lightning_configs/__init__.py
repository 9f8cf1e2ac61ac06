"""Presets: one YAML for each experiment of the paper."""
