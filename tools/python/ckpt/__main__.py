"""The tool itself: `python -m ckpt strip-prefix best.pth`."""

import os
import shutil
import sys


def main():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckpt")
    program = beside if os.path.exists(beside) else shutil.which("ckpt") or beside  # a Debian package has it in /usr/bin
    try:
        os.execv(program, ["ckpt", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"ckpt: {program}: {error.strerror}")


if __name__ == "__main__":
    main()
