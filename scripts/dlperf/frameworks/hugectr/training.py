"""Training in HugeCTR: what click models do alike.

The solver, its readers' files, the size of tables, weights through files, and the step: its
low-level API, not `fit`, whose own clock stops before the device has ended a step.
"""

import json
import os
import shutil
import tempfile

import hugectr

from dlperf import workloads
from dlperf.contract.work import Work
from dlperf.frameworks import half
from dlperf.frameworks.hugectr import formats, process
from dlperf.loaders import prefetch
from dlperf.workloads.inputs import loader

SCALER = 1024.0  # of float16, constant: the largest that HugeCTR's documentation names
WORKERS = 12  # threads of its reader, as many as its default
MOMENTS = 2  # of Adam, beside each number of a table


def devices(run):
    """All GPUs of the run, on all nodes."""
    return run.ranks * run.devices


def solver(run, rate):
    return hugectr.CreateSolver(
        seed=run.seed,
        lr=rate,
        batchsize=run.global_batch_size,
        batchsize_eval=devices(run),  # nothing is evaluated: the least memory for it
        max_eval_batches=1,
        vvgpu=[list(range(run.devices)) for _ in range(run.ranks)],
        repeat_dataset=True,
        i64_input_key=True,
        use_mixed_precision=run.amp,
        enable_tf32_compute=run.precision == "tf32",  # it refuses both together
        scaler=scaler(run),
        use_algorithm_search=True,
        use_cuda_graph=True,
    )


def scaler(run):
    return min(SCALER, run.loss_scale) if run.amp else 1.0


def workspace(run, width):
    """MB of a table on each GPU, so that its rows are held in all, and not on each.

    A GPU holds MB x 2^20 / (4 x width x (1 + moments)) rows (`SparseEmbedding` in HugeCTR's
    src/pybind/model.cpp), those whose key is its own number modulo the GPUs.
    """
    rows = -(-run.dimensions["vocabulary"] // devices(run))
    return -(-rows * 4 * width * (1 + MOMENTS) // 2**20)


class Batches(prefetch.Batches):
    """The run's batches, in files for HugeCTR's own reader: the same ones as the other frameworks'.

    A file for each thread of the reader, which takes batches from them in turn: so they come in
    their order. Of synthetic ones there is a pool, over and over: it is written once, so that no
    window has others.
    """

    on_device = True
    waited_seconds = 0.0  # its reader does not say

    def __init__(self, run):
        norm = process.reads_norm()
        self._folder = tempfile.mkdtemp(prefix="batches-")
        write = formats.Norm if norm else formats.Parquet
        source = loader(run.workload, run.data)
        parts = [
            source.open_batches(run.input._replace(part=part), "", 1)
            for part in range(run.data_parallel)
        ]
        count = parts[0].distinct if parts[0].pooled else run.steps
        most = min(WORKERS, len(run.cores)) if norm else run.devices
        threads = max(1, min(most, count))
        names = ["%d.%s" % (each, write.suffix) for each in range(min(threads, count))]
        files = [write(os.path.join(self._folder, name)) for name in names]
        rows = dict.fromkeys(names, 0)
        for number in range(count):
            for part in parts:
                batch = part.next()
                files[number % len(files)].write(batch)
                rows[names[number % len(names)]] += len(batch.labels)
        for each in files:
            each.close()
        self.first_batch_sha256 = parts[0].first_batch_sha256
        for part in parts:
            part.close()
        if not norm:
            formats.write_metadata(
                self._folder,
                rows,
                batch.numbers.shape[1],
                batch.wide.shape[1] + batch.deep.shape[1],
            )
        self._threads = threads
        self._list = formats.write_list(
            self._folder, [names[each % len(names)] for each in range(threads)]
        )
        self._type = "Norm" if norm else "Parquet"
        self.parity = {"data_loader": "HugeCTR's reader of %s, %d threads" % (self._type, threads)}

    def reader(self):
        return hugectr.DataReaderParams(
            data_reader_type=getattr(hugectr.DataReaderType_t, self._type),
            source=[self._list],
            eval_source=self._list,
            check_type=hugectr.Check_t.Non,
            num_workers=self._threads,
        )

    def fill(self):
        """Its reader is as far ahead as it gets."""

    def close(self):
        shutil.rmtree(self._folder, ignore_errors=True)


def train(run, network, weights, batches, rate, parity=None):
    """The Work of training a compiled `network` at this learning rate."""
    taken = 0
    graph = graph_of(network)
    network.start_data_reading()
    network.set_learning_rate(rate)

    def step():
        nonlocal taken
        if network.train() is False:
            raise RuntimeError("HugeCTR's reader has come to the end of its files")
        taken += 1
        return taken

    def loss(handle):
        """The mean over all devices; None for a step whose loss the next one wrote over."""
        return process.of_first(run, network.get_current_loss()) if handle == taken else None

    return Work(
        step=step,
        wait=lambda: process.synchronize(run),
        loss=loss,
        parameters=parameters(graph, parts_of(run), run.dimensions["vocabulary"]),
        batches=batches,
        parity=dict(
            compute_dtype=half(run) if run.amp else "float32",
            loss_scaling="constant" if run.amp else "none",
            loss_scale=scaler(run) if run.amp else None,
            loss_kept="of the last step",
            **capacity(graph),
            **parity or {},
        ),
        weights=weights,
        weights_in_files=True,
        # Moments could be written through files, as weights are. But they would still be corrected
        # for the bias of all steps before, which Adam counts where no function of its API writes.
        restart=None,
    )


def graph_of(network):
    """The layers of a model as HugeCTR itself describes them."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.json")
        network.graph_to_json(graph_config_file=path)
        with open(path) as stream:
            return json.load(stream)["layers"]


def capacity(graph):
    """{"rows_held_<table>": rows that all GPUs together have room for}."""
    hparam = "sparse_embedding_hparam"
    return {
        "rows_held_" + layer["top"]: layer[hparam]["max_vocabulary_size_global"]
        for layer in graph
        if hparam in layer
    }


def parts_of(run):
    """Canonical name -> Part of what this process has."""
    return {each.name: each for each in workloads.parts_of(run)}


def parameters(graph, parts, rows):
    """The number of trained values of these layers, of whose tables, of so many rows, this process
    has these Parts."""
    count, columns, slots = 0, {}, {}
    for layer in graph:
        if layer["type"] == "Data":
            columns[layer["dense"]["top"]] = layer["dense"]["dense_dim"]
            slots = {each["top"]: each["slot_num"] for each in layer["sparse"]}
            continue
        below = layer["bottom"] if isinstance(layer["bottom"], list) else [layer["bottom"]]
        if "sparse_embedding_hparam" in layer:
            width = layer["sparse_embedding_hparam"]["embedding_vec_size"]
            own_rows, own_width = parts[layer["top"]].shape((rows, width))
            count += own_rows * own_width
            found = slots[below[0]] * width
        elif layer["type"] == "InnerProduct":
            found = layer["fc_param"]["num_output"]
            count += (columns[below[0]] + 1) * found
        elif layer["type"] == "Concat":
            found = sum(columns[each] for each in below)
        else:
            found = 1 if layer["type"] == "ReduceSum" else columns[below[0]]
        columns[layer["top"]] = found
    return count


class Weights:
    """Weights by canonical name, through HugeCTR's own files: tables are saved whole, of which a
    process reads what the facts say that it has.

    layers, tables: {name: shape}, the dense ones and the tables, in the order of the model's.
    """

    def __init__(self, run, network, layers, tables):
        self._run, self._network, self._layers, self._tables = run, network, layers, tables
        self._parts = parts_of(run)
        self._saved = 0

    def write(self, arrays):
        with tempfile.TemporaryDirectory() as folder:
            dense = os.path.join(folder, "dense")
            formats.write_dense(dense, (arrays[name] for name in self._layers))
            self._network.load_dense_weights(dense_model_file=dense)
            tables = [os.path.join(folder, name) for name in self._tables]
            for path, name in zip(tables, self._tables):
                formats.write_table(path, arrays[name])
            self._network.load_sparse_weights(sparse_embedding_files=tables)

    def read(self):
        self._saved += 1
        with process.shared_folder(self._run, self._saved) as folder:
            prefix = os.path.join(folder, "weights")
            self._network.save_params_to_files(prefix=prefix, iter=0)
            process.meet(self._run)
            for number, (name, shape) in enumerate(self._tables.items()):
                path, part = "%s%d_sparse_0.model" % (prefix, number), self._parts[name]
                yield name if part.is_whole else part, part.of(formats.read_table(path, shape))
            for pair in formats.read_dense(prefix + "_dense_0.model", self._layers):
                yield pair
