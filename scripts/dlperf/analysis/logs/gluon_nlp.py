"""gluon-nlp's BERT pre-training: every rank prints the tokens that it trained itself.

No times unless the logger adds them; the duration of the interval stands in the line.
"""

import re

from dlperf.analysis.logs.forms import Form, Source, Stated, regex

SOURCE = Source(
    title="gluon-nlp scripts/bert/run_pretraining.py",
    upstream=r"""
        dmlc/gluon-nlp scripts/bert/pretraining_utils.py, log():
        '[step {}]\tmlm_loss={:.5f}\tmlm_acc={:.5f}\tnsp_loss={:.5f}\tnsp_acc={:.3f}\t
        throughput={:.1f}K tks/s\tlr={:.7f} time={:.2f}, latency={:.1f} ms/batch';
        run_pretraining.py: step_num from 1, printed where (step_num + 1) % log_interval == 0""",
    forms=(
        Form(
            "mxnet",
            "gluon-nlp",
            regex(
                r"\[step (?P<step>\d+)\]\s+mlm_loss=(?P<loss><N>)\s+mlm_acc=<N>\s+nsp_loss=<N>\s+"
                r"nsp_acc=<N>\s+throughput=(?P<kilotoken_rate><N>)K tks/s\s+lr=<N>\s+time=<N>, "
                r"latency=(?P<step_milliseconds><N>) ms/batch"
            ),
            printed_by="rank",
        ),
        Form(  # before the latency was printed
            "mxnet",
            "gluon-nlp",
            regex(
                r"\[step (?P<step>\d+)\]\s+mlm_loss=(?P<loss><N>)\s+mlm_acc=<N>\s+nsp_loss=<N>\s+"
                r"nsp_acc=<N>\s+throughput=(?P<kilotoken_rate><N>)K tks/s\s+lr=<N>\s+"
                r"time=(?P<seconds><N>)(?!,)\b"
            ),
            printed_by="rank",
        ),
    ),
    stated=(
        Stated("batch_size", re.compile(r"Namespace\((?!.*\bby_token=True).*\bbatch_size=(\d+)")),
        Stated("global_batch_size", re.compile(r"Namespace\(.*\btotal_batch_size=(\d+)")),
        Stated("accumulation", re.compile(r"Namespace\(.*\baccumulate=(\d+)")),
        Stated(
            "devices_per_node",
            re.compile(
                r"Namespace\((?!.*\bcomm_backend='(?:hvd|horovod|byteps)').*\bgpus='([\d,]+)'"
            ),
            listed=True,
        ),
        Stated("precision", re.compile(r"Namespace\(.*\bdtype='float16'"), "fp16"),
        Stated("precision", re.compile(r"Namespace\(.*\bdtype='float32'"), "fp32"),
    ),
    pauses=re.compile(r"Saving checkpoints to|Eval cost="),
)
