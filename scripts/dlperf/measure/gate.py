"""Whether a framework's build can run on the hardware of a node, before any rank starts there.

In: what env.json says of the build (`capabilities`, `driver`, `bfloat16`, from envs/build.yaml) and
the facts of the node. Out: a reason for the status `unsupported`, or "". Without it, a build that
has no kernels for a card or a processor ends in a crash, perhaps after minutes.
"""

import re


def refusal(environment, case, facts, name):
    """Why the build cannot run a case on node `name` with these facts (of node.Node), or "".

    Builds of which nothing is known, as of containers, are not judged.
    """
    if case["settings"]["device"] == "cuda":
        return no_kernels(environment, facts["gpus"], name)
    return no_bfloat16(environment, case["identity"]["precision"], facts, name)


def no_bfloat16(environment, precision, facts, name):
    """Why the build computes no mixed precision on this processor (host.facts), or ""."""
    missing = [
        each for each in environment.get("bfloat16", []) if each not in facts["cpu_features"]
    ]
    if not missing or not precision.startswith("amp"):
        return ""
    build = "%(framework)s %(version)s" % environment
    has = (build, ", ".join(missing), facts["cpu"], name)
    return "%s computes in bfloat16 only on a processor with %s; %s of %s has none" % has


def no_kernels(environment, gpus, name):
    """Why the build cannot run on one of these cards (host.gpu_facts), or "".

    Cards that say nothing of themselves are not judged.
    """
    has, driver = environment.get("capabilities"), environment.get("driver")
    if not has or not driver:
        return ""
    build = "%(framework)s %(version)s" % environment
    for card in gpus:
        capability, installed = card.get("compute_capability"), card.get("driver")
        needed, what = driver, ""
        if capability and not runs_sass(capability, has["sass"]):
            what = "the %s (compute capability %s)" % (card.get("name") or "GPU", capability)
            if not runs_ptx(capability, has["ptx"]):
                own = ", ".join(has["sass"]) + " and " + (has["ptx"] or "no") + " PTX"
                reason = "%s has no kernels for %s on %s, only for %s" % (build, what, name, own)
                return reason + "; docs/environments.md says which build has them"
            needed, what = max(driver, has["ptx_driver"], key=version), " to compile for " + what
        if installed and version(installed)[:1] < version(needed):
            needs = "%s needs NVIDIA's driver %s or newer%s" % (build, needed, what)
            return "%s, but %s has %s" % (needs, name, installed)
    return ""


# CUDA C++ Programming Guide, "Compute Capabilities" and "Just-in-Time Compilation"


def runs_sass(capability, sass):
    """Whether one of the versions is of the card's major version, and of no later minor one."""
    card = version(capability)
    return any(card[0] == each[0] and card >= each for each in map(version, sass))


def runs_ptx(capability, ptx):
    """Whether there is PTX of no later version, which the driver compiles."""
    return bool(ptx) and version(capability) >= version(ptx)


def version(text):
    """'580.65.06' -> (580, 65, 6)"""
    return tuple(int(each) for each in re.findall(r"\d+", text))
