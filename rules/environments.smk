"""
Required inputs: the framework's YAML and its lock in envs/.

Outputs: env.json, which says where the interpreter is, what is installed with it, and why the build
failed, if it did. Then the round continues without that framework. The environment is in the same
folder. Rounds share it, and it is used as long as its lock is the same.

Builds run in parallel (one thread each), on the machine on which Snakemake runs. The lock of an
environment is an input, so a changed lock causes a new build.
"""

from snakemake.settings.types import DeploymentMethod

from dlperf import environments as building
from dlperf.environments import conda
from dlperf.environments import files as environment_files

ENVS = str(project.own("envs"))
WITH_CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
WITH_CONTAINERS = DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method

# An audit needs no environment, so it reads a round of conda's on a machine without conda too.
NEEDS_NO_ENVIRONMENT = {"audit", "archive"}
if (
    CONFIG.environments.backend == "conda"
    and not WITH_CONDA
    and set(FRAMEWORKS) - set(CONFIG.environments.interpreters)
    and not NEEDS_NO_ENVIRONMENT & set(sys.argv[1:])
):
    raise WorkflowError(
        f"{SOURCE}: environments.backend: conda: Snakemake makes environments with conda only if the "
        "command line says so too: `snakemake --profile conda …`, or `--sdm conda` beside another "
        "profile, after the targets; or set the backend to venv"
    )


def backend_of(wildcards):
    """An interpreter that the config names has priority, then the command line. With `--sdm apptainer`
    an environment that names an image is that container."""
    if wildcards.framework in CONFIG.environments.interpreters:
        return "interpreter"
    definition = Path(definition_of(wildcards)[0])
    if WITH_CONTAINERS and "container" in environment_files.read_yaml(definition):
        return "container"
    return "conda" if WITH_CONDA else CONFIG.environments.backend


def definition_of(wildcards):
    """The environment's files. HugeCTR, which is a container, has no lock."""
    name = f"{ENVS}/{wildcards.framework}.{wildcards.device}"
    lock = f"{name}.lock.txt"
    return [
        f"{name}.yaml",
        f"{ENVS}/build.yaml",
        *([lock] if os.path.exists(lock) else []),
    ]


def conda_of(wildcards):
    """What Snakemake's conda makes: the YAML without the packages of the lock, which the build
    installs. None if conda has nothing to make."""
    names_packages = any(path.endswith(".lock.txt") for path in definition_of(wildcards))
    if WITH_CONDA and backend_of(wildcards) == "conda" and names_packages:
        cache = Path("results/environments/.cache").absolute()
        return str(conda.definition(Path(definition_of(wildcards)[0]), cache))
    return None


def build_options(wildcards):
    """What the config says about this environment, as arguments of the build."""
    options = ["--backend", backend_of(wildcards)]
    if interpreter := CONFIG.environments.interpreters.get(wildcards.framework):
        options += ["--interpreter", interpreter]
    for folder in CONFIG.environments.find_links:
        options += ["--find-links", folder]
    if has_distributed_part(wildcards.framework, wildcards.device) and (
        building.read(environment_of(wildcards.framework)).get("extras")
        or any(
            case.framework == wildcards.framework and case.nodes * case.devices_per_node > 1
            for case in CASES
        )
    ):
        options.append("--distributed")
    return options


@cache
def has_distributed_part(framework, device):
    """Whether several devices need an extra part. If it exists it is kept, even for a round with one
    device, because another environment would make the certificates of all rounds stale."""
    sections = environment_files.read_yaml(Path(f"{ENVS}/build.yaml"))
    names = (framework, f"{framework}.{device}")
    return any("distributed" in (sections.get(name) or {}) for name in names)


def environment_priority(wildcards):
    """PyTorch comes first, because references wait for it; so do parts that are compiled."""
    compiled = has_distributed_part(wildcards.framework, wildcards.device)
    return FIRST if wildcards.framework == "pytorch" or compiled else ENVIRONMENT


rule environment:
    input:
        definition_of,
        again=lambda wildcards: again_if(building.failed(environment_of(wildcards.framework))),
    output:
        "results/environments/{framework}.{device}/env.json",
    log:
        "results/environments/{framework}.{device}.log",
    priority: environment_priority
    localrule: True
    conda:
        conda_of
    threads: 1
    params:
        options=build_options,
        yaml=lambda wildcards: definition_of(wildcards)[0],
        prefix=subpath(output[0], parent=True),
    shell:
        # the reason of a failure goes to the terminal too
        PYTHON + " -m dlperf.environments build --framework {wildcards.framework:q}"
        " --device {wildcards.device:q} --yaml {params.yaml:q} --prefix {params.prefix:q}"
        " --out {output:q} {params.options:q} > {log:q}"
