"""What ran beside an implementation: which files put a cell in doubt."""

import pytest

from dlperf.analysis.round import ran


@pytest.mark.parametrize(
    ("backend", "path", "in_doubt"),
    [
        ("venv", "/env/lib/python3.11/site-packages/torch/_C.so", True),
        ("conda", "/env/lib/python3.11/site-packages/torch/_C.so", True),
        ("container", "/usr/local/lib/python3.12/dist-packages/torch/_C.so", False),
        ("interpreter", "/opt/own/lib/python3.11/site-packages/torch/_C.so", False),
        ("container", "/home/me/faster.py", True),
        ("interpreter", "/home/me/faster.py", True),
    ],
)
def test_a_file_that_no_list_has_is_in_doubt_where_packages_have_lists(backend, path, in_doubt):
    found = ran.of_document(
        {
            "ran_beside": {"strangers": [path], "sha256": "0" * 64},
            "provenance": {"environment_backend": backend},
        }
    )
    assert (found["unvouched"] == f"of nobody: {path}") is in_doubt
    assert in_doubt or found["unvouched"] is None


@pytest.mark.parametrize("backend", ["venv", "container", "interpreter"])
def test_a_package_s_file_that_is_not_as_its_list_says_is_always_in_doubt(backend):
    found = ran.of_document(
        {
            "ran_beside": {"altered": ["/env/site-packages/torch/nn.py"], "sha256": "0" * 64},
            "provenance": {"environment_backend": backend},
        }
    )
    assert found["unvouched"]
