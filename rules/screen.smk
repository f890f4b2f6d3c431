"""
Required inputs: the environment of PyTorch, which does the work.

Outputs: results/<round>/nodes/<node>.json, the calibration of a node: its state, and how fast it
multiplies, moves memory and exchanges. `screen` makes those of `cluster: nodes`, or without a
cluster that of this machine, and prints them side by side. `all` makes them before it measures (see
calibrations), so that MFU can be shown relative to what the machine can do.
"""

from glob import glob

NODES = CONFIG.cluster.nodes or [os.uname().nodename]
NODE = f"{RESULTS}/nodes/{{node}}.json"
DEVICES_PER_NODE = max(case.devices_per_node for case in CASES)


def calibrations(wildcards):
    """The existing calibrations; while repetitions are missing, also those to be made before them: of
    this machine or, on a cluster, of the nodes that the config names.

    A complete round needs none, because the auditor's machine is not the one that measured. Neither
    does a round without PyTorch, whose environment it would need; `screen` makes one.
    """
    there = glob(f"{RESULTS}/nodes/*.json")
    on_the_way = "pytorch" in FRAMEWORKS and not all(map(os.path.exists, records()))
    known = workflow.local_exec or CONFIG.cluster.nodes
    wanted = expand(NODE, node=NODES) if on_the_way and known else []
    return sorted({*there, *wanted})


def screened(wildcards):
    """The nodes to probe; on a cluster the config must name them."""
    if not (workflow.local_exec or CONFIG.cluster.nodes):
        raise WorkflowError(
            f"{SOURCE}: cluster.nodes: names no node to screen; give a list "
            "such as [node1, node2] (`sinfo -N -h -o %N` lists the names)"
        )
    return expand(NODE, node=NODES)


def environment_of_probe(wildcards):
    """It is ancient, or left out, if there is a calibration, as for a repetition with a record."""
    environment = environment_of("pytorch")
    if os.path.exists(NODE.format(node=wildcards.node)):
        return ancient(environment) if os.path.exists(environment) else []
    return environment


rule probe:
    input:
        environment=environment_of_probe,
    output:
        NODE,
    log:
        f"{NODE.removesuffix('.json')}.log",
    wildcard_constraints:
        node="[A-Za-z0-9._-]+",
    priority: SCREEN
    threads: lambda wildcards: cores_of_node(DEVICES_PER_NODE)
    resources:
        **(
            {
                "gres": f"{CONFIG.cluster.gres}:{DEVICES_PER_NODE}",
                "tasks_per_gpu": 0,
            }
            if CONFIG.device == "cuda"
            else {}
        ),
        exclusive=1,
        runtime=5,
        slurm_extra=lambda wildcards: f"--exclusive --nodelist={wildcards.node}",
    params:
        device=CONFIG.device,
        devices=DEVICES_PER_NODE,
        cores=CONFIG.cores_per_device,
    # with exec the probe is a direct child of Snakemake and ends when that is killed
    shell:
        "exec "
        + PYTHON
        + " -m dlperf.measure.probe --device {params.device} --devices {params.devices}"
        " --cores-per-device {params.cores} --environment {input.environment:q}"
        " --out {output:q} > {log:q} 2>&1"


rule screen:
    input:
        screened,
    localrule: True
    params:
        **steps.SHOW_NODES.params(RESULTS, CASES),
    shell:
        PYTHON + steps.SHOW_NODES.command(CASES)
