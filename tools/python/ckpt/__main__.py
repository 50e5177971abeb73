"""The tool itself: `python -m ckpt strip-prefix best.pth`."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckpt")
    try:
        os.execv(program, ["ckpt", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"ckpt: {program}: {error.strerror}")


if __name__ == "__main__":
    main()
