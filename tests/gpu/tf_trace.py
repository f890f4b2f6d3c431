"""Trace a step of the project's own TensorFlow 2 page, and look up what each operation would be on
a GPU that is not there.

    <python of gpu_packages.TENSORFLOW> tf_trace.py STEP.json OUT

In: a gpu_steps.Step as JSON, of one rank. Out, in the folder OUT: `operations.json`, a list of the
operations of one step, those of functions that it calls included, each with

    op, name      its kind, and its place in the graph
    types         the types by which its kernel is chosen: {"T": "bfloat16"}
    layout        'NHWC' or 'NCHW' of convolutions and norms, else ''
    compiled      whether it is in a function that XLA must compile
    kernel        of which device a kernel is registered for these types: 'GPU', 'XLA', 'CPU' or ''
    from_device   inputs that its kernel takes in the host's memory, and that the device makes

The page's `training(run)` runs as in a rank. Nothing is computed: TensorFlow's build for CUDA knows
its kernels without a card, but chooses none, as it places no operation.
"""

import importlib
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/support")]
os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")

import tensorflow as tf  # noqa: E402
from gpu_runs import a_run, shorten  # noqa: E402
from tensorflow.python.framework import kernels, op_def_registry  # noqa: E402

from dlperf import workloads  # noqa: E402
from dlperf.contract.dimension import Dimensions  # noqa: E402
from dlperf.contract.layout import Layout  # noqa: E402
from dlperf.frameworks.tensorflow import process, training  # noqa: E402

#: What calls functions, or only names a value: no kernel of its own is launched.
STRUCTURE = {
    *("Placeholder", "NoOp", "Const", "Identity", "IdentityN", "StopGradient", "PreventGradient"),
    *("PartitionedCall", "StatefulPartitionedCall", "_Arg", "_Retval"),
}
#: Numbers about a tensor that the host knows without asking the device.
SHAPES = {"Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs", "VariableShape"}
#: XLA makes branches and loops of these before it looks for kernels.
BRANCHES = {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"}
#: The device for which XLA compiles an operation.
XLA_DEVICE = "XLA_GPU_JIT"


def main(step: dict, out: Path) -> None:
    run = run_of(step)
    facts = importlib.import_module(f"dlperf.workloads.{run.workload}.facts")
    if step["layers"]:
        shorten(facts, step["layers"])
    # what process.start does where it finds a card, but for the card
    process._state["dtype"] = tf.float32
    tf.random.set_global_generator(tf.random.Generator.from_seed(run.seed))
    page = workloads.load(run.workload, "tensorflow")
    import tf_controls

    tf_controls.spoil(step["control"], page)
    traced = []

    def trace(run, body, specs):
        traced.append(original(run, body, specs))
        return traced[-1]

    original, training.trace = training.trace, trace
    page.training(run)
    found = [each for function in traced for each in operations(function)]
    (out / "operations.json").write_text(json.dumps(found) + "\n")


def run_of(step: dict):
    """The one rank's Run of a step."""
    declared = workloads.dimensions(step["workload"])
    return a_run(
        "tensorflow",
        workload=step["workload"],
        precision=step["precision"],
        compiler=step["compiler"] or "xla",
        batch_size=step["batch_size"],
        layout=Layout(**step["layout"]),
        dimensions=dict(Dimensions(declared, step["dimensions"])),
        gpus=["0"],
        capability="9.0",
        pool_bytes=1,  # as few synthetic batches as there may be: none of them is computed on
        loss_scale=2.0**16,
    )


def operations(function) -> list:
    """The operations of a concrete function and of all that it calls."""
    graph = function.graph.as_graph_def()
    nested = {each.signature.name: each for each in graph.library.function}
    whole = function.function_def.attr["_XlaMustCompile"].b
    found = list(of_nodes(graph.node, whole))
    compiled = {name for name, each in nested.items() if each.attr["_XlaMustCompile"].b}
    if whole:
        compiled |= set(nested)
    compiled = called(nested, compiled)
    for name, each in nested.items():
        found += of_nodes(each.node_def, name in compiled)
    return found


def called(nested: dict, names: set) -> set:
    """These functions, and those that they call."""
    found, rest = set(), list(names)
    while rest:
        name = rest.pop()
        if name in nested and name not in found:
            found.add(name)
            for node in nested[name].node_def:
                rest += [each.func.name for each in node.attr.values() if each.func.name]
    return found


def of_nodes(nodes, compiled: bool):
    """What is known of the operations of one graph."""
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        if node.op in STRUCTURE:
            continue
        device, kernel = kernel_of(node, compiled)
        inputs = [] if compiled or device != "GPU" else made_by_the_device(node, kernel, by_name)
        yield {
            "op": node.op,
            "name": node.name,
            "types": types(node, kernel),
            "layout": node.attr["data_format"].s.decode() if "data_format" in node.attr else "",
            "compiled": compiled,
            "kernel": device,
            "from_device": inputs,
        }


def kernel_of(node, compiled: bool):
    """('GPU', 'XLA', 'CPU' or '', the kernel): where an operation can run with its types."""
    if compiled and node.op in BRANCHES:
        return "XLA", None
    registered = kernels.get_registered_kernels_for_op(node.op).kernel
    asked = {"XLA": (XLA_DEVICE,)} if compiled else {"GPU": ("GPU", "DEFAULT"), "CPU": ("CPU",)}
    for device, kinds in asked.items():
        for kernel in registered:
            if kernel.device_type in kinds and fits(node, kernel):
                return device, kernel
    return "", None


def fits(node, kernel) -> bool:
    """Whether an operation has the types, and the words, that a kernel is for."""
    for each in kernel.constraint:
        if each.name in node.attr:
            own, allowed = node.attr[each.name], each.allowed_values.list
            if own.type not in allowed.type and own.s not in allowed.s:
                return False
    return True


def types(node, kernel) -> dict:
    """The types by which the kernel is chosen; all that the operation has where there is none."""
    names = [each.name for each in kernel.constraint] if kernel else list(node.attr)
    return {
        name: tf.as_dtype(node.attr[name].type).name
        for name in sorted(names)
        if name in node.attr and node.attr[name].type
    }


def made_by_the_device(node, kernel, by_name: dict) -> list:
    """Inputs that a kernel takes in the host's memory, though an operation on the device makes
    them: the host waits for each. Numbers that are about shapes are the host's own."""
    host = set(kernel.host_memory_arg)
    found = []
    inputs = [each for each in node.input if each[0] != "^"]
    for argument, given in zip(arguments(node), inputs, strict=True):
        if argument in host and is_of_the_device(given, by_name):
            found.append(f"{argument}: {given}")
    return found


def arguments(node) -> list:
    """The argument that each input belongs to, as an operation may take lists."""
    found = []
    for each in op_def_registry.get(node.op).input_arg:
        count = 1
        if each.number_attr:
            count = node.attr[each.number_attr].i
        elif each.type_list_attr:
            count = len(node.attr[each.type_list_attr].list.type)
        found += [each.name] * count
    return found


def is_of_the_device(given: str, by_name: dict) -> bool:
    """Whether a tensor 'node:output:0' or 'node:0' is computed on the device, as far as the graph
    says it: through what only names a value, but not through a function's arguments."""
    node = by_name.get(given.split(":")[0])
    if node is None or node.op in ("Const", "Placeholder", "_Arg") or node.op in SHAPES:
        return False
    if node.op in STRUCTURE:
        own = [each for each in node.input if each[0] != "^"]
        return bool(own) and node.op.startswith("Identity") and is_of_the_device(own[0], by_name)
    device, kernel = kernel_of(node, compiled=False)
    if device != "GPU":
        return False
    # many kernels of int32 are the host's own, though they go by the GPU's name
    outputs = {each.name for each in op_def_registry.get(node.op).output_arg}
    return not outputs <= set(kernel.host_memory_arg)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
