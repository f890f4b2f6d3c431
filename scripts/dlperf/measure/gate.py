"""Whether a framework's build can run on the GPUs of a node, before any rank starts there.

In: what env.json says of the build (`capabilities`, `driver`, from envs/build.yaml) and the facts
of the cards. Out: a reason for the status `unsupported`, or "". Without it, a build that has no
kernels for a card ends in a crash after minutes.
"""

import re


def refusal(environment, gpus, name):
    """Why the build cannot run on one of these cards (host.gpu_facts) of node `name`, or "".

    Builds of which nothing is known, as of containers, are not judged, nor are cards that say
    nothing of themselves.
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
