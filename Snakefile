"""Makes a round's report from its config.

plan -> environments, data -> certify -> search, measure -> merge -> figures -> report
"""

import gc

from snakemake.utils import min_version

min_version("9.27")

# What Snakemake builds before the first job starts is kept, and looking for garbage in it
# repeatedly takes a quarter of the time of a large round's dry run. (Switched on again in onstart.)
gc.disable()

# A round given with --configfile is complete: it takes nothing from the default config.
if not workflow.configfiles:

    configfile: "config/config.yaml"


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
include: "rules/search.smk"
include: "rules/merge.smk"
include: "rules/limits.smk"
include: "rules/figures.smk"
include: "rules/replay.smk"
include: "rules/report.smk"
include: "rules/audit.smk"
include: "rules/compare.smk"


rule all:
    default_target: True
    input:
        final_output,
    localrule: True
