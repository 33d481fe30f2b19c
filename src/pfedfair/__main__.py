"""The command line as ``python -m pfedfair``."""

from pfedfair.cli import main

if __name__ == "__main__":
    main()
