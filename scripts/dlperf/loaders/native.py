"""Reads a set of shards with a framework's own reader, to prove that it returns the same samples in
the same order as the readers of other frameworks.

    PYTHONPATH=scripts <python> -m dlperf.loaders.native --framework mxnet \\
        --data results/data/sample-recordio

The input is a folder that dlperf.prepare.images made. The output is JSON with the number of samples
and their digest, to compare with `samples_sha256` of the manifest. Runs in each framework's
interpreter.
"""

import argparse
import json
import os
import sys

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.formats import OF_FRAMEWORK
from dlperf.loaders.manifest import Digest, sha256_of_shards


def tensorflow(folder, names):
    import tensorflow as tf

    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    for name in names:
        records = tf.data.TFRecordDataset(os.path.join(folder, name))
        parsed = records.map(lambda record: tf.io.parse_single_example(record, features))
        yield (
            (int(sample["image/class/label"]), sample["image/encoded"])
            for sample in parsed.as_numpy_iterator()
        )


def tensorflow1(folder, names):
    import tensorflow as tf

    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    for name in names:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            records = tf.data.TFRecordDataset(os.path.join(folder, name))
            parsed = records.map(lambda record: tf.io.parse_single_example(record, features))
            sample = tf.compat.v1.data.make_one_shot_iterator(parsed).get_next()
            yield _until_end(session, sample, tf.errors.OutOfRangeError)


def _until_end(session, sample, end):
    while True:
        try:
            values = session.run(sample)
        except end:
            return
        yield int(values["image/class/label"]), values["image/encoded"]


def mxnet(folder, names):
    from mxnet import recordio

    for name in names:
        path = os.path.join(folder, name)
        reader = recordio.MXIndexedRecordIO(os.path.splitext(path)[0] + ".idx", path, "r")
        records = (recordio.unpack(reader.read_idx(key)) for key in reader.keys)
        yield ((int(header.label), image) for header, image in records)


def oneflow(folder, names):
    import oneflow as flow

    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as stream:
        files = json.load(stream)["files"]
    samples = {file["path"]: file["samples"] for file in files if "samples" in file}
    reader = flow.nn.OFRecordReader(
        folder,
        batch_size=1,
        data_part_num=len(names),
        part_name_prefix="part-",
        part_name_suffix_length=5,
        random_shuffle=False,
        shuffle_after_epoch=False,
    )
    label = flow.nn.OFRecordRawDecoder("class/label", shape=(), dtype=flow.int32)
    image = flow.nn.OFRecordBytesDecoder("encoded")

    def part(count):
        for _ in range(count):
            record = reader()
            yield int(label(record).numpy()[0]), image(record).numpy()[0].tobytes()

    for name in names:
        yield part(samples[name])


def mindspore(folder, names):
    import mindspore.dataset as dataset

    for name in names:
        rows = dataset.MindDataset(os.path.join(folder, name), shuffle=False)
        yield (
            (int(row["label"]), row["image"].tobytes())
            for row in rows.create_dict_iterator(num_epochs=1, output_numpy=True)
        )


class Files:
    """Class folders as PyTorch's and Paddle's loaders take them: by number."""

    def __init__(self, listing):
        self._folder = os.path.dirname(listing)
        with open(listing, encoding="utf-8") as stream:
            self._lines = [line.rstrip("\n").split("\t") for line in stream]

    def __len__(self):
        return len(self._lines)

    def __getitem__(self, number):
        _, label, name = self._lines[number]
        with open(os.path.join(self._folder, name), "rb") as stream:
            return int(label), stream.read()


def pytorch(folder, names):
    from torch.utils.data import DataLoader

    for name in names:
        yield DataLoader(Files(os.path.join(folder, name)), batch_size=None, num_workers=2)


def paddlepaddle(folder, names):
    from paddle.io import DataLoader, Dataset

    class Images(Files, Dataset):
        def __getitem__(self, number):
            label, image = super().__getitem__(number)
            return label, np.frombuffer(image, np.uint8)  # its workers pass on arrays, not bytes

    for name in names:
        images = Images(os.path.join(folder, name))
        batches = DataLoader(images, batch_size=1, num_workers=2, collate_fn=list)
        yield (
            (int(label), np.asarray(image).tobytes()) for batch in batches for label, image in batch
        )


#: Framework -> its reader of parts. JAX has none of its own.
READERS = {
    "pytorch": pytorch,
    "tensorflow": tensorflow,
    "tensorflow1": tensorflow1,
    "mxnet": mxnet,
    "paddlepaddle": paddlepaddle,
    "oneflow": oneflow,
    "mindspore": mindspore,
}


def digest(framework, folder):
    """{"samples": ..., "samples_sha256": ...} as the framework reads the folder.

    Raises DataError if the folder has the format of another framework.
    """
    format = OF_FRAMEWORK[framework]
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as stream:
        manifest = json.load(stream)
    if manifest.get("format") != format:
        raise DataError(
            "%s: its format is %r; %s reads %r"
            % (folder, manifest.get("format"), framework, format)
        )
    names = [file["path"] for file in manifest["files"] if "samples" in file]
    digests, samples = [], 0
    for part in READERS[framework](folder, names):
        shard = Digest()
        for label, image in part:
            shard.add(label, image)
        digests.append(shard.hex())
        samples += shard.samples
    return {"samples": samples, "samples_sha256": sha256_of_shards(digests)}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.loaders.native",
        description="Digest of a set of shards by a framework's own reader.",
    )
    parser.add_argument("--framework", choices=sorted(READERS), required=True)
    parser.add_argument("--data", required=True, help="folder with a manifest.json")
    asked = parser.parse_args(arguments)
    try:
        print(json.dumps(digest(asked.framework, asked.data)))
    except (DataError, OSError) as error:
        sys.exit("error: %s" % error)


if __name__ == "__main__":
    main()
