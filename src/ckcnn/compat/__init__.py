"""Every private or undocumented part of another library that ckcnn uses, one module for each library.

Nothing else in ckcnn may use one (``tests/test_compat.py`` checks it). Each has one test there, which says what broke
when a new version of the library changes it. The modules do not import each other: training never imports Optuna.
"""
