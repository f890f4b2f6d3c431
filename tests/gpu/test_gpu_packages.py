"""Which packages of a lock are installed to look at a GPU's steps without one."""

import re

from gpu_packages import JAX, PYTORCH, TENSORFLOW


def names(packages) -> set[str]:
    return set(re.findall(r"^(\S+?)==", packages.requirements(), re.MULTILINE))


def test_jax_has_of_nvidias_packages_the_assembler_alone():
    assert {each for each in names(JAX) if each.startswith("nvidia-")} == {"nvidia-cuda-nvcc-cu12"}
    assert names(JAX) >= {"jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt", "numpy"}


def test_pytorch_has_the_libraries_that_it_loads_and_no_readers_of_data():
    assert names(PYTORCH) >= {"torch", "triton", "numpy", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"}
    assert not any("dali" in each or "nvjpeg" in each for each in names(PYTORCH))


def test_tensorflow_has_none_of_nvidias_packages():
    assert names(TENSORFLOW) >= {"tensorflow", "numpy"}
    assert not any(each.startswith("nvidia-") for each in names(TENSORFLOW))


def test_every_package_has_its_hashes():
    for packages in (JAX, PYTORCH, TENSORFLOW):
        for block in re.split(r"\n(?=\S)", packages.requirements().rstrip("\n")):
            assert "--hash=sha256:" in block
