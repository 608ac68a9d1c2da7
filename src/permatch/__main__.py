"""Run the command line as ``python -m permatch``."""

from permatch.cli.main import app

if __name__ == "__main__":
    app(prog_name="permatch")
