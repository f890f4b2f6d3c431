"""Draws a group's number: python -m dlperf.certify.draw GROUP --out FILE (contract/draws.py)."""

import argparse

from dlperf.contract import draws

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m dlperf.certify.draw", description=__doc__)
    parser.add_argument("group")
    parser.add_argument("--out", required=True, help="a file that is there stays as it is")
    asked = parser.parse_args()
    draws.write(asked.out, asked.group)
