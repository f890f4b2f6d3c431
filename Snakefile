"""From a round's config to its report.

plan -> environments, data -> certify -> measure -> merge -> figures -> report
"""

from snakemake.utils import min_version

min_version("9.27")

# A round given with --configfile is whole in itself: nothing of the default one shows through.
if not workflow.configfiles:

    configfile: "config/config.yaml"


report: "report/workflow.rst"


# In the order in which data flows.
include: "rules/common.smk"
include: "rules/plan.smk"
include: "rules/environments.smk"
include: "rules/data.smk"
include: "rules/certify.smk"
include: "rules/measure.smk"
include: "rules/merge.smk"
include: "rules/figures.smk"
include: "rules/report.smk"


rule all:
    default_target: True
    input:
        final_output,
    localrule: True
