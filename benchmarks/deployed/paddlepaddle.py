"""How PaddlePaddle's documents deploy a layer; public modules of several workloads infer so."""

import os
import tempfile

import paddle
import paddle.inference


def predictor(run, layer, specs):
    """The saved program in paddle.inference's predictor with oneDNN, from arrays to the output."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        paddle.jit.save(layer, path, input_spec=specs)
        config = paddle.inference.Config(path + ".json", path + ".pdiparams")
        config.disable_glog_info()
        config.disable_gpu()
        config.set_cpu_math_library_num_threads(run.cores_per_device)
        config.enable_mkldnn()
        made = paddle.inference.create_predictor(config)
    inputs = [made.get_input_handle(name) for name in made.get_input_names()]
    output = made.get_output_handle(made.get_output_names()[0])

    def answer(*arrays):
        for handle, array in zip(inputs, arrays, strict=True):
            handle.copy_from_cpu(array)
        made.run()
        return output.copy_to_cpu()

    return answer
