"""What a set of data holds is said in words, whatever kind of set it is."""

import pytest

from dlperf.analysis.report.provenance import contents


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        (
            {"tokens": 918785, "documents": 1189, "vocabulary_learned": 17983},
            "918,785 tokens in 1,189 documents, 17,983 of 30,522 entries of the vocabulary learned "
            "from them",
        ),
        (
            {"tokens": 1121355, "documents": 1189, "vocabulary_size": 2048},
            "1,121,355 tokens in 1,189 documents, of a vocabulary of 2,048",
        ),
        # a flat file does not say where documents end
        ({"tokens": 500, "vocabulary_size": 50257}, "500 tokens, of a vocabulary of 50,257"),
    ],
)
def test_tokens_are_those_of_a_vocabulary(manifest, text):
    assert contents(manifest) == text
