"""``python -m acetune`` is the command."""

from acetune.cli import main

if __name__ == "__main__":
    main()
