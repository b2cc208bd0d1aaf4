"""``python -m fewcap`` is the command ``fewcap``."""

from fewcap.cli import main

if __name__ == "__main__":
    main()
