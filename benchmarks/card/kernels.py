"""The longest kernels of a profiled step, and what attention ran on, from a trace.

In: a trace in Chrome's format, as torch.profiler and JAX's profiler write it. Out: for each kernel
its name, how often it ran and its time, the longest first; their sum; the time from the first to
the last; and the backend of attention, by names. Where no device worked, the trace of a CPU has
operators and XLA's instructions in their place, and the summary says so.
"""

import gzip
import json
import re

TOP = 20
#: What torch.profiler calls what a device does (Kineto's activity types).
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
#: Operators that PyTorch chose (`aten::_scaled_dot_product_…`); a replayed graph has none of them.
OPERATORS = (
    ("cuDNN", r"_scaled_dot_product_cudnn_attention"),
    ("flash, on a CPU", r"_scaled_dot_product_flash_attention_for_cpu"),
    ("flash", r"_scaled_dot_product_flash_attention"),
    ("memory-efficient (CUTLASS)", r"_scaled_dot_product_efficient_attention"),
    ("separate kernels", r"_scaled_dot_product_attention_math"),
)
#: Kernels by their names, of PyTorch, cuDNN and XLA. cuDNN's own have "flash" in them, too.
KERNELS = (
    ("cuDNN", r"cudnn.*(fmha|sdpa|flash|attention)|(fmha|sdpa).*cudnn"),
    ("memory-efficient (CUTLASS)", r"fmha_cutlass|AttentionKernel|AttentionBackwardKernel"),
    ("flash", r"flash"),
    ("Triton", r"triton.*(attention|sdpa)"),
)


def read(path):
    """The events of a trace, which may be compressed."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as stream:
        document = json.load(stream)
    events = document["traceEvents"] if isinstance(document, dict) else document
    return [each for each in events if isinstance(each, dict)]


def summary(events):
    """{"on", "kernels", "busy_us", "span_us", "launches", "attention", "top"} of a step."""
    worked, where = on_device(events), "device"
    if not worked:
        worked, where = on_host(events), "host"
    totals = {}
    for each in worked:
        count, spent = totals.get(each["name"], (0, 0.0))
        totals[each["name"]] = (count + 1, spent + float(each["dur"]))
    ordered = sorted(totals.items(), key=lambda item: -item[1][1])
    busy = sum(spent for _, spent in totals.values())
    names = [name for name, _ in ordered]
    starts = [float(each["ts"]) for each in worked]
    ends = [float(each["ts"]) + float(each["dur"]) for each in worked]
    return {
        "on": where,
        "kernels": len(worked),
        "different": len(totals),
        "busy_us": round(busy, 1),
        "span_us": round(max(ends) - min(starts), 1) if worked else 0.0,
        "graph_launches": sum("cudaGraphLaunch" in each.get("name", "") for each in events),
        "attention": attention(events, names),
        "top": [
            {"name": name, "count": count, "us": round(spent, 1), "share": round(spent / busy, 4)}
            for name, (count, spent) in ordered[:TOP]
        ]
        if busy
        else [],
    }


def _complete(event):
    return event.get("ph") == "X" and "dur" in event and "ts" in event and event.get("name")


def on_device(events):
    """What a card did: by the category of torch.profiler, or on the streams of JAX's devices."""
    torch = [each for each in events if _complete(each) and each.get("cat") in ON_DEVICE]
    if torch:
        return torch
    devices = {
        each.get("pid")
        for each in events
        if each.get("ph") == "M"
        and each.get("name") == "process_name"
        and "/device:" in str(each.get("args", {}).get("name", ""))
        and ":CPU" not in str(each.get("args", {}).get("name", "")).upper()
    }
    streams = {
        (each.get("pid"), each.get("tid"))
        for each in events
        if each.get("ph") == "M"
        and each.get("name") == "thread_name"
        and str(each.get("args", {}).get("name", "")).startswith("Stream")
    }
    # beside its streams, JAX's trace has the same time again by module and by instruction
    return [
        each
        for each in events
        if _complete(each)
        and each.get("pid") in devices
        and (each.get("pid"), each.get("tid")) in streams
    ]


def on_host(events):
    """Of a CPU: torch's operators (each contains those it calls), or XLA's instructions."""
    operators = [each for each in events if _complete(each) and each.get("cat") == "cpu_op"]
    if operators:
        return operators
    return [each for each in events if _complete(each) and "hlo_op" in (each.get("args") or {})]


def attention(events, names):
    """Attention's backend by operators, else by kernels; "" where neither names one.

    Without a name it is separate kernels (XLA's fusions have no name that tells), or none at all.
    """
    chosen = {each["name"] for each in events if each.get("cat") == "cpu_op"}
    for backends, known in ((OPERATORS, chosen), (KERNELS, names)):
        for backend, pattern in backends:
            if any(re.search(pattern, name, re.IGNORECASE) for name in known):
                return backend
    return ""
