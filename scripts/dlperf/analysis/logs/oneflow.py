"""OneFlow: OneFlow-Benchmark's CNNs, BERT and GPT, and LiBai."""

import re

from dlperf.analysis.logs.forms import Form, Source, Stated, regex, stated_precision

_NAME = "OneFlow-Benchmark"

SOURCE = Source(
    title="OneFlow: OneFlow-Benchmark (CNNs, BERT, GPT), LiBai",
    upstream="""
        Oneflow-Inc/OneFlow-Benchmark Classification/cnns/util.py, Metric: "{}: epoch {}, iter {},
        loss: {:.6f}, top_1: {:.6f}, top_k: {:.6f}, samples/s: {:.3f}" and time.time(), step + 1;
        LanguageModeling/BERT/util.py: 'step: {}, total_loss: {:.3f}, …, throughput: {:.3f}' (and
        the time), from 0; LanguageModeling/GPT/oneflow_gpt/util.py: step_print,
        step_print_by_table, from 1; Oneflow-Inc/libai libai/utils/events.py, CommonMetricPrinter:
        "iteration: {}/{}  consumed samples: {}  …time: {:.4f}({:.2f})", from 0, the mean since
        training began""",
    forms=(
        Form(
            "oneflow",
            _NAME,
            regex(
                r"\btrain: epoch (?P<epoch>\d+), iter (?P<step>\d+), (?:loss: (?P<loss><N>), )?"
                r"top_1: <N>, top_k: <N>, samples/s: (?P<rate><N>)(?: (?P<unix>\d{10}\.\d+)\b)?"
            ),
        ),
        Form(
            "oneflow",
            _NAME,
            regex(
                r"\bstep: (?P<step>\d+), (?:total_loss: (?P<loss><N>), )?(?:\w+: <N>, )*"
                r"throughput: (?P<rate><N>)(?: (?P<unix>\d{10}\.\d+)\b)?"
            ),
            first_step=0,
        ),
        Form(
            "oneflow",
            _NAME,
            regex(
                r"\| (?P<step>\d+) +\| \d+ +\| (?P<samples>\d+) +\| (?P<rate><N>) +"
                r"\| (?P<step_seconds><N>) +\| (?P<loss><N>) +\|"
            ),
        ),
        Form(
            "oneflow",
            _NAME,
            regex(
                r"\bstep=(?P<step>\d+),micro_batches=\d+,samples=(?P<samples>\d+),"
                r"throughput=(?P<rate><N>),latency=(?P<step_seconds><N>),(?:loss=(?P<loss><N>),)?"
            ),
        ),
        Form(
            "oneflow",
            "LiBai",
            regex(
                r"(?:eta: [^|]*?  )?iteration: (?P<step>\d+)/\d+  consumed samples: "
                r"(?P<samples>\d+)  (?:\w*loss: (?P<loss><N>)  )?(?:\w+: <N>  )*"
                r"(?: *time: <N>\((?P<running_rate><N>)\))?(?= )"
            ),
            first_step=0,
        ),
    ),
    stated=(
        Stated("batch_size", re.compile(r"^batch_size_per_device = (\d+)")),
        Stated("devices_per_node", re.compile(r"^(?:gpu_num_per_node|num_gpus_per_node) = (\d+)")),
        Stated("devices_per_node", re.compile(r"^ *num_gpus_per_node \.+ (\d+)")),
        Stated("nodes", re.compile(r"^(?: *num_nodes \.+|num_nodes =) (\d+)")),
        Stated("global_batch_size", re.compile(r"^ *global_batch_size \.+ (\d+)")),
        Stated("precision", re.compile(r"^ *fp16 \.+ True"), "fp16"),
        *stated_precision("use_fp16", "fp16"),
    ),
    pauses=re.compile(r"\bvalidation: epoch|Saving model to|Saving checkpoint|Start [Ee]val"),
)
