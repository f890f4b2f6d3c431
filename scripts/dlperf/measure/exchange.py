"""How NCCL exchanged: its version and its transports, from what it says of itself as it starts.

In: the files that ranks' NCCL wrote because of `variables`; nothing is written in a window. Out:
for the record's host, {"library", "version", "transports": {name: how many channels}, "networks"}.
"""

import glob
import os
import re

#: INIT has the version, the network and each channel's transport, and says nothing of a step.
SUBSYSTEMS = "INIT"
#: A file of NCCL is read to here: thousands of channels.
MOST_BYTES = 1 << 24
VERSION = re.compile(r"NCCL version (\d[\w.+-]*)")
# "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "… [send] via NET/IB/0/GDRDMA"
TRANSPORT = re.compile(r" Channel \d+\S* : .* via (\S+)")
NETWORK = re.compile(r"Using network (\S+)|NET/(IB|Socket) : Using")


def variables(folder, environ):
    """What ranks get so that NCCL writes into `folder`; {} where the user asked for its words."""
    if "NCCL_DEBUG" in environ:
        return {}
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": SUBSYSTEMS,
        "NCCL_DEBUG_FILE": os.path.join(folder, "nccl.%h.%p"),
    }


def read(folder):
    """What all ranks of a node said together; None where no NCCL wrote anything."""
    texts = []
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nccl.*"))):
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                texts.append(stream.read(MOST_BYTES))
        except OSError:
            continue
    return said("\n".join(texts)) if texts else None


def said(text):
    """What NCCL's words say."""
    versions = sorted(set(VERSION.findall(text)))
    transports = {}
    for path in TRANSPORT.findall(text):
        # 'NET/IB/3/GDRDMA' without the card's number
        each = "/".join(part for part in path.split("/") if not part[:1].isdigit())
        transports[each] = transports.get(each, 0) + 1
    networks = sorted({name or other for name, other in NETWORK.findall(text)})
    return {
        "library": "NCCL",
        "version": ", ".join(versions) or None,
        "transports": {name: transports[name] for name in sorted(transports)},
        "networks": networks,
    }
