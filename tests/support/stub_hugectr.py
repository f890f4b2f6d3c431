"""A stub in place of the module `hugectr`, which comes in NVIDIA's container only and needs a GPU.

It trains nothing. It checks every call against the signatures of HugeCTR's source (names, keywords,
types), refuses what that source refuses, computes the loss of a batch by the layers that it was
given, and reads and writes weights in HugeCTR's files. That a page passes here says that its calls
are well formed, not that HugeCTR computes what it should: a certificate on a GPU says that.

SIGNATURES are those of v23.09.00 of NVIDIA-Merlin/HugeCTR, below HugeCTR/include/pybind/. An
argument without a `...` behind its type must be given.
"""

import enum
import json
import types
from pathlib import Path

import numpy as np

TEXT, INT, FLOAT, BOOL = "text", "int", "float", "bool"
TEXTS, GPUS, PARAMS = "list of text", "list of lists of int", "list of DataReaderSparseParam"

ENUMS = {  # common_wrapper.hpp
    "Check_t": ("Sum", "Non"),
    "DataReaderType_t": ("Norm", "Raw", "Parquet", "RawAsync"),
    "Embedding_t": (
        "DistributedSlotSparseEmbeddingHash",
        "LocalizedSlotSparseEmbeddingHash",
        "LocalizedSlotSparseEmbeddingOneHot",
        "HybridSparseEmbedding",
    ),
    "Layer_t": (
        *("BatchNorm", "LayerNorm", "BinaryCrossEntropyLoss", "Reshape", "Select", "Concat"),
        *("CrossEntropyLoss", "Dropout", "ElementwiseMultiply", "ELU", "InnerProduct", "MLP"),
        *("Interaction", "MultiCrossEntropyLoss", "ReLU", "Sigmoid", "Slice", "WeightMultiply"),
        *("FmOrder2", "Add", "ReduceSum", "Softmax", "Gather", "Cast"),
    ),
    "Optimizer_t": ("Ftrl", "Adam", "RMSProp", "AdaGrad", "MomentumSGD", "Nesterov", "SGD"),
    "Update_t": ("Local", "Global", "LazyGlobal"),
}

SIGNATURES = {
    "CreateSolver": {  # solver_wrapper.hpp; the page uses none of those that are left out
        **{"model_name": [TEXT], "seed": [INT], "lr": [FLOAT], "warmup_steps": [INT]},
        **{"max_eval_batches": [INT], "batchsize_eval": [INT], "batchsize": [INT]},
        **{"vvgpu": [GPUS], "repeat_dataset": [BOOL], "use_mixed_precision": [BOOL]},
        **{"enable_tf32_compute": [BOOL], "scaler": [FLOAT], "i64_input_key": [BOOL]},
        **{"use_algorithm_search": [BOOL], "use_cuda_graph": [BOOL], "gen_loss_summary": [BOOL]},
    },
    "DataReaderParams": {  # model_wrapper.hpp, the overload with a list of sources
        **{"data_reader_type": "DataReaderType_t", "source": TEXTS, "keyset": [TEXTS]},
        **{"eval_source": TEXT, "check_type": "Check_t", "cache_eval_data": [INT]},
        **{"num_samples": [INT], "eval_num_samples": [INT], "float_label_dense": [BOOL]},
        **{"read_file_sequentially": [BOOL], "num_workers": [INT]},
    },
    "CreateOptimizer": {  # optimizer_wrapper.hpp
        **{"optimizer_type": ["Optimizer_t"], "update_type": ["Update_t"], "beta": [FLOAT]},
        **{"lambda1": [FLOAT], "lambda2": [FLOAT], "beta1": [FLOAT], "beta2": [FLOAT]},
        **{"epsilon": [FLOAT], "initial_accu_value": [FLOAT], "momentum_factor": [FLOAT]},
        "atomic_update": [BOOL],
    },
    "DataReaderSparseParam": {  # common_wrapper.hpp, the overload with a number
        **{"top_name": TEXT, "nnz_per_slot": INT, "is_fixed_length": BOOL, "slot_num": INT}
    },
    "Input": {  # model_wrapper.hpp
        **{"label_dim": INT, "label_name": TEXT, "dense_dim": INT, "dense_name": TEXT},
        "data_reader_sparse_param_array": PARAMS,
    },
    "SparseEmbedding": {  # model_wrapper.hpp
        **{"embedding_type": "Embedding_t", "workspace_size_per_gpu_in_mb": [INT]},
        **{"embedding_vec_size": INT, "combiner": TEXT, "sparse_embedding_name": TEXT},
        **{"bottom_name": TEXT, "slot_size_array": ["list of int"], "optimizer": ["OptParamsPy"]},
    },
    "DenseLayer": {  # model_wrapper.hpp; the page uses none of those that are left out
        **{"layer_type": "Layer_t", "bottom_names": TEXTS, "top_names": TEXTS},
        **{"factor": [FLOAT], "dropout_rate": [FLOAT], "num_output": [INT]},
        **{"leading_dim": [INT], "time_step": [INT], "axis": [INT]},
    },
    # of Model, in model_wrapper.hpp
    "Model": {"solver": "Solver", "reader_params": "DataReaderParams", "opt_params": "OptParamsPy"},
    "add": {"layer": "Input, SparseEmbedding or DenseLayer"},
    "compile": {},
    "start_data_reading": {},
    "set_learning_rate": {"lr": FLOAT},
    "train": {},
    "get_current_loss": {},
    "graph_to_json": {"graph_config_file": TEXT},
    "load_dense_weights": {"dense_model_file": TEXT},
    "load_sparse_weights": {"sparse_embedding_files": TEXTS},
    "save_params_to_files": {"prefix": TEXT, "iter": [INT]},
}


class StubError(TypeError):
    """A call that HugeCTR would not take."""


def number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def listed(value, check):
    return isinstance(value, list) and all(map(check, value))


CHECKS = {
    TEXT: lambda value: isinstance(value, str),
    INT: number,
    FLOAT: lambda value: number(value) or isinstance(value, float),
    BOOL: lambda value: isinstance(value, bool),
    TEXTS: lambda value: listed(value, CHECKS[TEXT]),
    "list of int": lambda value: listed(value, number),
    GPUS: lambda value: listed(value, CHECKS["list of int"]),
    PARAMS: lambda value: listed(value, lambda each: each.kind == "DataReaderSparseParam"),
}


def bound(name, arguments, keywords):
    """The arguments of a call by name. Raises StubError for what the signature has not."""
    signature, found = SIGNATURES[name], {}
    if len(arguments) > len(signature):
        raise StubError(f"{name} takes {len(signature)} arguments")
    for key, value in [*zip(signature, arguments, strict=False), *keywords.items()]:
        if key not in signature or key in found:
            raise StubError(f"{name}: no such argument, or twice: {key}")
        kind = signature[key][0] if isinstance(signature[key], list) else signature[key]
        right = CHECKS.get(kind, lambda value, kind=kind: getattr(value, "kind", "") in kind)(value)
        if not right:
            raise StubError(f"{name}: {key} is {value!r}, not {kind}")
        found[key] = value
    missing = [key for key, kind in signature.items() if key not in found and kind[:1] != [kind[0]]]
    if missing:
        raise StubError(f"{name}: without {', '.join(missing)}")
    return found


def module(version="23.9.0"):
    """The stub as a module; `calls` has all that was called, (name, arguments by name)."""
    stub = types.ModuleType("hugectr")
    stub.__version__, stub.calls, stub.version = version, [], tuple(map(int, version.split(".")))

    def noted(name, arguments, keywords):
        found = bound(name, arguments, keywords)
        stub.calls.append((name, found))
        return found

    def maker(name, kind):
        def make(*arguments, **keywords):
            found = noted(name, arguments, keywords)
            check(name, found)
            return types.SimpleNamespace(kind=kind, **found)

        return make

    def check(name, found):
        """What the constructors refuse."""
        if name == "CreateSolver":
            if found.get("use_mixed_precision") and found.get("enable_tf32_compute"):
                raise StubError("use_mixed_precision and enable_tf32_compute are both true")
            if found["batchsize"] % sum(map(len, found["vvgpu"])):
                raise StubError("batchsize is not a multiple of the GPUs")
        if name == "DataReaderParams":
            norm = found["data_reader_type"].name == "Norm"
            if norm and stub.version >= (23, 12):
                raise StubError("Norm is deprecated")  # src/pybind/add_input.cpp
        if name == "DenseLayer" and found["layer_type"].name == "Dropout":
            if not 0 < found.get("dropout_rate", 0.5) < 1:  # src/layers/dropout_layer.cu
                raise StubError("a dropout_rate of 0 or 1")

    for name, values in ENUMS.items():
        each = enum.Enum(name, values)
        each.kind = property(lambda self: type(self).__name__)
        setattr(stub, name, each)
    kinds = {"CreateSolver": "Solver", "CreateOptimizer": "OptParamsPy"}
    for name in list(SIGNATURES)[: list(SIGNATURES).index("Model")]:
        setattr(stub, name, maker(name, kinds.get(name, name)))
    stub.Model = lambda *arguments, **keywords: Model(noted, arguments, keywords)
    return stub


class Model:
    """The graph of what was added, and its loss on the batch that `train` took."""

    def __init__(self, noted, arguments, keywords):
        self._noted = noted
        given = noted("Model", arguments, keywords)
        self.solver, self.reader = given["solver"], given["reader_params"]
        self.layers, self.dense, self.tables = [], None, None
        self.compiled = self.reading = False
        self.taken = 0

    def __getattr__(self, name):
        """A method of SIGNATURES: what `_name` does, after the check."""
        if name not in SIGNATURES:
            raise AttributeError(name)
        return lambda *arguments, **keywords: getattr(self, "_" + name)(
            **self._noted(name, arguments, keywords)
        )

    def _add(self, layer):
        there = {name for each in self.layers for name in tops(each)}
        for name in bottoms(layer):
            if name not in there:
                raise StubError(f"{name} is not there yet")
        self.layers.append(layer)

    def _compile(self):
        self.compiled = True

    def _graph_to_json(self, graph_config_file):
        """As save_graph_to_json of src/pybind/add_dense_layer.cpp writes it."""
        gpus = sum(map(len, self.solver.vvgpu))
        layers = [described(layer, gpus) for layer in self.layers]
        Path(graph_config_file).write_text(json.dumps({"layers": layers}))

    def _start_data_reading(self):
        self.reading = True

    def _set_learning_rate(self, lr):
        self.rate = lr

    def _load_dense_weights(self, dense_model_file):
        self._need_compiled()
        self.dense = np.fromfile(dense_model_file, "<f4")

    def _load_sparse_weights(self, sparse_embedding_files):
        self._need_compiled()
        embeddings = self._of("SparseEmbedding")
        if len(sparse_embedding_files) != len(embeddings):
            raise StubError("as many files as embeddings are needed")
        gpus, self.tables = sum(map(len, self.solver.vvgpu)), []
        for folder, each in zip(map(Path, sparse_embedding_files), embeddings, strict=True):
            keys = np.fromfile(folder / "key", "<i8")
            rows = np.fromfile(folder / "emb_vector", "<f4").reshape(len(keys), -1)
            held = np.bincount(keys % gpus, minlength=gpus).max()
            if rows.shape[1] != each.embedding_vec_size or held > rows_a_gpu(each):
                raise StubError(f"{folder}: {held} rows on a GPU that has {rows_a_gpu(each)}")
            self.tables.append(dict(zip(keys.tolist(), rows, strict=True)))

    def _need_compiled(self):
        if not self.compiled:
            raise StubError("weights cannot be loaded before Model.compile()")

    def _save_params_to_files(self, prefix, iter=0):
        self.dense.tofile(f"{prefix}_dense_{iter}.model")
        for number, table in enumerate(self.tables):
            folder = Path(f"{prefix}{number}_sparse_{iter}.model")
            folder.mkdir()
            # a GPU's hash table has its keys in no order
            keys = np.random.RandomState(number).permutation(list(table))
            keys.astype("<i8").tofile(folder / "key")
            np.array([table[key] for key in keys.tolist()], "<f4").tofile(folder / "emb_vector")

    def _train(self):
        if not self.reading:
            raise StubError("start the data reader before Model::train()")
        self.taken += 1
        return True

    def _get_current_loss(self):
        return loss(self, norm_batch(self.reader, self.solver.batchsize, self.taken - 1))

    def _of(self, kind):
        return [layer for layer in self.layers if layer.kind == kind]


def rows_a_gpu(embedding):
    """`initialize_max_vocabulary_size_per_gpu` of src/pybind/model.cpp, of Adam: 2 moments."""
    found = embedding.workspace_size_per_gpu_in_mb * 1024 * 1024
    return found // ((1 + 2) * 4 * embedding.embedding_vec_size)


def bottoms(layer):
    if layer.kind == "Input":
        return []
    return [layer.bottom_name] if layer.kind == "SparseEmbedding" else layer.bottom_names


def tops(layer):
    if layer.kind == "Input":
        sparse = [each.top_name for each in layer.data_reader_sparse_param_array]
        return [layer.label_name, layer.dense_name, *sparse]
    return [layer.sparse_embedding_name] if layer.kind == "SparseEmbedding" else layer.top_names


def described(layer, gpus):
    if layer.kind == "Input":
        sparse = [
            {"top": each.top_name, "slot_num": each.slot_num, "type": "DistributedSlot"}
            for each in layer.data_reader_sparse_param_array
        ]
        label = {"top": layer.label_name, "label_dim": layer.label_dim}
        dense = {"top": layer.dense_name, "dense_dim": layer.dense_dim}
        return {"type": "Data", "label": label, "dense": dense, "sparse": sparse}
    below, above = bottoms(layer), tops(layer)
    found = {
        "bottom": below[0] if len(below) == 1 else below,
        "top": above[0] if len(above) == 1 else above,
    }
    if layer.kind == "SparseEmbedding":
        hparam = {
            "workspace_size_per_gpu_in_mb": layer.workspace_size_per_gpu_in_mb,
            "max_vocabulary_size_global": rows_a_gpu(layer) * gpus,
            "embedding_vec_size": layer.embedding_vec_size,
            "combiner": layer.combiner,
        }
        return {"type": layer.embedding_type.name, "sparse_embedding_hparam": hparam, **found}
    found["type"] = layer.layer_type.name
    if found["type"] == "InnerProduct":
        found["fc_param"] = {"num_output": layer.num_output}
    if found["type"] == "Reshape":
        found["leading_dim"] = layer.leading_dim
    return found


def norm_batch(reader, size, number):
    """The batch of this number in Norm, as its threads read it: they take turns, a file each.

    Written apart from the product's own reader: after read_a_batch of
    src/data_readers/data_reader_worker.cpp, number by number.
    """
    lines = Path(reader.source[0]).read_text().splitlines()
    names = lines[1 : 1 + int(lines[0])]
    if reader.num_workers > len(names):
        raise StubError("num_workers is greater than the number of files in the file list")
    thread, turn = number % reader.num_workers, number // reader.num_workers
    content = Path(names[thread]).read_bytes()
    check, records, label_dim, dense_dim, slots = np.frombuffer(content[:40], "<i8").tolist()
    if check or label_dim != 1:
        raise StubError("DataHeaderError")
    place, samples = 64, []
    for _ in range(records):
        dense = np.frombuffer(content, "<f4", 1 + dense_dim, place)
        place, keys = place + dense.nbytes, []
        for _ in range(slots):
            count = int(np.frombuffer(content, "<i4", 1, place)[0])
            keys.append(np.frombuffer(content, "<i8", count, place + 4).tolist())
            place += 4 + 8 * count
        samples.append((dense, keys))
    if place != len(content):
        raise StubError("failed to read a file")
    return [samples[(turn * size + each) % records] for each in range(size)]


def loss(model, batch):
    """The mean loss of a batch by the model's layers; dropout leaves all."""
    (entry,), tables, dense = model._of("Input"), list(model.tables), model.dense.astype("f8")
    values = {
        entry.label_name: np.array([each[:1] for each, _ in batch], "f8"),
        entry.dense_name: np.array([each[1:] for each, _ in batch], "f8"),
    }
    first = 0
    for each in entry.data_reader_sparse_param_array:
        values[each.top_name] = [keys[first : first + each.slot_num] for _, keys in batch]
        first += each.slot_num
    for layer in model.layers[1:]:
        given = [values[name] for name in bottoms(layer)]
        (top,) = tops(layer)
        if layer.kind == "SparseEmbedding":
            table = tables.pop(0)
            values[top] = np.array(
                [[sum(table[key] for key in slot) for slot in keys] for keys in given[0]], "f8"
            )
            continue
        kind = layer.layer_type.name
        if kind == "Reshape":
            values[top] = given[0].reshape(-1, layer.leading_dim)
        elif kind == "Concat":
            values[top] = np.concatenate(given, 1)
        elif kind == "ReduceSum":
            values[top] = given[0].sum(layer.axis, keepdims=True)
        elif kind == "Add":
            values[top] = given[0] + given[1]
        elif kind == "ReLU":
            values[top] = np.maximum(given[0], 0)
        elif kind == "Dropout":
            values[top] = given[0]
        elif kind == "InnerProduct":
            shape = given[0].shape[1], layer.num_output
            kernel, dense = np.split(dense, [shape[0] * shape[1]])
            bias, dense = np.split(dense, [shape[1]])
            values[top] = given[0] @ kernel.reshape(shape) + bias
        elif kind == "BinaryCrossEntropyLoss":
            logit, label = given
            return float(np.mean(np.logaddexp(0, logit) - label * logit))
    raise StubError("the model has no loss")
