"""Whether a framework's build can run on the GPUs of a node, before any rank starts there.

In: what env.json says of the build (`capabilities`, `driver`, from envs/build.yaml) and the facts
of the cards. Out: a reason for the status `unsupported`, or "". Without it, a build that has no
kernels for a card ends in a crash after minutes.
"""

import re


def refusal(environment, gpus, name):
    """Why the build cannot run on one of these cards (host.gpu_facts) of node `name`, or "".

    A container, a user's own interpreter and a card that says nothing of itself are not judged.
    """
    has, driver = environment.get("capabilities") or {}, environment.get("driver")
    if not has and not driver:
        return ""
    build = "%(framework)s %(version)s" % environment
    for card in gpus:
        capability, installed = card.get("compute_capability"), card.get("driver")
        if has and capability and not runs(capability, **has):
            what = "%s (compute capability %s)" % (card.get("name") or "GPU", capability)
            own = ", ".join(has["sass"]) + " and " + (has["ptx"] or "no") + " PTX"
            reason = "%s has no kernels for the %s on %s, only for %s" % (build, what, name, own)
            return reason + "; docs/environments.md says which build has them"
        if driver and installed and version(installed)[:1] < version(driver):
            needs = "%s needs NVIDIA's driver %s or newer" % (build, driver)
            return "%s, but %s has %s" % (needs, name, installed)
    return ""


def runs(capability, sass, ptx):
    """Whether kernels run on a card: SASS of the same major and no later minor version, or PTX of
    no later version, which the driver compiles (CUDA C++ Programming Guide, "Compute
    Capabilities")."""
    card = version(capability)
    compiled = any(card[0] == each[0] and card >= each for each in map(version, sass))
    return compiled or bool(ptx) and card >= version(ptx)


def version(text):
    """'580.65.06' -> (580, 65, 6)"""
    return tuple(int(each) for each in re.findall(r"\d+", text))
