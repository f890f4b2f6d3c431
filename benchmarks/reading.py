"""One process that times a documented input pipeline: a line of JSON.

    python benchmarks/reading.py MODULE FOLDER BATCH_SIZE IMAGE_SIZE SECONDS

MODULE is a file of benchmarks/public/readers. As read.py does for ours. Python 3.7.
"""

import importlib.util
import json
import os
import sys

from read import timed


def main(module, folder, batch_size, size, seconds):
    spec = importlib.util.spec_from_file_location("example", module)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    read = example.open_example(folder, int(batch_size), int(size))
    print(json.dumps(timed(read, int(batch_size), float(seconds))))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
