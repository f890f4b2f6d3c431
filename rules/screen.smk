"""
Required inputs: PyTorch's environment, which does the work.

Outputs: results/nodes/<node>.json, one a node of `cluster: nodes`, without a cluster this machine's:
its state, and how fast it multiplies, copies and exchanges. `screen` prints them side by side.
"""

NODES = CONFIG.cluster.nodes or [os.uname().nodename]
DEVICES_PER_NODE = max(case.devices_per_node for case in CASES)


rule probe:
    input:
        environment=environment_of("pytorch"),
    output:
        "results/nodes/{node}.json",
    log:
        "results/nodes/{node}.log",
    wildcard_constraints:
        node="[A-Za-z0-9._-]+",
    threads: lambda wildcards: all_cores(DEVICES_PER_NODE * CONFIG.cores_per_device)
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
    shell:
        "{PYTHON:q} -m dlperf.measure.probe --device {CONFIG.device} --devices {DEVICES_PER_NODE}"
        " --cores-per-device {CONFIG.cores_per_device} --environment {input.environment:q}"
        " --out {output:q} > {log:q} 2>&1"


rule screen:
    input:
        expand("results/nodes/{node}.json", node=NODES),
    localrule: True
    shell:
        "{PYTHON:q} -m dlperf.analysis nodes --folder results/nodes"
