"""Which formats of images the frameworks' own readers take."""

#: The format that a framework's own reader of images takes. JAX has none: its users decode files.
OF_FRAMEWORK = {
    "pytorch": "folders",
    "tensorflow": "tfrecord",
    "tensorflow1": "tfrecord",
    "mxnet": "recordio",
    "paddlepaddle": "folders",
    "oneflow": "ofrecord",
    "mindspore": "mindrecord",
    "jax": "folders",
}
#: Frameworks whose own reader is part of a graph that is built before anything runs: it cannot wait
#: until the quality scenario may touch its data.
IN_GRAPH = ("tensorflow1",)
