"""Are shards of images made as fast as by the public tools?

    python benchmarks/shards.py [--images 50000] [--pairs 3]

Class folders with `--images` files (the sample photographs, under many names) go to RecordIO by
`dlperf.prepare.images` and MXNet's im2rec.py --pass-through, and to TFRecord by ours and by the
loop of TensorFlow's tutorial (tf.train.Example, tf.io.TFRecordWriter), without its decoding. All
cores, in turns, start-up included. Ours also looks at each JPEG and takes the sha256 of each shard;
the others do not. Printed, and written to results/benchmarks/shards.tsv: public time / our time;
asked is 0.8, and it exits 1 below that.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

from dlperf.prepare import sample

LEAST = 0.8
CORES = os.cpu_count() or 1
IM2REC = "import runpy; runpy.run_module('mxnet.tools.im2rec', run_name='__main__')"
TUTORIAL = """
import os, sys
from concurrent.futures import ProcessPoolExecutor

source, out, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])

def write(job):
    import tensorflow as tf

    def of(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    folders = sorted(os.listdir(source))
    with tf.io.TFRecordWriter(f"{out}/{job}.tfrecord") as writer:
        for label, folder in enumerate(folders):
            for name in sorted(os.listdir(f"{source}/{folder}"))[job::jobs]:
                image = open(f"{source}/{folder}/{name}", "rb").read()
                feature = {"image/encoded": of(image), "image/class/label": of(label)}
                feature["image/filename"] = of(name.encode())
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())

if __name__ == "__main__":
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(write, range(jobs)))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        megabytes = photographs(source, asked.images)
        rows = []
        for name, contestants in (
            ("recordio, im2rec", {"ours": ours("recordio"), "public": im2rec}),
            ("tfrecord, tutorial", {"ours": ours("tfrecord"), "public": tutorial}),
        ):
            seconds = {who: [] for who in contestants}
            for pair in range(asked.pairs):
                for who in sorted(contestants, reverse=pair % 2):
                    out = Path(scratch) / "out"
                    out.mkdir()
                    start = time.perf_counter()
                    contestants[who](source, out)
                    seconds[who].append(time.perf_counter() - start)
                    shutil.rmtree(out)
            ratios = [p / o for p, o in zip(seconds["public"], seconds["ours"], strict=True)]
            row = {"what": name, "images": asked.images, "megabytes": megabytes, "cores": CORES}
            row["ours_images_per_second"] = round(asked.images / min(seconds["ours"]))
            row["public_images_per_second"] = round(asked.images / min(seconds["public"]))
            rows.append({**row, **common.summary(ratios)})
            print(
                "{what}: public / ours {ratio_median}, ours {ours_images_per_second} images/s, "
                "public {public_images_per_second}".format(**rows[-1]),
                flush=True,
            )
    print("->", common.write("shards", rows, ("what",)))
    late = [row["what"] for row in rows if row["ratio_median"] < LEAST]
    if late:
        sys.exit(f"error: slower than {LEAST} x the public tool: {', '.join(late)}")


def photographs(folder, count):
    """Class folders of `count` files, links to few photographs; their size in MB."""
    few = folder.parent / "few"
    sample.make(few, images_per_class=50)
    classes = [path for path in sorted(few.iterdir()) if path.is_dir()]
    size = 0
    for path in classes:
        (folder / path.name).mkdir(parents=True)
        images = sorted(path.iterdir())
        for number in range(count // len(classes)):
            image = images[number % len(images)]
            os.link(image, folder / path.name / f"{path.name}_{number}.JPEG")
            size += image.stat().st_size
    return round(size / 1e6)


def ours(format):
    def make(source, out):
        command = [sys.executable, "-m", "dlperf.prepare.images", "--source", source, "--out", out]
        command += ["--format", format, "--shards", "16", "--jobs", str(CORES)]
        call(command, PYTHONPATH=common.ROOT / "scripts")

    return make


def im2rec(source, out):
    interpreter, environ = common.environment("mxnet")
    command = [interpreter, "-c", IM2REC, out / "set", source]
    packages = {"PYTHONPATH": opencv(interpreter), **environ}
    call([*command, "--list", "--recursive"], **packages)
    call([*command, "--pass-through", "--num-thread", str(CORES)], **packages)


def tutorial(source, out):
    interpreter, environ = common.environment("tensorflow")
    script = out / "tutorial.py"
    script.write_text(TUTORIAL)
    call([interpreter, script, source, out, str(CORES)], TF_CPP_MIN_LOG_LEVEL="2", **environ)


def opencv(interpreter):
    """What im2rec imports beside MXNet, installed once."""
    target = common.RESULTS / "packages" / "im2rec"
    if not (target / "cv2").exists():
        uv = Path(sys.executable).with_name("uv")
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--python", interpreter]
        call([*command, "--target", target, "opencv-python-headless==4.11.0.86"])
    return target


def call(command, **variables):
    environ = {**os.environ, **{key: str(value) for key, value in variables.items()}}
    done = subprocess.run(list(map(str, command)), env=environ, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}\n{done.stderr[-3000:]}")


if __name__ == "__main__":
    main()
