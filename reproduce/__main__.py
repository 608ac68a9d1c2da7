"""Run the experiments: ``python -m reproduce``."""

from reproduce.app import PROGRAM, app

if __name__ == "__main__":
    app(prog_name=PROGRAM)
