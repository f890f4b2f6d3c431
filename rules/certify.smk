"""
Required inputs: a framework's environment, PyTorch's for the reference, and the sample data.

Outputs: results/certificates/<workload>/reference[-<variant>]/ with neutral weights and what plain
float64 formulas compute from them; and a certificate of equal work for each workload, framework,
device, precision, compiler, variant and layout of devices. Rounds share them. They are made again
when the implementation, the reference or the environment changes. If one comes with exactly this
code (certificates/), it is used. `certificates` makes those of the round and prints them.

A certificate over two nodes needs a job of a cluster, as a repetition does. On GPUs a certificate's
job asks for as many as it has ranks, and locally one runs at a time: none shares a card.
"""

from dlperf.certify import released, required
from dlperf.contract import strict_json
from dlperf.contract.case import NO_JOB, PRECISIONS
from dlperf.contract.layout import Proved
from dlperf.measure import code

PRECISION = "|".join(PRECISIONS)
# certificates exist for these, for several of them together, and for training in standard form
CHOICES = {word for variant in workloads.variants() for word in variant.split("-")}
VARIANTS = "|".join(sorted({"infer", "quality", *CHOICES}))
COMPILER = f"(-(?!{VARIANTS})[a-z0-9_]+)?"
VARIANT = f"(-({VARIANTS}))*"
LAYOUT = "(1|(dp2)?(tp2)?(pp2)?(zero[1-3])?(ckpt1)?(acc2)?)(-2n)?"
PACKAGE = str(project.own("scripts/dlperf"))
OF_CERTIFICATE = (
    "certificates/{workload}/{framework}/{device}-{precision}{compiler}{variant}-{layout}.json"
)

REFERENCE_MANIFEST = "results/certificates/{workload}/reference{variant}/manifest.json"
LONG_RUN = "results/certificates/{workload}/reference{variant}/long.json"


def certificates_of(wildcards=None):
    return sorted(
        {f"results/{case.certificate(CONFIG.device)}" for case in CASES if not case.unsupported}
    )


def proving_data(wildcards):
    return f"results/data/{workloads.data(wildcards.workload)['sample'].folder}/manifest.json"


def code_of(wildcards):
    """The files of which a change makes a certificate or a reference again. None of them where what
    changed since is not in its hash: a comment, say, or only the time of a file."""
    if framework := wildcards.get("framework"):
        own = code.of_implementation(wildcards.workload, framework)
        made, document = f"results/{OF_CERTIFICATE}", certificate_made(wildcards)
    else:
        own = code.of_reference(wildcards.workload)
        made, document = REFERENCE_MANIFEST, existing(REFERENCE_MANIFEST.format(**wildcards))
    return unless_made_with(own, made.format(**wildcards), document)


def code_of_long_run(wildcards):
    """The same of the reference's long run."""
    path = LONG_RUN.format(**wildcards)
    return unless_made_with(code.of_reference(wildcards.workload), path, existing(path))


def unless_made_with(own, path, document):
    """The paths of these files of the package; none where `document`, which is at `path`, was made
    with the same tokens though a file is newer."""
    paths = [f"{PACKAGE}/{each}" for each in own]
    if document:
        time_made = os.path.getmtime(path)
        if any(os.path.getmtime(each) > time_made for each in paths):
            recorded = document.get("provenance", {}).get("code_sha256")
            return [] if recorded == code.sha256(own) else paths
    return paths


def released_certificate(wildcards):
    """The certificate that comes with the code. If there is none that may be taken, the path of a
    missing file, so that the rule below makes it."""
    path = OF_CERTIFICATE.format(**wildcards)
    try:
        found = released.find(path, backend_of(wildcards), REMAKE)
    except released.EditedCertificate as error:
        raise WorkflowError(str(error)) from None
    return os.path.relpath(found) if found else f"{path} (no such certificate of this code)"


def certificate_made(wildcards):
    """The existing certificate; {} where there is none."""
    return existing(f"results/{OF_CERTIFICATE}".format(**wildcards))


def existing(path):
    """The document in a file; {} where there is none."""
    try:
        return strict_json.read(path)
    except (OSError, ValueError):  # the merge says what is wrong with it
        return {}


def was_released(wildcards):
    """Whether the existing certificate came with the code."""
    document = certificate_made(wildcards)
    return document.get("provenance", {}).get("released", False)


def needed_a_cluster(wildcards):
    """Whether the existing certificate says that there was no cluster, and now there is one."""
    reasons = [tier.get("reason", "") for tier in certificate_made(wildcards).get("tiers", ())]
    missing = NO_JOB % layout_of(wildcards).nodes
    return not workflow.local_exec and any(each.endswith(missing) for each in reasons)


def made_again(wildcards):
    """Also refuses here what `released_certificate` refuses: Snakemake goes on with this rule."""
    released_certificate(wildcards)
    return again_if((REMAKE and was_released(wildcards)) or needed_a_cluster(wildcards))


def layout_of(wildcards):
    return Proved.parse(wildcards.get("layout", "1"))


def long_run_of(wildcards):
    """The reference's long run, where the certificate has one. No path where it has none."""
    subject = required.Subject(
        wildcards.workload,
        wildcards.framework,
        wildcards.device,
        wildcards.precision,
        wildcards.compiler.removeprefix("-") or "none",
        wildcards.variant.removeprefix("-"),
        wildcards.layout,
    )
    return LONG_RUN if "long" in required.runs(subject) else []


def geometry_of_certificates():
    """What a cluster's job needs besides `threads` (rules/measure.smk says why)."""
    found = {}
    if any(case.nodes > 1 for case in CASES):

        def several(value):
            return lambda wildcards: value if layout_of(wildcards).nodes > 1 else None

        found["nodes"] = lambda wildcards: layout_of(wildcards).nodes
        found["tasks"], found["mpi"] = several(2), several("srun")
    if CONFIG.device == "cuda":
        found["gres"] = lambda wildcards: "%s:%d" % (
            CONFIG.cluster.gres,
            layout_of(wildcards).devices // layout_of(wildcards).nodes,
        )
        found["tasks_per_gpu"] = 0
        found["exclusive"] = 1
    return found


def memory_of(wildcards):
    """Weights, gradients, moments and their references: a dozen float64 arrays on each rank."""
    layout = layout_of(wildcards)
    return layout.devices // layout.nodes * (2000 + 12 * 8 * millions_of_parameters(wildcards))


def millions_of_parameters(wildcards):
    sizes = workloads.certified(wildcards.workload)
    return workloads.parameter_count(wildcards.workload, sizes) // 10**6


rule reference:
    input:
        environment=environment_of("pytorch"),
        data=proving_data,
        code=code_of,
    output:
        REFERENCE_MANIFEST,
    log:
        "results/certificates/{workload}/reference{variant}.log",
    wildcard_constraints:
        variant=VARIANT,
    priority: lambda wildcards: REFERENCE + millions_of_parameters(wildcards)
    threads: lambda wildcards: max(1, all_cores(2) // 2)  # while other jobs download and build
    resources:
        mem_mb=memory_of,
    params:
        folder=subpath(output[0], parent=True),
        variant=lambda wildcards: wildcards.variant.removeprefix("-"),
        data=subpath(input.data, parent=True),
    shell:
        PYTHON + " -m dlperf.certify.reference --workload {wildcards.workload:q}"
        " --variant={params.variant:q} --environment {input.environment:q} --data-dir {params.data:q} --out {params.folder:q}"
        " > {log:q} 2>&1"


rule long_run:
    input:
        environment=environment_of("pytorch"),
        data=proving_data,
        code=code_of_long_run,
    output:
        LONG_RUN,
    log:
        "results/certificates/{workload}/reference{variant}.long.log",
    wildcard_constraints:
        variant=VARIANT,
    priority: lambda wildcards: REFERENCE + millions_of_parameters(wildcards)
    threads: lambda wildcards: max(1, all_cores(2) // 2)  # as a reference
    resources:
        mem_mb=memory_of,
    params:
        variant=lambda wildcards: wildcards.variant.removeprefix("-"),
        data=subpath(input.data, parent=True),
    shell:
        PYTHON + " -m dlperf.certify.long_run --workload {wildcards.workload:q}"
        " --variant={params.variant:q} --environment {input.environment:q} --data-dir {params.data:q} --out {output:q}"
        " > {log:q} 2>&1"


ruleorder: released_certificate > certificate


rule released_certificate:
    input:
        released=released_certificate,
        code=code_of,
    output:
        f"results/{OF_CERTIFICATE}",
    wildcard_constraints:
        precision=PRECISION,
        compiler=COMPILER,
        variant=VARIANT,
        layout=LAYOUT,
    localrule: True
    shell:
        "cp {input.released:q} {output:q}"


rule certificate:
    input:
        # not ancient, because another lock makes a certificate stale
        environment=lambda wildcards: environment_of(wildcards.framework),
        reference=REFERENCE_MANIFEST,
        long_run=long_run_of,
        data=proving_data,
        code=code_of,
        again=made_again,
    output:
        f"results/{OF_CERTIFICATE}",
    log:
        "results/certificates/{workload}/{framework}/{device}-{precision}{compiler}{variant}-{layout}.log",
    wildcard_constraints:
        precision=PRECISION,
        compiler=COMPILER,
        variant=VARIANT,
        layout=LAYOUT,
    priority: CERTIFICATE
    # Two, because its runs or ranks work in parallel, as nothing is timed. A repetition takes all
    # cores, so the two never run together.
    threads: 2
    resources:
        **geometry_of_certificates(),
        runtime=15,
        mem_mb=memory_of,
    params:
        compiler=lambda wildcards: wildcards.compiler.removeprefix("-") or "none",
        reference=subpath(input.reference, parent=True),
        data=subpath(input.data, parent=True),
    shell:
        "exec "
        + PYTHON
        + " -m dlperf.certify "
        + OVER_NODES.replace("{", "{{").replace("}", "}}")
        + " --workload {wildcards.workload:q}"
        " --framework {wildcards.framework:q} --device {wildcards.device:q}"
        " --precision {wildcards.precision:q} --compiler {params.compiler:q}"
        " --layout {wildcards.layout:q} --cores {threads} --environment {input.environment:q}"
        " --reference {params.reference:q} --data-dir {params.data:q}"
        " --out {output:q} > {log:q} 2>&1"


rule certificates:
    input:
        certificates_of,
        **steps.SHOW_CERTIFICATES.inputs(RESULTS, CASES),
    localrule: True
    params:
        **steps.SHOW_CERTIFICATES.params(RESULTS, CASES),
    shell:
        PYTHON + steps.SHOW_CERTIFICATES.command(CASES)
