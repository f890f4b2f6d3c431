"""
Required inputs: a framework's environment, PyTorch's for the reference, and the sample data.

Outputs: results/certificates/<workload>/reference[-<variant>]/, neutral weights and what plain
float64 formulas make of them; one certificate of equal work for each workload, framework, device,
precision, compiler, variant and layout of devices. Shared by rounds; made again when the
implementation, the reference or the environment changes. `certificates` makes those of the round and prints them.
"""

from dlperf.contract.parallel import Layout

VARIANT = "(-clip0)?"  # what a certificate is of, beside the workload's standard form
PACKAGE = os.path.relpath(f"{SCRIPTS}/dlperf")


def certificates_of(wildcards=None):
    return sorted(
        {f"results/{case.certificate(CONFIG.device)}" for case in CASES if not case.unsupported}
    )


def proving_data(wildcards):
    return f"results/data/{workloads.data(wildcards.workload)['sample'].folder}/manifest.json"


def memory_of(wildcards):
    """Weights, gradients, moments and what they are compared with: a dozen float64 arrays a rank."""
    ranks = Layout.parse(wildcards.get("layout", "1")).devices
    return ranks * (2000 + 12 * 8 * millions_of_parameters(wildcards))


def millions_of_parameters(wildcards):
    sizes = workloads.certified(wildcards.workload)
    return workloads.parameter_count(wildcards.workload, sizes) // 10**6


rule reference:
    input:
        environment=environment_of("pytorch"),
        data=proving_data,
        code=[
            f"{PACKAGE}/certify/reference.py",
            f"{PACKAGE}/workloads/{{workload}}/facts.py",
            f"{PACKAGE}/workloads/{{workload}}/proof.py",
            f"{PACKAGE}/workloads/{{workload}}/reference.py",
        ],
    output:
        "results/certificates/{workload}/reference{variant}/manifest.json",
    log:
        "results/certificates/{workload}/reference{variant}.log",
    wildcard_constraints:
        variant=VARIANT,
    priority: lambda wildcards: REFERENCE + millions_of_parameters(wildcards)
    threads: lambda wildcards: max(1, all_cores(2) // 2)  # beside what is downloaded and built
    resources:
        mem_mb=memory_of,
    params:
        folder=subpath(output[0], parent=True),
        variant=lambda wildcards: wildcards.variant.removeprefix("-"),
        data=subpath(input.data, parent=True),
    shell:
        "{PYTHON:q} -m dlperf.certify.reference --workload {wildcards.workload:q}"
        " --variant={params.variant:q} --environment {input.environment:q} --data-dir {params.data:q} --out {params.folder:q}"
        " > {log:q} 2>&1"


rule certificate:
    input:
        # not ancient: another lock makes a certificate stale
        environment=lambda wildcards: environment_of(wildcards.framework),
        reference="results/certificates/{workload}/reference{variant}/manifest.json",
        data=proving_data,
        code=[
            f"{PACKAGE}/certify/judge.py",
            f"{PACKAGE}/certify/rank.py",
            f"{PACKAGE}/frameworks/{{framework}}.py",
            f"{PACKAGE}/workloads/{{workload}}/{{framework}}.py",
        ],
    output:
        "results/certificates/{workload}/{framework}/{device}-{precision}{compiler}{variant}-{layout}.json",
    log:
        "results/certificates/{workload}/{framework}/{device}-{precision}{compiler}{variant}-{layout}.log",
    wildcard_constraints:
        precision="fp32|amp",
        compiler="(-(?!clip0)[a-z0-9_]+)?",
        variant=VARIANT,
        layout="1|(dp2)?(acc2)?",
    priority: CERTIFICATE
    # Two: its runs, or its ranks, stand side by side, as nothing is timed. A repetition takes all
    # cores, so never beside one.
    threads: 2
    resources:
        runtime=15,
        mem_mb=memory_of,
    params:
        compiler=lambda wildcards: wildcards.compiler.removeprefix("-") or "none",
        reference=subpath(input.reference, parent=True),
        data=subpath(input.data, parent=True),
    shell:
        "exec {PYTHON:q} -m dlperf.certify --workload {wildcards.workload:q}"
        " --framework {wildcards.framework:q} --device {wildcards.device:q}"
        " --precision {wildcards.precision:q} --compiler {params.compiler:q}"
        " --layout {wildcards.layout:q} --cores {threads} --environment {input.environment:q}"
        " --reference {params.reference:q} --data-dir {params.data:q}"
        " --out {output:q} > {log:q} 2>&1"


rule certificates:
    input:
        certificates_of,
        config=f"{RESULTS}/config.yaml",
    localrule: True
    shell:
        "{PYTHON:q} -m dlperf.analysis certificates --config {input.config:q} --shared results"
