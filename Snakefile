"""Makes a round's report from its config.

plan -> environments, data -> certify -> search, measure, check -> merge -> figures -> report
"""

import os
import sys

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.27")

# Another folder than the working one, where this is a module or was called with --snakefile.
PROJECT = workflow.current_basedir.get_path_or_uri(secret_free=True)
SCRIPTS = os.path.join(PROJECT, "scripts")
if not os.path.isdir(SCRIPTS):
    raise WorkflowError(
        f"{PROJECT}: dlperf is more than its Snakefile: clone it, and name the Snakefile of the clone"
    )
sys.path.insert(0, SCRIPTS)

from dlperf import inside_snakemake
from dlperf.contract import project

IS_MODULE = inside_snakemake.is_module(workflow)

# A round given with --configfile, or to a module, is complete: it takes nothing from the default
# config.
if not config if IS_MODULE else not workflow.configfiles:

    configfile: str(project.find("config/config.yaml"))


report: "report/workflow.rst"


# Counted within each job of a cluster, where repetitions that share the job take turns.
resource_scopes:
    exclusive="local",


# In the order in which data flows:
include: "rules/common.smk"
include: "rules/plan.smk"
include: "rules/environments.smk"
include: "rules/data.smk"
include: "rules/certify.smk"
include: "rules/screen.smk"
include: "rules/measure.smk"
include: "rules/checks.smk"
include: "rules/search.smk"
include: "rules/merge.smk"
include: "rules/limits.smk"
include: "rules/figures.smk"
include: "rules/replay.smk"
include: "rules/beside.smk"
include: "rules/report.smk"
include: "rules/audit.smk"
include: "rules/compare.smk"


rule all:
    default_target: True
    input:
        final_output,
    localrule: True
