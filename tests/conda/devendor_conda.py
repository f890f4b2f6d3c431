"""Make a runnable `conda` 24.7.1 out of the copy that the package conda-lock 4.0.3 carries.

    BASE/bin/python devendor_conda.py        (BASE: an environment of requirements.txt)

Real conda code with its classic solver, without shell functions. Writes the package `conda`,
BASE/bin/conda, and the BASE/bin/activate that Snakemake sources.
"""

import importlib.util
import re
import shutil
import sys
import sysconfig
from pathlib import Path

PACKAGES = Path(sysconfig.get_paths()["purelib"])


def main() -> None:
    found = importlib.util.find_spec("conda_lock")
    source = Path(found.origin).parent / "_vendor" / "conda"
    target = PACKAGES / "conda"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    for path in target.rglob("*.py"):
        text = path.read_text()
        plain = re.sub(r"\bconda_lock\._vendor\.conda\b", "conda", text)
        plain = re.sub(r"\bfrom conda_lock\._vendor import conda\b", "import conda", plain)
        if plain != text:
            path.write_text(plain)
    binaries = Path(sys.prefix) / "bin"
    conda = binaries / "conda"
    conda.write_text(
        f"#!{binaries}/python\nimport sys\nfrom conda.cli import main\n"
        'if __name__ == "__main__":\n    sys.exit(main())\n'
    )
    conda.chmod(0o755)
    (binaries / "activate").write_text(f'eval "$("{conda}" shell.posix activate "$1")"\n')
    # conda-lock registers a plugin of conda whose dependencies are not installed here.
    shutil.rmtree(PACKAGES / "conda_lock")
    for folder in PACKAGES.glob("conda_lock-*.dist-info"):
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
