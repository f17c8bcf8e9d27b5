"""What each command does; `cli.py` knows their names."""
