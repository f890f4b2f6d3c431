"""
Required inputs: the sources of config/data.yaml, except for the samples, which come with packages
of the workflow itself; for MindRecord also MindSpore's environment.

Outputs: results/data/<sample>/, made without any download; results/data/downloads/<source>/,
fetched and verified; results/data/<set>-<format>/, images in a framework's own format;
results/data/<corpus>-documents/ and -seq<tokens>-<format>/, text for BERT;
results/data/<clicks>-npz/, rows with ids for Wide & Deep; results/data/squad/ and squad2/,
questions for ELECTRA, with the weights that it starts from; results/data/tokens/, token ids for GPT.
Each has a manifest with the sha256 of every file. Rounds share them. `data` makes what the round
trains on.
"""

# Sets that are made without any download: the folder, and the module that makes it. `sample-test`
# is cut from the same photographs as `sample`, elsewhere.
SAMPLES = {
    "sample": "sample",
    "sample-test": "sample --seed 2 --images-per-class 5",
    "prose": "prose",
    "prose-tokens": "prose_tokens",
    "digits": "digits",
    "wikipedia-sample": "wikipedia.sample",
    "criteo-sample": "criteo_sample",
    "faces-sample": "faces_sample",
    "squad-sample": "questions",
}


@cache
def data_config():
    """config/data.yaml, which is only read if something must be made from it."""
    from dlperf.prepare import sources

    try:
        return sources.load_all(project.find("config/data.yaml"))
    except plan.ConfigError as error:
        raise WorkflowError(str(error)) from None


def prepared(kind, name):
    """The entry of a set of images, or of a corpus, in config/data.yaml."""
    sets = getattr(data_config().prepared, kind)
    if name not in sets:
        raise WorkflowError(
            f"config/data.yaml: prepared.{kind} has no '{name}' "
            f"[there: {', '.join(sets) or 'none; the comments of that file show how to add one'}]"
        )
    return sets[name]


def manifest_of_source(source):
    return f"results/data/downloads/{source}/manifest.json"


def first_file(source):
    return f"results/data/downloads/{source}/{data_config().sources[source].files[0].name}"


def of_images(wildcards):
    """The manifest of the images that shards are made from."""
    source = prepared("images", wildcards.images).source
    return (
        manifest_of_source(source) if source else f"results/data/{wildcards.images}/manifest.json"
    )


def source_of_images(wildcards):
    source = prepared("images", wildcards.images).source
    return first_file(source) if source else f"results/data/{wildcards.images}"


def labels_of_images(wildcards):
    """The arguments of a set whose archive does not say the images' classes."""
    made = prepared("images", wildcards.images)
    if made.labels is None:
        return []
    return ["--labels", f"results/data/downloads/{made.source}/{made.labels}", "--keep-order"]


def of_text(wildcards):
    """The manifests of a dump and its vocabulary."""
    made = prepared("text", wildcards.text)
    if made.source is None:
        return [f"results/data/{wildcards.text}/manifest.json"]
    return [manifest_of_source(source) for source in (made.source, made.vocabulary)]


def source_of_text(wildcards):
    """The dump and the vocabulary, as arguments; a sample has both in its folder."""
    made = prepared("text", wildcards.text)
    if made.source is None:
        folder = f"results/data/{wildcards.text}"
        return ["--dump", f"{folder}/{SAMPLE_DUMP}", "--vocabulary", f"{folder}/vocab.txt"]
    return ["--dump", first_file(made.source), "--vocabulary", first_file(made.vocabulary)]


SAMPLE_DUMP = "sample-pages-articles-multistream.xml.bz2"


def of_clicks(wildcards):
    """The manifest of the file that has the rows."""
    source = prepared("clicks", wildcards.clicks).source
    return (
        manifest_of_source(source) if source else f"results/data/{wildcards.clicks}/manifest.json"
    )


def of_questions(wildcards):
    """The manifests of a set of questions' source, its vocabulary, and its weights if it has any."""
    made = prepared("questions", wildcards.questions)
    names = filter(None, (made.source, made.vocabulary, made.weights))
    return [manifest_of_source(source) for source in names]


def source_of_questions(wildcards):
    """The files, as arguments."""
    made = prepared("questions", wildcards.questions)
    files = [file.name for file in data_config().sources[made.source].files]
    if len(files) < 2:
        raise WorkflowError(
            f"config/data.yaml: sources.{made.source} needs a second file, to test with"
        )
    folder = f"results/data/downloads/{made.source}"
    arguments = ["--train", f"{folder}/{files[0]}", "--test", f"{folder}/{files[1]}"]
    arguments += ["--vocabulary", first_file(made.vocabulary)]
    if not made.weights:
        return arguments
    kind = wildcards.questions
    workload = next(each for each in workloads.NAMES if kind in workloads.data(each))
    return [*arguments, "--weights", first_file(made.weights), "--workload", workload]


def file_of_tokens(wildcards):
    made = prepared("tokens", wildcards.tokens)
    return first_file(made.source) if made.source else made.file


def of_tokens(wildcards):
    """The manifest of a corpus' source, or its files."""
    made = prepared("tokens", wildcards.tokens)
    if made.source:
        return manifest_of_source(made.source)
    file = Path(made.file)
    if not file.is_file():
        raise WorkflowError(
            f"config/data.yaml: prepared.tokens.{wildcards.tokens}.file: {file}: no such file; "
            "name the .bin that has the tokens"
        )
    index = file.with_suffix(".idx")
    return [str(each) for each in (file, index) if each.is_file()]


def mindspore_for(wildcards):
    """MindSpore's environment for MindRecord, which only MindSpore can write."""
    return environment_of("mindspore") if wildcards.format == "mindrecord" else []


def named_environment(wildcards, input):
    return ["--environment", input.environment] if input.environment else []


def data_of_round(wildcards=None):
    return sorted(
        {each for case in CASES if not case.unsupported for each in manifests_of_case(case)}
    )


rule data:
    input:
        data_of_round,
    localrule: True


rule sample:
    output:
        "results/data/{sample}/manifest.json",
    log:
        "results/data/{sample}.log",
    wildcard_constraints:
        sample="|".join(SAMPLES),
    priority: FIRST
    localrule: True
    threads: 1
    params:
        module=lambda wildcards: SAMPLES[wildcards.sample],
        folder=subpath(output[0], parent=True),
    shell:
        PYTHON + " -m dlperf.prepare.{params.module} --out {params.folder:q} > {log:q} 2>&1"


rule fetch:
    output:
        # kept until it is written again, as it pins files without a published checksum
        update("results/data/downloads/{source}/manifest.json"),
    log:
        "results/data/downloads/{source}.log",
    wildcard_constraints:
        source="[A-Za-z0-9._-]+",
    localrule: True  # nodes of a cluster often have no access to the internet
    threads: 1
    params:
        folder=subpath(output[0], parent=True),
    shell:
        # errors go to the terminal too
        PYTHON + " -m dlperf.prepare.fetch --source {wildcards.source:q} --out {params.folder:q}"
        " 2>&1 > {log:q} | tee -a {log:q} >&2"


rule images:
    input:
        source=of_images,
        environment=mindspore_for,
    output:
        "results/data/{images}-{format}/manifest.json",
    log:
        "results/data/{images}-{format}.log",
    wildcard_constraints:
        images="[a-z]+(-test)?",
        format="folders|tfrecord|recordio|ofrecord|mindrecord|webdataset",
    threads: lambda wildcards: all_cores(8)
    resources:
        runtime=1440,
    params:
        source=source_of_images,
        environment=named_environment,
        labels=labels_of_images,
        shards=lambda wildcards: prepared("images", wildcards.images).shards,
        folder=subpath(output[0], parent=True),
    shell:
        PYTHON + " -m dlperf.prepare.images --source {params.source:q} {params.labels:q}"
        " --dataset {wildcards.images:q}"
        " --format {wildcards.format:q} {params.environment:q} --shards {params.shards:q}"
        " --jobs {threads} --out {params.folder:q} > {log:q} 2>&1"


rule clicks:
    input:
        of_clicks,
    output:
        "results/data/{clicks}-npz/manifest.json",
    log:
        "results/data/{clicks}-npz.log",
    wildcard_constraints:
        clicks="criteo[a-z0-9-]*",
    threads: lambda wildcards: all_cores(8)
    resources:
        runtime=1440,
    params:
        shards=lambda wildcards: prepared("clicks", wildcards.clicks).shards,
        source=subpath(input[0], parent=True),
        folder=subpath(output[0], parent=True),
    shell:
        PYTHON + " -m dlperf.prepare.criteo --source {params.source:q} --shards {params.shards:q}"
        " --jobs {threads}"
        " --out {params.folder:q} > {log:q} 2>&1"


rule questions:
    input:
        of_questions,
    output:
        "results/data/{questions}/manifest.json",
    log:
        "results/data/{questions}.log",
    wildcard_constraints:
        questions="squad[0-9]*",
    threads: 1
    params:
        source=source_of_questions,
        folder=subpath(output[0], parent=True),
    shell:
        PYTHON
        + " -m dlperf.prepare.questions {params.source:q} --out {params.folder:q} > {log:q} 2>&1"


rule tokens:
    input:
        of_tokens,
    output:
        "results/data/{tokens}/manifest.json",
    log:
        "results/data/{tokens}.log",
    wildcard_constraints:
        tokens="tokens[0-9]*",
    threads: 1
    resources:
        runtime=1440,
    params:
        file=file_of_tokens,
        vocabulary=lambda wildcards: prepared("tokens", wildcards.tokens).vocabulary_size,
        folder=subpath(output[0], parent=True),
    shell:
        PYTHON + " -m dlperf.prepare.tokens --file {params.file:q}"
        " --vocabulary-size {params.vocabulary:q} --out {params.folder:q} > {log:q} 2>&1"


rule documents:
    input:
        of_text,
    output:
        "results/data/{text}-documents/manifest.json",
    log:
        "results/data/{text}-documents.log",
    wildcard_constraints:
        text="[a-z-]+",
    threads: lambda wildcards: all_cores(8)
    resources:
        runtime=1440,
    params:
        source=source_of_text,
        shards=lambda wildcards: prepared("text", wildcards.text).shards,
        folder=subpath(output[0], parent=True),
    shell:
        PYTHON + " -m dlperf.prepare.wikipedia {params.source:q} --shards {params.shards:q}"
        " --jobs {threads} --documents {params.folder:q} > {log:q} 2>&1"


rule corpus:
    input:
        documents="results/data/{text}-documents/manifest.json",
    output:
        "results/data/{text}-corpus/manifest.json",
    log:
        "results/data/{text}-corpus.log",
    wildcard_constraints:
        text="[a-z-]+",
    threads: 1
    resources:
        runtime=240,
    params:
        documents=subpath(input.documents, parent=True),
        folder=subpath(output[0], parent=True),
    shell:
        PYTHON + " -m dlperf.prepare.wikipedia --documents {params.documents:q}"
        " --corpus {params.folder:q} > {log:q} 2>&1"


rule examples:
    input:
        documents="results/data/{text}-documents/manifest.json",
        environment=mindspore_for,
    output:
        "results/data/{text}-seq{tokens}-{format}/manifest.json",
    log:
        "results/data/{text}-seq{tokens}-{format}.log",
    wildcard_constraints:
        text="[a-z-]+",
        tokens="[0-9]+",
        format="tfrecord|ofrecord|mindrecord|hdf5|npz",
    threads: lambda wildcards: all_cores(8)
    resources:
        runtime=1440,
    params:
        documents=subpath(input.documents, parent=True),
        environment=named_environment,
        duplicates=lambda wildcards: prepared("text", wildcards.text).duplicates,
        folder=subpath(output[0], parent=True),
    shell:
        PYTHON + " -m dlperf.prepare.wikipedia --documents {params.documents:q}"
        " --sequence-length {wildcards.tokens:q} --format {wildcards.format:q}"
        " {params.environment:q} --duplicates {params.duplicates:q}"
        " --jobs {threads} --out {params.folder:q} > {log:q} 2>&1"
